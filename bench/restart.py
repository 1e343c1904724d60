"""What a long past costs a scheduler: its start, its memory, its rounds and its queue.

    python bench/restart.py            # 5,000,000 events and 200,000 ended jobs, a few minutes
    python bench/restart.py --quick    # 200,000 events and 8,000 ended jobs

Makes a state directory as a scheduler would have left it: all events in the database, a snapshot
before the last of them, every ended job in the index. Starts ``shockwave serve`` on it and, beside
it, another one on an empty directory; gives both the same jobs and asks both the same questions
in turn. Prints a table and writes ``out/restart.json``; exit code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from service import JOB, Connection, Server, serving

from shockwave.engine.journal import Journal
from shockwave.engine.log import Log
from shockwave.engine.state import SchedulerState
from shockwave.model.cluster import Node
from shockwave.model.event_records import to_record
from shockwave.model.events import (
    Event,
    JobFinished,
    JobRunning,
    JobStarted,
    JobSubmitted,
    RoundDecided,
    RunStarted,
)
from shockwave.model.job import JobSpec
from shockwave.model.progress import Progressed
from shockwave.server import facts as facts_module
from shockwave.server.archive import Archive
from shockwave.server.board import Board
from shockwave.server.facts import JobFacts
from shockwave.server.projection import Projection
from shockwave.server.records import Submission
from shockwave.server.snapshots import Snapshots
from shockwave.server.store import Store

SLOTS = 8
ROUND_SECONDS = 1.0
ACTIVE_JOBS = 200
EVENT_SECONDS = 3.0  # between two events of the past: half a year of them
TAIL_EVENTS = 9_000  # after the snapshot; a scheduler saves every 10,000
MOST_START_SECONDS, MOST_MEMORY_BYTES, MOST_RATIO = 10.0, 500e6, 1.2
QUEUE = "/api/v1/jobs?state=waiting&state=running&limit=100"
PLACE = "JOBID"  # what is put in place of an id in a record that many jobs share
TICK = 9_876_543.25  # and of a time


class Nowhere(Journal):
    """Keeps nothing."""

    def write(self, events: Any) -> None:
        pass


def make_past(state_dir: Path, events: int, jobs: int) -> None:
    state_dir.mkdir(mode=0o700)
    path = state_dir / "shockwave.db"
    store = Store(f"sqlite:///{path}", Archive(state_dir / "archive"))
    origin_unix = store.origin_unix(time.time() - events * EVENT_SECONDS - 60.0)
    first = RunStarted(
        0.0, "fifo", "reactive", "live", (Node("n0", SLOTS),), ROUND_SECONDS, 0.1, 0, "0",
        origin_unix,
    )  # fmt: skip
    before = events - TAIL_EVENTS
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(
            "INSERT INTO events VALUES (1, 0.0, ?, ?)", (first.kind, written(to_record(first)))
        )
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", lives(before, jobs))
        connection.executemany(
            "INSERT INTO jobs (number, id, name, tenant, owner, group_id, state, submission, facts)"
            " VALUES (?, ?, ?, ?, '', '', 'finished', ?, ?)",
            index(jobs, origin_unix),
        )
        connection.commit()
    state, projection = SchedulerState(), Projection(origin_unix)
    Log(state, Nowhere()).emit(first)
    projection.apply(first)
    state.table.submitted = projection.submitted = jobs
    state.table._compacted = True
    projection.sequence_number = before
    projection.ended_by_state = {"finished": jobs}
    Snapshots(state_dir / "snapshots", store).save(state, projection)
    log = Log(state, Board(projection, store))
    for number in range(TAIL_EVENTS):
        at = (before + number) * EVENT_SECONDS
        log.emit(RoundDecided(at, int(at / ROUND_SECONDS), 1, 0, 0, SLOTS, 0, 0, 0.001))
    log.flush()
    store.close()


def lives(events: int, jobs: int) -> Iterator[tuple[int, float, str, str]]:
    """One job after the other: comes, runs, is looked at in every round, finishes."""
    per_job = events // jobs
    one = np.array([1.0])
    progressed = Progressed(TICK, np.array([0]), one, np.array([0]), one, one, one)
    life: list[Event] = [
        JobSubmitted(TICK, spec(), submission()),
        JobStarted(TICK, PLACE, (("n0", (0,)),), 1),
        JobRunning(TICK, PLACE),
    ]
    while len(life) < per_job - 1:
        life += [progressed, RoundDecided(TICK, 1, 1, 1, 1, SLOTS, 1, 0, 0.001)]
    life = [*life[: per_job - 1], JobFinished(TICK, PLACE, 60.0)]
    kinds = [(event.kind, written(to_record(event))) for event in life]
    for number in range(1, events):
        kind, text = kinds[(number - 1) % per_job]
        job = f"j-{(number - 1) // per_job:06d}-past"
        at = number * EVENT_SECONDS
        yield number + 1, at, kind, text.replace(PLACE, job).replace(str(TICK), str(at))


def index(jobs: int, origin_unix: float) -> Iterator[tuple[int, str, str, str, str, str]]:
    done = JobFacts(
        1, spec(), origin_unix, "finished", 50.0, 32, origin_unix, origin_unix, starts=1,
        gpu_seconds=60.0, last_stop="", ftf_themis=1.0,
    )  # fmt: skip
    facts = facts_module.to_json(done)
    for number in range(1, jobs + 1):
        job = f"j-{number:06d}-past"
        text = facts.replace(PLACE, job).replace('"number":1,', f'"number":{number},')
        yield number, job, f"past-{number}", f"tenant-{number % 7}", submission(), text


def spec() -> JobSpec:
    return JobSpec(PLACE, TICK, 1, 50, (32, 64), (60.0, 40.0), tenant="tenant-1", name="past")


def submission() -> str:
    return Submission.model_validate(JOB).model_dump_json()


def written(record: dict[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":"))


def ask_both(servers: dict[str, Server], path: str, times: int) -> dict[str, float]:
    """The median of seconds by server, asked in turn so that both have the same machine."""
    seconds: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(times):
        for name, server in servers.items():
            connection = server.client()  # a server closes those that wait for the other one
            start = time.perf_counter()
            status, _ = connection.ask("GET", path)
            assert status == 200, path
            seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def submit(server: Server, count: int) -> None:
    connection: Connection = server.client()
    for number in range(count):
        body = json.dumps(JOB | {"name": f"now-{number}"}).encode()
        status, answer = connection.ask("POST", "/api/v1/jobs", body)
        assert status == 201, answer


def round_seconds(servers: dict[str, Server], rounds: int) -> dict[str, float]:
    """The median work on a round by server, of rounds that both decided in the same time."""
    before = {name: server.client().get("/api/v1/plan") for name, server in servers.items()}
    time.sleep((rounds + 1) * ROUND_SECONDS)
    medians = {}
    for name, server in servers.items():
        last = (before[name]["round"] or {"round": -1})["round"]
        items = server.client().get(f"/api/v1/rounds?after={last}&limit=1000")["items"]
        medians[name] = float(np.median([item["work_seconds"] for item in items]))
    return medians


def measure(folder: Path, events: int, jobs: int) -> dict[str, Any]:
    began = time.perf_counter()
    make_past(folder / "past", events, jobs)
    made_seconds = time.perf_counter() - began
    figures: dict[str, Any] = {"events": events, "jobs": jobs, "made_seconds": made_seconds}
    figures["state_bytes"] = sum(p.stat().st_size for p in (folder / "past").rglob("*"))
    with ExitStack() as stack:
        servers: dict[str, Server] = {}
        for name in ("empty", "past"):
            began = time.perf_counter()
            servers[name] = stack.enter_context(
                serving(SLOTS, ROUND_SECONDS, "fifo", folder / name, restart_seconds=0.1)
            )
            servers[name].client().get("/readyz")
            figures[f"start_seconds_{name}"] = time.perf_counter() - began
            figures[f"memory_bytes_{name}"] = servers[name].memory_bytes("VmHWM")
        for server in servers.values():
            submit(server, ACTIVE_JOBS)
        time.sleep(5 * ROUND_SECONDS)
        figures["round"] = round_seconds(servers, 20)
        figures["queue"] = ask_both(servers, QUEUE, 200)
        figures["queue --all, 100 jobs"] = ask_both(servers, "/api/v1/jobs?limit=100", 30)
        figures["failed jobs"] = ask_both(servers, "/api/v1/jobs?state=failed", 30)
        figures["metrics"] = ask_both(servers, "/metrics", 10)
        figures["by name"] = ask_both(servers, "/api/v1/jobs/now-7", 100)
        figures["peak_bytes_past"] = servers["past"].memory_bytes("VmHWM")
    return figures


def show(figures: dict[str, Any]) -> bool:
    """Returns whether all targets are met."""
    title = f"a past of {figures['events']:,} events and {figures['jobs']:,} ended jobs"
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    for heading in ("", "empty past", "long past", "ratio", "target"):
        table.add_column(heading, justify="right" if heading else "left")
    start, memory = figures["start_seconds_past"], figures["memory_bytes_past"]
    table.add_row(
        "start until ready", f"{figures['start_seconds_empty']:.2f} s", f"{start:.2f} s", "",
        f"< {MOST_START_SECONDS:.0f} s",
    )  # fmt: skip
    table.add_row(
        "memory at the start", f"{figures['memory_bytes_empty'] / 1e6:.0f} MB",
        f"{memory / 1e6:.0f} MB", "", f"< {MOST_MEMORY_BYTES / 1e6:.0f} MB",
    )  # fmt: skip
    met = start < MOST_START_SECONDS and memory < MOST_MEMORY_BYTES
    for name in ("round", "queue", "by name", "queue --all, 100 jobs", "failed jobs", "metrics"):
        seconds = figures[name]
        ratio = seconds["past"] / seconds["empty"]
        aimed = name in ("round", "queue")
        met &= not aimed or ratio <= MOST_RATIO
        table.add_row(
            name, f"{1000 * seconds['empty']:.2f} ms", f"{1000 * seconds['past']:.2f} ms",
            f"{ratio:.2f}", f"<= {MOST_RATIO}" if aimed else "",
        )  # fmt: skip
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    console.print(table)
    console.print(
        f"made in {figures['made_seconds']:.0f} s, {figures['state_bytes'] / 1e6:,.0f} MB on disk; "
        f"peak memory with {ACTIVE_JOBS} active jobs {figures['peak_bytes_past'] / 1e6:.0f} MB"
    )
    return bool(met)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("out/restart.json"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shockwave-bench-") as folder:
        size = (200_000, 8_000) if given.quick else (5_000_000, 200_000)
        figures = measure(Path(folder), *size)
    met = show(figures)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(figures, indent=1) + "\n")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
