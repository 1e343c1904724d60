"""``shockwave replay``: a live run once more in the simulator, and how far the two differ."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from shockwave.cli.console import console, duration, note, one_line_errors
from shockwave.cli.journals import StateDirOption, events_of
from shockwave.cli.told import told_kinds, told_table
from shockwave.measure.replay import Figure, Replay
from shockwave.measure.replay import replay as replay_events
from shockwave.measure.replay_diff import Difference, SeenJob
from shockwave.model.words import count_of

_NAMES = {
    "makespan_seconds": "makespan, from the first arrival",
    "mean_jct_seconds": "mean JCT",
    "worst_ftf_static": "worst FTF (static)",
    "worst_ftf_themis": "worst FTF (themis)",
    "worst_ftf_egalitarian": "worst FTF (egalitarian)",
}


def replay(
    journal: Annotated[
        str,
        typer.Argument(
            metavar="JOURNAL",
            help="A journal (JSON Lines), a state directory, or the URL of its database.",
            show_default=False,
        ),
    ],
    policy: Annotated[
        str | None, typer.Option("--policy", "-p", help="Simulate under another policy.")
    ] = None,
    predictor: Annotated[str | None, typer.Option(help="Feed the policy from this one.")] = None,
    restart_seconds: Annotated[
        float | None,
        typer.Option("--restart-seconds", "--restart", min=0.0, help="Default: as measured."),
    ] = None,
    diff: Annotated[
        bool,
        typer.Option("--diff", help="Show the first round that was decided otherwise, and why."),
    ] = False,
    state_dir: StateDirOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Re-run a live run in the simulator and compare makespan, JCT and fairness."""
    with one_line_errors():
        result = replay_events(
            events_of(journal, state_dir),
            policy=policy,
            predictor=predictor,
            restart_seconds=restart_seconds,
        )
        if as_json:
            typer.echo(json.dumps(_document(result), indent=1))
            return
        console.print(_table(result, journal))
        overheads = result.run.overheads
        note(
            f"A start took {duration(overheads.start_seconds)} on average until the job reported, "
            f"an end {duration(overheads.end.leave)} and {duration(overheads.end.notice)} "
            "until it was noticed; these and the epoch times are those of the run."
        )
        told = {"policy": result.policy, **result.told}
        if told_kinds(told):
            console.print(told_table([told]))
        if diff:
            _show_difference(result.difference)


def _show_difference(found: Difference | None) -> None:
    if found is None:
        console.print("Every round that both decided on runs the same jobs in both.")
        return
    live, simulated = found.live, found.simulated
    title = (
        f"Round {live.round} is the first that differs, after {found.alike} alike: "
        f"{live.gpus} GPUs live at {live.time:.1f} s, {simulated.gpus} simulated"
    )
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for header in ("job", "live", "simulated"):
        table.add_column(header)
    for job in found.jobs:
        table.add_row(job, _seen(live.jobs.get(job)), _seen(simulated.jobs.get(job)))
    console.print(table)
    if found.starts is not None:
        lived, replayed = found.starts
        console.print(
            f"The first start that differs: {lived.job} at {lived.time:.1f} s live, "
            f"{replayed.job} at {replayed.time:.1f} s simulated."
        )


def _seen(job: SeenJob | None) -> str:
    if job is None:
        return "is not there"
    verb = "runs" if job.runs else "waits"
    words = [
        f"{verb}, {job.epochs_done:g} epochs in {duration(job.received_seconds)}",
        count_of(job.restarts, "restart"),
    ]
    if job.start_seconds is not None:
        words.append(f"start {duration(job.start_seconds)}")
    if job.runs and job.unsaved_seconds is not None:
        words.append(f"unsaved {duration(job.unsaved_seconds)}")
    return ", ".join(words)


def _table(result: Replay, journal: str) -> Table:
    title = (
        f"{journal}: {count_of(len(result.run.jobs), 'job')} on "
        f"{count_of(result.live.gpus, 'GPU')}, "
        f"{result.policy} fed by {result.predictor}"
    )
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("figure")
    for header in ("live", "simulated", "difference"):
        table.add_column(header, justify="right")
    for figure in result.figures:
        difference = figure.relative_difference
        table.add_row(
            _NAMES[figure.name],
            _shown(figure.name, figure.live),
            _shown(figure.name, figure.simulated),
            "-" if difference is None else f"{difference:+.1%}",
        )
    return table


def _shown(name: str, value: float | None) -> str:
    if value is None or name.endswith("_seconds"):
        return duration(value)
    return f"{value:.2f}"


def _document(result: Replay) -> dict[str, object]:
    return {
        "policy": result.policy,
        "predictor": result.predictor,
        "jobs": len(result.run.jobs),
        "gpus": result.live.gpus,
        "round_seconds": result.run.settings.round_seconds,
        "restart_seconds": result.run.overheads.start_seconds,
        "end_seconds": result.run.overheads.end.leave,
        "notice_seconds": result.run.overheads.end.notice,
        "faults": len(result.run.faults),
        "first_difference": None if result.difference is None else asdict(result.difference),
        "told": result.told,
        "figures": {figure.name: _figure(figure) for figure in result.figures},
    }


def _figure(figure: Figure) -> dict[str, float | None]:
    return {
        "live": figure.live,
        "simulated": figure.simulated,
        "relative_difference": figure.relative_difference,
    }
