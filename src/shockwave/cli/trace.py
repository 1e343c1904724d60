"""``shockwave trace``: make a workload, or look at one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from shockwave.cli.console import console, duration, note, one_line_errors
from shockwave.model.files import check_writable
from shockwave.traces import TraceDescription, describe, load, write
from shockwave.traces.recipe import PREFIX

app = typer.Typer(help="Make workloads and look at them.", no_args_is_help=True)


@app.command()
def generate(
    output: Annotated[Path, typer.Argument(help="File to write.", show_default=False)],
    recipe: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", help="A knob of the mix, e.g. jobs=120 or gns=0.5; repeat for more."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same trace.")] = 0,
) -> None:
    """Generate a workload with the paper's mix of models, gangs, durations and adaptations."""
    with one_line_errors():
        check_writable(output)
        jobs = load(PREFIX + ",".join(recipe or []), seed=seed)
        write(jobs, output)
        note(f"Wrote {len(jobs):,} jobs to {output}")


@app.command()
def inspect(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="A trace file or a recipe.")],
    gpus: Annotated[int | None, typer.Option(help="Describe it relative to this cluster.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Describe a workload: how many jobs, how large, how long, how adaptive."""
    with one_line_errors():
        description = describe(load(trace), gpus)
        if as_json:
            typer.echo(json.dumps(dataclasses.asdict(description), indent=1))
        else:
            console.print(_table(description, trace))


def _table(about: TraceDescription, name: str) -> Table:
    table = Table(title=name, title_justify="left", title_style="bold", show_header=False)
    table.add_column(style="bold")
    table.add_column()

    def shares(counts: dict[str, int] | dict[int, int]) -> str:
        return ", ".join(f"{key} {count / about.jobs:.0%}" for key, count in counts.items())

    quantiles = about.exclusive_seconds_quantiles
    rows = [
        ("jobs", f"{about.jobs:,}"),
        ("arrive over", duration(about.arrival_span_seconds)),
        ("work", f"{about.gpu_hours:,.0f} GPU-hours"),
        ("GPUs per job", shares(dict(about.gang_sizes))),
        ("models", shares(dict(about.models))),
        ("adaptations", shares(dict(about.adaptations))),
        ("really adapt", f"{about.adapting_jobs / about.jobs:.0%}"),
        ("runtime alone", ", ".join(f"p{q * 100:g} {duration(s)}" for q, s in quantiles.items())),
    ]
    if len(about.tenants) > 1:
        rows.append(("tenants", shares(dict(about.tenants))))
    if about.gpus is not None:
        rows += [
            ("jobs per GPU", f"{about.contention:.2f}"),
            (
                "offered load",
                "all at once" if about.offered_load is None else f"{about.offered_load:.0%}",
            ),
            ("makespan bound", duration(about.makespan_lower_bound_seconds)),
        ]
        if about.oversized_jobs:
            rows.append(
                ("too large", f"{about.oversized_jobs} jobs need more than {about.gpus} GPUs")
            )
    for label, value in rows:
        table.add_row(label, value)
    return table
