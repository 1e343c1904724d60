"""``shockwave simulate``: which scheduler would serve this workload best?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import typer

from shockwave.cli.comparison import comparison_table
from shockwave.cli.console import console, note, one_line_errors, progress_bar
from shockwave.cli.runs import Run, RunResult, execute, execute_all, load_jobs
from shockwave.cli.story import Story, story_table
from shockwave.cli.tenants_file import read_tenants
from shockwave.cli.told import told_kinds, told_table
from shockwave.engine.rounds import Rounds
from shockwave.executors.faults import read_faults
from shockwave.executors.simulation import by_arrival
from shockwave.measure import aggregate
from shockwave.measure.report import write_report
from shockwave.measure.summary import Summary
from shockwave.model.cluster import Cluster
from shockwave.model.errors import InputError
from shockwave.model.events import Starts
from shockwave.model.files import check_writable
from shockwave.model.job import TraceJob
from shockwave.model.words import count_of
from shockwave.plan.window.planner import Solver
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors
from shockwave.protocol.files import atomic_writer
from shockwave.traces.recipe import is_recipe
from shockwave.traces.window import Window

TraceArgument = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        help="A trace file, or a recipe such as 'generated:jobs=120,span_hours=1.5'.",
        show_default=False,
    ),
]


def simulate(
    trace: TraceArgument,
    gpus: Annotated[
        int | None, typer.Option(help="GPUs of the cluster, all of one type.", show_default=False)
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", "-p", help="Repeat to compare several. Default: all.", show_default=False
        ),
    ] = None,
    gpus_per_node: Annotated[int, typer.Option(help="GPUs on each node.")] = 4,
    cluster_text: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="TYPE:NODESxGPUS,...",
            help="Instead of --gpus: a cluster of several types, such as T4:6x4,A100:2x8.",
            show_default=False,
        ),
    ] = None,
    speeds: Annotated[
        Path | None,
        typer.Option(
            help="Seconds per epoch by model, type and number of GPUs, for jobs that bring none.",
            show_default=False,
        ),
    ] = None,
    round_seconds: Annotated[float, typer.Option("--round", help="Seconds a round lasts.")] = 120.0,
    restart_seconds: Annotated[
        float, typer.Option("--restart", help="Seconds that a start costs a job.")
    ] = 20.0,
    starts: Annotated[
        Starts, typer.Option(help="Free GPUs are filled at the start of rounds, or at once.")
    ] = Starts.ROUNDS,
    predictor: Annotated[
        str | None,
        typer.Option(help="Feed every policy from this predictor instead of its own."),
    ] = None,
    solver: Annotated[
        Solver, typer.Option(help="How policies that plan solve: by prices, or exactly (slow).")
    ] = "prices",
    seed: Annotated[int, typer.Option(help="Seed of recipes and of policies that sample.")] = 0,
    seeds: Annotated[
        int, typer.Option(help="Run this many seeds; means with 95 % intervals.", min=1)
    ] = 1,
    faults: Annotated[
        Path | None, typer.Option(help="Failures to inject (JSON Lines, see docs).")
    ] = None,
    tenants: Annotated[
        Path | None,
        typer.Option(help="Tenants and what they were promised (TOML, see docs)."),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            help="Count only jobs that arrive in this part of the trace, such as 0.2,0.8: "
            "for steady systems, which start empty and never end.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes to use. Default: as many as pay off.", min=1)
    ] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write the figures to this file.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option(help="Tell the story of this job (id) under each policy.")
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(help="Write all events of one policy's run here (JSON Lines), to replay."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report to this HTML file.")] = None,
) -> None:
    """Simulate a workload under one or several policies and compare them."""
    with one_line_errors():
        for name in policy or policies.names():
            policies.create(name)  # a wrong name is an error before anything runs
        if predictor is not None and predictor not in predictors.names():
            predictors.create(predictor)
        for path in (json_path, report, journal):
            if path is not None:
                check_writable(path)
        cluster = _cluster(gpus, gpus_per_node, cluster_text)
        rounds = _rounds(round_seconds, restart_seconds)
        counted = None if window is None else Window.parse(window)
        jobs = load_jobs(trace, seed, speeds)
        names = list(dict.fromkeys(policy or _all_policies(cluster, jobs)))
        if counted is not None:
            counted.counts([job.spec.arrival_seconds for job in jobs])
        injected = (
            ()
            if faults is None
            else tuple(read_faults(faults, cluster, {job.spec.id for job in jobs}))
        )
        declared = () if tenants is None else tuple(read_tenants(tenants))
        runs = [
            Run(
                trace, name, seed + offset, cluster, rounds,
                predictor, injected, solver, journal, counted, starts, speeds, declared,
            )
            for name in names
            for offset in range(seeds)
        ]  # fmt: skip
        if explain is not None:
            _tell_story(explain, runs[::seeds], jobs)
            return
        if journal is not None and len(runs) > 1:
            raise InputError(
                f"a journal is of one run, but {len(runs)} were asked for",
                place="--journal",
                hint="Choose one --policy and no --seeds",
            )
        results = _execute(runs, workers)
        groups = [results[i : i + seeds] for i in range(0, len(results), seeds)]
        rows = [_row(group) for group in groups]
        title = _title(trace, len(jobs), cluster, seeds, counted)
        console.print(comparison_table(rows, title, console.width))
        if any(told_kinds(row) for row in rows):
            console.print(told_table(rows))
        if seeds > 1 and not is_recipe(trace):
            note("The trace is a file: seeds vary only policies that sample, not the workload.")
        if json_path is not None:
            _write_json(json_path, [result.summary for result in results] if seeds == 1 else rows)
        if report is not None:
            write_report(
                report,
                [(group[0].summary, group[0].history) for group in groups],
                title=title,
                aggregates=rows if seeds > 1 else None,
            )
            note(f"Report: {report}")


def _tell_story(job: str, runs: list[Run], jobs: Sequence[TraceJob]) -> None:
    ids = [item.spec.id for item in by_arrival(jobs)]
    if job not in ids:
        raise InputError(
            "the trace has no such job",
            place="--explain",
            value=job,
            hint=f"Its jobs are {', '.join(ids[:5])}{' ...' if len(ids) > 5 else ''}",
        )
    handle = ids.index(job)
    for run in runs:
        story = Story(handle)
        history = execute(run, observers=(story,)).history
        finish = float(history.jobs.finish[handle])
        console.print(story_table(story, job, run.policy, None if isnan(finish) else finish))


def _execute(runs: list[Run], workers: int | None) -> list[RunResult]:
    with progress_bar() as bar:
        tasks = [
            bar.add_task(
                run.policy + (f" #{run.seed}" if runs[0].seed != runs[-1].seed else ""),
                total=len(load_jobs(run.trace, run.seed, run.speeds)),
                visible=False,
            )
            for run in runs
        ]

        def show(index: int, done: int) -> None:
            bar.update(tasks[index], completed=done, visible=done > 0)

        return execute_all(runs, workers, show)


def _all_policies(cluster: Cluster, jobs: Sequence[TraceJob]) -> list[str]:
    several_types = len({node.gpu_type for node in cluster.nodes}) > 1
    options = several_types or any(job.spec.has_options for job in jobs)
    names = policies.that_can_run(options=options)
    missing = [name for name in policies.names() if name not in names]
    if missing:
        left_out = ", ".join(missing)
        note(f"Left out: {left_out}, for which pip install 'shockwave-scheduler[milp]' is needed")
    return names


def _cluster(gpus: int | None, gpus_per_node: int, text: str | None) -> Cluster:
    if (gpus is None) == (text is None):
        problem = "is missing" if gpus is None else "cannot be combined with --cluster"
        hint = "Give --gpus 32, or --cluster T4:6x4,A100:2x8"
        raise InputError(problem, place="--gpus", hint=hint)
    return Cluster.parse(text) if text is not None else Cluster.uniform(gpus or 0, gpus_per_node)


def _rounds(round_seconds: float, restart_seconds: float) -> Rounds:
    if not round_seconds > 0:
        raise InputError("must be above 0", place="--round", value=round_seconds)
    if not 0 <= restart_seconds < round_seconds:
        raise InputError(
            "must be at least 0 and below --round, or no job would ever make progress",
            place="--restart",
            value=restart_seconds,
        )
    return Rounds(round_seconds, restart_seconds)


def _row(group: list[RunResult]) -> Summary:
    summaries = [result.summary for result in group]
    return summaries[0] if len(group) == 1 else aggregate(summaries)


def _title(trace: str, jobs: int, cluster: Cluster, seeds: int, window: Window | None) -> str:
    name = trace if is_recipe(trace) else Path(trace).name
    seeded = f", {seeds} seeds (mean ± 95 % interval)" if seeds > 1 else ""
    counted = (
        f", counted if they arrive in {window.start:.0%}-{window.stop:.0%} of the time"
        if window is not None
        else ""
    )
    nodes = count_of(len(cluster.nodes), "node")
    named = [f"{gpus} {name}" for name, gpus in cluster.types.items() if name != "gpu"]
    where = f"{count_of(cluster.gpus, 'GPU')} ({', '.join([*named, nodes])})"
    return f"{name}: {count_of(jobs, 'job')} on {where}{counted}{seeded}"


def _write_json(path: Path, rows: list[Summary]) -> None:
    with atomic_writer(path) as file:
        json.dump(_rounded(rows), file, indent=1)
        file.write("\n")


def _rounded(value: Any) -> Any:
    """Nine digits: more than anyone reads, fewer than processors disagree about."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value
