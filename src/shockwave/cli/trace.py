"""``shockwave trace``: make a workload, convert one, or look at one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from shockwave.cli.console import console, duration, note, one_line_errors, progress_bar
from shockwave.cli.trace_page import trace_page
from shockwave.model.errors import InputError
from shockwave.model.files import check_writable
from shockwave.model.words import count_of
from shockwave.protocol.files import atomic_writer
from shockwave.traces import TraceDescription, describe, load, native, write
from shockwave.traces.base import Rejects
from shockwave.traces.convert import Conversion, Selection
from shockwave.traces.formats import FORMATS, find_format
from shockwave.traces.recipe import PREFIX, is_recipe, parse_recipe
from shockwave.traces.synthesis import Synthesiser

app = typer.Typer(no_args_is_help=True)

_SHOWN = 8  # entries of a list of shares, before the rest is only counted
_ROWS_A_TICK = 1000  # of the progress bar

FormatOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        help=f"The source's format; else it is recognised. One of {', '.join(FORMATS.built_in)}.",
        show_default=False,
    ),
]
ProfilesOption = Annotated[
    Path | None,
    typer.Option(
        help="Profiles that the source needs: throughputs of a .trace (JSON), or the folder of "
        "a Pollux or Sia workload's applications.",
        show_default=False,
    ),
]


@app.callback()
def trace() -> None:
    """Make workloads, convert them and look at them."""


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
        note(f"Wrote {count_of(len(jobs), 'job')} to {output}")


@app.command()
def convert(
    source: Annotated[
        Path, typer.Argument(metavar="SRC", help="A trace of any format.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="OUT.jsonl, OUT.jsonl.gz or OUT.jsonl.zst."),
    ],
    format: FormatOption = None,
    profiles: ProfilesOption = None,
    jobs: Annotated[int | None, typer.Option(help="Only the first so many by arrival.")] = None,
    from_time: Annotated[
        str | None, typer.Option(help="Only from here on: a date, or seconds of the trace.")
    ] = None,
    to_time: Annotated[str | None, typer.Option(help="Only before this.")] = None,
    scale_arrivals: Annotated[
        float, typer.Option(help="Multiply arrivals by this; 0.5 is twice the load.")
    ] = 1.0,
    gpus_max: Annotated[int | None, typer.Option(help="Only jobs of at most so many GPUs.")] = None,
    sample: Annotated[float, typer.Option(help="Share of the jobs to keep, by chance.")] = 1.0,
    synthesise: Annotated[
        bool,
        typer.Option(
            "--synthesise",
            help="Give jobs regimes, and options with -s elastic=0.5, where the source has none.",
        ),
    ] = False,
    mix: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="With --synthesise: gns=0.5, types=T4:1/A100:4, ..."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of --sample and --synthesise.", min=0)] = 0,
    rejects_path: Annotated[
        Path | None,
        typer.Option("--rejects", help="Write rows that cannot be used here (JSON Lines)."),
    ] = None,
) -> None:
    """Convert a trace, or a part of it, to the native format; nothing disappears silently."""
    with one_line_errors(), ExitStack() as stack:
        for path in (output, rejects_path):
            if path is not None:
                check_writable(path)
        if not output.name.lower().endswith(native.NativeFormat.suffixes):
            expected = f"must end in {', '.join(native.NativeFormat.suffixes)}"
            raise InputError(expected, place="--output", value=output.name)
        if mix and not synthesise:
            raise InputError("needs --synthesise", place="--set", value=mix[0])
        selection = Selection(
            jobs, from_time, to_time, scale_arrivals, gpus_max, sample, seed if sample < 1 else 0
        )
        if is_recipe(str(source)):
            raise InputError(
                "is a recipe and no file",
                source=str(source),
                hint="`shockwave trace generate OUT.jsonl -s jobs=120` writes such a workload",
            )
        entry = find_format(source, format, profiles)
        bar = stack.enter_context(progress_bar("rows"))
        task = bar.add_task(f"{entry.name}: looking", total=None)

        def show(rows: int, total: int | None) -> None:
            if rows % _ROWS_A_TICK == 0:
                what = "looking" if total is None else "writing"
                bar.update(task, completed=rows, total=total, description=f"{entry.name}: {what}")

        conversion = Conversion(
            source,
            entry,
            selection,
            Synthesiser(seed, parse_recipe(PREFIX + ",".join(mix or []))) if synthesise else None,
            show,
        )
        rejects = Rejects(
            None if rejects_path is None else stack.enter_context(atomic_writer(rejects_path))
        )
        written = write(conversion.jobs(rejects), output, header=conversion.header())
    _tell(conversion, rejects, written, output)


def _tell(conversion: Conversion, rejects: Rejects, written: int, output: Path) -> None:
    note(f"Wrote {written:,} of {rejects.rows:,} rows ({conversion.entry.name}) to {output}")
    if conversion.left_out:
        note(f"Left out: {conversion.told()}")
    for reason, count in rejects.reasons.most_common():
        note(f"Rejected: rows that {reason}: {count:,}")


@app.command()
def inspect(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="A trace file or a recipe.")],
    gpus: Annotated[int | None, typer.Option(help="Describe it relative to this cluster.")] = None,
    format: FormatOption = None,
    profiles: ProfilesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Draw it: arrivals, load, durations; one HTML file.")
    ] = None,
) -> None:
    """Describe a workload: how many jobs, how large, how long, how adaptive, whose."""
    with one_line_errors():
        if html is not None:
            check_writable(html)
        jobs = load(trace, format=format, profiles=profiles)
        description = describe(jobs, gpus)
        if as_json:
            typer.echo(json.dumps(dataclasses.asdict(description), indent=1))
        else:
            console.print(_table(description, trace))
        if html is not None:
            with atomic_writer(html) as file:
                file.write(trace_page(jobs, description, Path(trace).name))
            note(f"Picture: {html}")


def _table(about: TraceDescription, name: str) -> Table:
    table = Table(title=name, title_justify="left", title_style="bold", show_header=False)
    table.add_column(style="bold")
    table.add_column()

    def shares(counts: Mapping[str, int] | Mapping[int, int]) -> str:
        shown = [f"{key} {_share(count / about.jobs)}" for key, count in [*counts.items()][:_SHOWN]]
        more = len(counts) - _SHOWN
        return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")

    quantiles = about.exclusive_seconds_quantiles
    rows = [
        ("jobs", f"{about.jobs:,}"),
        ("arrive over", duration(about.arrival_span_seconds)),
        ("work", f"{about.gpu_hours:,.0f} GPU-hours"),
        ("GPUs per job", shares(about.gang_sizes)),
        ("models", shares(about.models)),
        ("adaptations", shares(about.adaptations)),
        ("really adapt", f"{about.adapting_jobs / about.jobs:.0%}"),
        ("runtime alone", ", ".join(f"p{q * 100:g} {duration(s)}" for q, s in quantiles.items())),
        ("time between arrivals", ", ".join(
            f"p{q * 100:g} {duration(s)}" for q, s in about.interarrival_seconds_quantiles.items()
        )),
        ("GPUs if all ran at once they arrive", f"mean {about.mean_gpus_wanted:,.1f}, "
         f"at most {about.most_gpus_wanted:,}"),
    ]  # fmt: skip
    if len(about.tenants) > 1:
        rows.append(("tenants or queues", shares(about.tenants)))
    if about.users:
        rows.append(("users", shares(about.users)))
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
                (
                    "too large",
                    f"{count_of(about.oversized_jobs, 'job')} of more than "
                    f"{count_of(about.gpus, 'GPU')}",
                )
            )
    for label, value in rows:
        table.add_row(label, value)
    return table


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.2%}"
