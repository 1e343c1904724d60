"""``shockwave reproduce``: the workloads of other papers, our figures beside the published ones."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from shockwave.cli.console import console, note, one_line_errors, progress_bar
from shockwave.cli.published import (
    NSDI23_POLICIES,
    SIA_TABLE_4,
    SIA_TYPES,
    Published,
    nsdi23_results,
)
from shockwave.cli.runs import Run, execute_all, load_jobs
from shockwave.engine.rounds import Rounds
from shockwave.measure import aggregate
from shockwave.measure.summary import Summary
from shockwave.model.cluster import Cluster
from shockwave.model.errors import InputError
from shockwave.model.files import check_writable
from shockwave.model.job import TraceJob
from shockwave.model.speeds import Speeds
from shockwave.policies.registry import POLICIES
from shockwave.protocol.files import atomic_writer
from shockwave.traces import load, write
from shockwave.traces.nsdi23 import WORKLOADS, jobs_of

app = typer.Typer(no_args_is_help=True)

SourceOption = Annotated[
    Path, typer.Option("--source", help="A clone of their repository.", show_default=False)
]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option("--policy", "-p", help="Repeat for several. Default: those of the paper."),
]
JsonOption = Annotated[
    Path | None, typer.Option("--json", help="Write both sets of figures to this file.")
]
WorkersOption = Annotated[int | None, typer.Option(help="Processes to use.", min=1)]
SaveOption = Annotated[
    Path | None, typer.Option("--save", help="Keep the converted traces in this folder.")
]

# The clusters of Sia's evaluation.
_SIA_EQUAL = "T4:16x4"
_SIA_TYPES = "T4:6x4,2080Ti:3x8,A100:2x8"

_COLUMNS = {
    "makespan_seconds": ("makespan\nh", 3600.0, "{:.2f}"),
    "mean_jct_seconds": ("mean JCT\nh", 3600.0, "{:.2f}"),
    "p99_jct_seconds": ("p99 JCT\nh", 3600.0, "{:.2f}"),
    "worst_ftf_static": ("worst FTF\nstatic", 1.0, "{:.2f}"),
    "unfair_static": ("unfair\nstatic %", 0.01, "{:.1f}"),
}


@app.callback()
def reproduce() -> None:
    """Run the workloads of other papers, from clones of their repositories."""


@app.command()
def nsdi23(
    source: SourceOption,
    gpus: Annotated[
        int, typer.Option(help=f"Which workload: {', '.join(map(str, WORKLOADS))} GPUs.")
    ] = 32,
    policy: PolicyOption = None,
    json_path: JsonOption = None,
    save: SaveOption = None,
    workers: WorkersOption = None,
) -> None:
    """Shockwave (NSDI '23): its canonical traces, rounds of 120 s, a start costs 20 s."""
    with one_line_errors():
        if gpus not in WORKLOADS:
            expected = f"must be one of {', '.join(map(str, WORKLOADS))}"
            raise InputError(expected, place="--gpus", value=gpus)
        _check(policy)
        workload = WORKLOADS[gpus]
        jobs = jobs_of(source, workload)
        published = nsdi23_results(source, workload.trace)
        ours = _simulated(
            {f"nsdi23-{gpus}gpu": jobs},
            policy or ["shockwave", *NSDI23_POLICIES],
            Cluster.uniform(gpus, 4),
            Rounds(120.0, 20.0),
            save,
            workers,
            json_path,
        )
        title = f"NSDI '23: {len(jobs)} jobs on {gpus} GPUs, ours and published"
        console.print(_table(ours, published, title))
        note(
            "Published: the results that the authors ship with their repository "
            "(scheduler/reproduce/pickles/tacc_32gpus)."
            if published
            else "No figures are published for this workload: figure 9 of the paper has bars only."
        )
        _write(json_path, ours, published)


@app.command()
def sia(
    source: SourceOption,
    policy: PolicyOption = None,
    types: Annotated[
        bool, typer.Option("--types", help="On 64 GPUs of three types instead of 64 equal ones.")
    ] = False,
    workloads: Annotated[
        int | None, typer.Option(help="Only the first so many.", min=1, show_default=False)
    ] = None,
    json_path: JsonOption = None,
    save: SaveOption = None,
    workers: WorkersOption = None,
) -> None:
    """Sia (SOSP '23): its Philly workloads on 64 GPUs, elastic; rounds of 60 s, of others 360 s."""
    with one_line_errors():
        simulator = source / "sia-simulator"
        paths = sorted((simulator / "workloads" / "philly").glob("workload-*.csv"))
        if not paths or not (simulator / "traces").is_dir():
            raise InputError(
                "is no clone of Sia's repository",
                source=str(source),
                place="sia-simulator/workloads/philly",
                hint="git clone https://github.com/siasosp23/artifacts",
            )
        if workloads is not None and workloads > len(paths):
            raise InputError(
                f"there are {len(paths)} workloads", place="--workloads", value=workloads
            )
        paths = paths[:workloads]
        _check(policy)
        cluster = Cluster.parse(_SIA_TYPES if types else _SIA_EQUAL)
        traces = {
            f"sia-{path.stem}": [
                _on_types_of(cluster, job)
                for job in load(path, format="sia", profiles=simulator / "traces")
            ]
            for path in paths
        }
        published = SIA_TYPES if types else SIA_TABLE_4
        ours = _simulated(
            traces,
            policy or ["shockwave", *published],
            cluster,
            Rounds(360.0, 30.0),
            save,
            workers,
            json_path,
            rounds_of=dict.fromkeys(("shockwave", "sia", "pollux"), Rounds(60.0, 30.0)),
        )
        count = sum(map(len, traces.values()))
        where = "64 GPUs of three types" if types else "64 equal GPUs"
        title = f"Sia: {len(traces)} workloads, {count:,} jobs, {where}; means, ours and published"
        console.print(_table(ours, published, title))
        note(
            "Published: figures of the paper. In ours every job tunes its batch size on what it "
            "holds; in the paper those that are not resized keep the one that they ask for, or one "
            "that was tuned for this cluster beforehand. Gavel is the policy 'mst' in the paper."
        )
        _write(json_path, ours, published)


def _check(policies: Sequence[str] | None) -> None:
    """Before anything is converted, which takes a while. Raises :class:`InputError`."""
    for name in policies or ():
        POLICIES.load(name)


def _on_types_of(cluster: Cluster, job: TraceJob) -> TraceJob:
    """The job with what it can use of this cluster, which is all that its trace has to say."""
    if job.speeds is None:
        return job
    speeds = Speeds({name: job.speeds.by_type[name] for name in cluster.types})
    spec = replace(job.spec, gpu_types=speeds.types, gpu_counts=speeds.counts)
    return replace(job, spec=spec, speeds=speeds)


def _simulated(
    traces: Mapping[str, Sequence[TraceJob]],
    policies: Sequence[str],
    cluster: Cluster,
    rounds: Rounds,
    save: Path | None,
    workers: int | None,
    json_path: Path | None,
    rounds_of: Mapping[str, Rounds] | None = None,
) -> dict[str, Summary]:
    """Every policy on every trace; means over traces where there are several.

    ``rounds_of`` are policies with rounds of their own.
    """
    if json_path is not None:
        check_writable(json_path)
    with tempfile.TemporaryDirectory() as temporary, progress_bar() as bar:
        folder = save or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{name}.jsonl" for name in traces]
        for path, jobs in zip(paths, traces.values(), strict=True):
            write(jobs, path)
        names = list(dict.fromkeys(policies))
        own = rounds_of or {}
        runs = [
            Run(str(path), name, 0, cluster, own.get(name, rounds))
            for name in names
            for path in paths
        ]
        tasks = [
            bar.add_task(run.policy, total=len(load_jobs(run.trace, 0)), visible=False)
            for run in runs
        ]

        def show(index: int, done: int) -> None:
            bar.update(tasks[index], completed=done, visible=done > 0)

        results = [result.summary for result in execute_all(runs, workers, show)]
    groups = [results[i : i + len(paths)] for i in range(0, len(results), len(paths))]
    return {
        name: group[0] if len(group) == 1 else aggregate(group)
        for name, group in zip(names, groups, strict=True)
    }


def _table(ours: Mapping[str, Summary], published: Mapping[str, Published], title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("policy", no_wrap=True)
    for header, _, _ in _COLUMNS.values():
        table.add_column(f"{header}\nours", justify="right")
        table.add_column("\n\npaper", justify="right", style="dim", no_wrap=True)
    for name in dict.fromkeys([*ours, *published]):
        cells = []
        for metric, (_, unit, form) in _COLUMNS.items():
            theirs = getattr(published.get(name), metric, None)
            cells += [
                "-" if value is None else form.format(value / unit)
                for value in (_mean(ours.get(name), metric), theirs)
            ]
        table.add_row(name, *cells)
    return table


def _mean(summary: Summary | None, metric: str) -> float | None:
    value: Any = None if summary is None else summary[metric]
    mean: float | None = value["mean"] if isinstance(value, dict) else value
    return mean


def _write(
    path: Path | None, ours: Mapping[str, Summary], published: Mapping[str, Published]
) -> None:
    if path is None:
        return
    document = {
        "ours": {name: {m: _mean(row, m) for m in _COLUMNS} for name, row in ours.items()},
        "published": {name: asdict(figures) for name, figures in published.items()},
    }
    with atomic_writer(path) as file:
        json.dump(document, file, indent=1)
        file.write("\n")
