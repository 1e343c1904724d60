"""A scheduler that is killed a hundred times, at any moment, finishes every job exactly once."""

from __future__ import annotations

import http.client
import json
import os
import queue
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.server.services import check, journal, tiny

from shockwave.model.events import JobFinished, JobStarted, JobSubmitted
from shockwave.protocol.paths import JobPaths

ROOT = Path(__file__).resolve().parents[2]
KILLS = 100
JOBS = 30
EPOCHS = 3
SETTINGS = (
    "--slots", "4", "--policy", "las", "--round-seconds", "0.5", "--restart-seconds", "0.05",
    "--snapshot-events", "2", "--journal-days", "0", "--first-back-off-seconds", "0",
)  # fmt: skip
PATIENCE_SECONDS = 120.0


class Serving:
    """Starts and kills ``shockwave serve``; knows where it listens."""

    def __init__(self, state_dir: Path, process: subprocess.Popen[str]) -> None:
        self.socket = state_dir / "shockwave.sock"
        self._state_dir = state_dir
        self._process = process
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self._expect("ready")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(("ready", "pid", "over")):
                self._lines.put(line)

    def _expect(self, word: str) -> str:
        line = self._lines.get(timeout=PATIENCE_SECONDS)
        assert line.startswith(word), line
        return line

    def start(self) -> int:
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return int(self._expect("pid").split()[1])

    def end(self, pid: int, how: signal.Signals) -> None:
        os.kill(pid, how)
        self._expect("over")

    def events(self) -> int:
        """The number of the last event, as far as anybody can tell without a scheduler."""
        try:
            url = f"file:{self._state_dir / 'shockwave.db'}?mode=ro"
            with closing(sqlite3.connect(url, uri=True, timeout=30)) as connection:
                return int(connection.execute("SELECT max(seq) FROM events").fetchone()[0] or 0)
        except sqlite3.OperationalError:
            return 0  # killed before it made one


@contextmanager
def serving(state_dir: Path) -> Iterator[Serving]:
    log = (state_dir.parent / "serve.log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.live.forked_serve", "--state-dir", str(state_dir), *SETTINGS],
        cwd=ROOT,
        env={
            **{name: value for name, value in os.environ.items() if "SHOCKWAVE" not in name},
            "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "300",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    try:
        yield Serving(state_dir, process)
    finally:
        process.kill()
        process.communicate()
        log.close()


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(10)
        self.sock.connect(str(self._path))


class Person(threading.Thread):
    """Submits jobs with a key each, and asks until there is an answer, some of them twice."""

    def __init__(self, serving: Serving, seed: int) -> None:
        super().__init__(daemon=True)
        self.jobs: list[str] = []
        self.over = threading.Event()
        self._serving = serving
        self._rng = random.Random(seed)

    def run(self) -> None:
        body = tiny(EPOCHS, 0.02).model_dump_json().encode()
        for number in range(JOBS):
            asked = [self._submit(body, f"key-{number}") for _ in range(self._rng.choice((1, 2)))]
            self.jobs.append(asked[-1])
            if len(set(asked)) > 1 or self.over.wait(self._rng.uniform(0.0, 0.4)):
                return  # the test sees that jobs are missing

    def _submit(self, body: bytes, key: str) -> str:
        while not self.over.is_set():
            try:
                headers = {"Content-Type": "application/json", "Idempotency-Key": key}
                with closing(UnixConnection(self._serving.socket)) as connection:
                    connection.request("POST", "/api/v1/jobs", body, headers)
                    return str(json.load(connection.getresponse())["id"])
            except (OSError, ValueError, KeyError, http.client.HTTPException):
                time.sleep(0.05)  # it is dead, dying or not born yet
        return "nobody answered"


def wait_for_a_bad_moment(serving: Serving, rng: random.Random) -> None:
    """Some time after its start, or after some events: while it restores, saves, moves, orders."""
    if rng.random() < 0.5:
        time.sleep(rng.uniform(0.0, 0.5))
        return
    target = serving.events() + rng.randrange(1, 20)
    deadline = time.monotonic() + 0.8
    while serving.events() < target and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(rng.uniform(0.0, 0.02))


def wait_for_a_snapshot(state_dir: Path) -> None:
    """However busy the machine is: else there is nothing to damage."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any((state_dir / "snapshots").glob("snapshot-*")):
        assert time.monotonic() < deadline, "no snapshot was saved"
        time.sleep(0.05)


def damage_newest_snapshot(state_dir: Path, rng: random.Random) -> Iterator[str]:
    """Yields its name."""
    found = sorted((state_dir / "snapshots").glob("snapshot-*"))
    if found:
        content = found[-1].read_bytes()
        cut = content[: rng.randrange(len(content))]
        found[-1].write_bytes(cut if rng.random() < 0.5 else content.replace(b"a", b"b"))
        yield found[-1].name


def test_a_scheduler_killed_a_hundred_times_finishes_every_job_exactly_once(
    tmp_path: Path,
) -> None:
    state_dir = tmp_path / "state"
    rng = random.Random(20)
    damaged: set[str] = set()
    with serving(state_dir) as scheduler:
        person = Person(scheduler, seed=21)
        person.start()
        for number in range(KILLS):
            pid = scheduler.start()
            wait_for_a_bad_moment(scheduler, rng)
            damages = number % 10 == 5
            if damages:
                wait_for_a_snapshot(state_dir)
            scheduler.end(pid, signal.SIGKILL)
            if damages:
                damaged.update(damage_newest_snapshot(state_dir, rng))
        pid = scheduler.start()
        person.join(PATIENCE_SECONDS)
        person.over.set()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while finished(state_dir) < JOBS and time.monotonic() < deadline:
            time.sleep(0.2)
        scheduler.end(pid, signal.SIGTERM)

    assert len(set(person.jobs)) == JOBS
    events = journal(state_dir)
    assert [e.job.id for e in events if isinstance(e, JobSubmitted)] == person.jobs
    done = [event.job for event in events if isinstance(event, JobFinished)]
    assert sorted(done) == sorted(person.jobs)
    for job in person.jobs:
        folder = JobPaths.of(state_dir, job).path
        assert not (folder / "ran-twice").exists()
        ran = [int(line.split()[1]) for line in (folder / "epochs.log").read_text().splitlines()]
        assert ran == list(range(1, EPOCHS + 1))
        starts = [e.attempt for e in events if isinstance(e, JobStarted) and e.job == job]
        assert starts == list(range(1, len(starts) + 1))
    assert list((state_dir / "archive").iterdir())  # or nothing of this was put to the test
    assert damaged
    wrong = check(state_dir)
    assert {line.partition(":")[0] for line in wrong} <= damaged
    assert all("cannot be used" in line for line in wrong)


def finished(state_dir: Path) -> int:
    with closing(sqlite3.connect(state_dir / "shockwave.db", timeout=30)) as connection:
        wanted = "SELECT count(*) FROM jobs WHERE state = 'finished'"
        return int(connection.execute(wanted).fetchone()[0])
