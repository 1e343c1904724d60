"""``shockwave shadow``: watch another scheduler's queue, decide without acting, and report."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from shockwave.cli.client import JsonOption, print_json
from shockwave.cli.console import console, note, one_line_errors
from shockwave.engine.journal import FileJournal
from shockwave.engine.rounds import Rounds
from shockwave.executors.slurm.watch import SeenJob, SlurmWatch
from shockwave.measure.shadow import ASSUMPTIONS, ShadowReport, journal_of
from shockwave.measure.shadow import report as compare
from shockwave.measure.shadow_rounds import ShadowRounds
from shockwave.measure.weekly_page import HEAD_OF_SHADOW, shadow_rows
from shockwave.model.errors import ExecutorError, InputError
from shockwave.model.words import count_of
from shockwave.policies.registry import POLICIES
from shockwave.protocol.files import atomic_bytes

SEEN = "seen.json"  # jobs by number, as Slurm last told of them
DECISIONS = "decisions.jsonl"
JOURNAL = "journal.jsonl"


def shadow(
    cluster: Annotated[str, typer.Argument(metavar="slurm", help="What to watch.")],
    state_dir: Annotated[
        Path, typer.Option(help="Where what was seen and decided is kept.")
    ] = Path("shadow"),
    policy: Annotated[
        list[str] | None, typer.Option("--policy", "-p", help="Who decides. Repeat.")
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(min=1, help="GPUs of the cluster. Default: the most ever seen in use."),
    ] = None,
    round_seconds: Annotated[float, typer.Option("--round-seconds", "--round", min=0.1)] = 60.0,
    restart_seconds: Annotated[
        float, typer.Option("--restart-seconds", "--restart", min=0.0)
    ] = 20.0,
    hours: Annotated[
        float | None, typer.Option(min=0.0, help="Watch for so long. Default: until Ctrl-C.")
    ] = None,
    only_report: Annotated[
        bool, typer.Option("--report", help="Do not watch; report on what was seen so far.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Watch a Slurm cluster read only, and say what would have been better.

    shockwave shadow slurm --hours 24 --gpus 64

    shockwave shadow slurm --report
    """
    with one_line_errors():
        watch_and_report(
            cluster, state_dir, policy, gpus, round_seconds, restart_seconds, hours,
            only_report=only_report, as_json=as_json,
        )  # fmt: skip


def watch_and_report(
    cluster: str,
    state_dir: Path,
    policy: list[str] | None,
    gpus: int | None = None,
    round_seconds: float = 60.0,
    restart_seconds: float = 20.0,
    hours: float | None = None,
    *,
    only_report: bool = False,
    as_json: bool = False,
) -> None:
    """Raises :class:`InputError` if nothing can be said yet."""
    if cluster != "slurm":
        raise InputError("only slurm can be watched", place="CLUSTER", value=cluster)
    rounds = Rounds(round_seconds, min(restart_seconds, 0.9 * round_seconds))
    chosen = tuple(policy or ("shockwave",))
    for name in chosen:
        POLICIES.load(name)  # a wrong name is an error before anything is watched
    if only_report and not (state_dir / SEEN).is_file():
        raise InputError(
            "nothing was seen there yet",
            place="--state-dir",
            value=str(state_dir),
            hint="Without --report it watches; or name the folder where it did",
        )
    watch = SlurmWatch()
    seen = read_seen(state_dir)
    if not only_report:
        state_dir.mkdir(parents=True, exist_ok=True)
        until = math.inf if hours is None else time.time() + 3600.0 * hours
        deciding = ShadowRounds(chosen[0], rounds, watch.history(30.0))
        try:
            seen = watch_until(watch, state_dir, deciding, gpus, lambda now: now >= until)
        except KeyboardInterrupt:
            seen = read_seen(state_dir)
    jobs, earlier = list(seen.values()), watch.history(30.0)
    found = compare(jobs, history=earlier, gpus=gpus, chosen=chosen, rounds=rounds)
    path = _write_journal(state_dir, jobs, found.gpus, round_seconds)
    note(f"What Slurm did is in {path}: shockwave report {path}")
    if as_json:
        print_json(document(found))
    else:
        tell(found)


def watch_until(
    watch: SlurmWatch,
    state_dir: Path,
    deciding: ShadowRounds,
    gpus: int | None,
    is_over: Callable[[float], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, SeenJob]:
    """Looks once a round, and decides on what it sees; writes, but orders nothing."""
    seen = read_seen(state_dir)
    while True:
        now = time.time()
        try:
            seen = seen | {job.number: job for job in watch.jobs()}
        except ExecutorError as error:
            note(f"{error}. Trying again in the next round")
        else:
            _write_seen(state_dir, seen)
            decision = deciding.decide(list(seen.values()), now, gpus)
            if decision is not None:
                with (state_dir / DECISIONS).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(decision) + "\n")
        if is_over(time.time()):
            break
        sleep(max(deciding.rounds.round_seconds - (time.time() - now), 0.0))
    return seen


def read_seen(state_dir: Path) -> dict[str, SeenJob]:
    path = state_dir / SEEN
    if not path.exists():
        return {}
    try:
        return {row["number"]: SeenJob(**row) for row in json.loads(path.read_text("utf-8"))}
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"is not what a shadow has seen: {error}", source=str(path), hint="Move it away"
        ) from error


def _write_seen(state_dir: Path, seen: dict[str, SeenJob]) -> None:
    with atomic_bytes(state_dir / SEEN) as file:
        file.write(json.dumps([asdict(job) for job in seen.values()]).encode())


def _write_journal(state_dir: Path, seen: list[SeenJob], gpus: int, round_seconds: float) -> Path:
    """What Slurm did as a journal, for ``shockwave report``."""
    path = state_dir / JOURNAL
    with FileJournal(path) as journal:
        journal.write(journal_of(seen, gpus, round_seconds))
    return path


def document(found: ShadowReport) -> dict[str, object]:
    return {
        "jobs": found.jobs,
        "left_out": found.left_out,
        "gpus": found.gpus,
        "gpus_guessed": found.gpus_guessed,
        "happened": asdict(found.happened),
        "alternatives": [asdict(one) for one in found.alternatives],
        "assumptions": list(ASSUMPTIONS),
    }


def tell(found: ShadowReport) -> None:
    guessed = ", the most that were ever in use" if found.gpus_guessed else ""
    title = f"{count_of(found.jobs, 'job')} on {count_of(found.gpus, 'GPU')}{guessed}"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for number, header in enumerate(HEAD_OF_SHADOW):
        table.add_column(header, justify="right" if number else "left")
    for row in shadow_rows(found):
        table.add_row(*row)
    console.print(table)
    if found.left_out:
        note(f"{count_of(found.left_out, 'job')} left out: not ended, never started, or no GPUs.")
    note("In brackets what four in five samples lie between. What was assumed:")
    for assumption in ASSUMPTIONS:
        note(f"- {assumption}")
