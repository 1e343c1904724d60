"""How long people wait: from ``submit`` to the first line of the log, from ``cancel`` to free GPUs,
for a sweep of 1,000 jobs to be taken in, and for the queue while they wait.

    python bench/latency.py            # 50 of each, about four minutes
    python bench/latency.py --quick    # 5 of each

Starts ``shockwave serve --slots 4`` with default settings and a state directory that is thrown
away, and types the commands that a user would, as processes of their own, one after the other on
a machine whose slots are idle. Beside it stands what the interpreter alone takes to start, what
the command itself takes, and how many processes wanted a processor meanwhile. Prints a table and
writes ``out/latency.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from shockwave.cli.client import Client
from shockwave.protocol.locks import is_held
from shockwave.protocol.paths import JobPaths

SLOTS = 4
SWEEP = 1000  # jobs
PATIENCE_SECONDS = 120.0
FIRST_LINE = ["--epochs", "1", "--", sys.executable, "-c", "print('here', flush=True)"]
ENDLESS = ["--epochs", "1", "--", "sleep", "100000"]  # it ends as soon as it is asked to


@dataclass(frozen=True)
class Machine:
    """A scheduler, and the commands of a user."""

    state_dir: Path
    url: str

    def shockwave(self, command: str, *words: str) -> str:
        argv = [sys.executable, "-m", "shockwave.cli.main", command, "--url", self.url, *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    def is_idle(self) -> bool:
        return not any(is_held(lock) for lock in (self.state_dir / "slots").glob("*.lock"))

    def has_written(self, job: str) -> bool:
        log = JobPaths.of(self.state_dir, job).log(0)
        return log.exists() and b"\n" in log.read_bytes()

    def runs(self, job: str) -> bool:
        return Client(self.url).get("jobs", job)["state"] == "running" and not self.is_idle()


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        if time.monotonic() > deadline:
            raise SystemExit("it did not happen in time")
        time.sleep(0.005)


def start(folder: Path) -> tuple[subprocess.Popen[bytes], Machine]:
    state_dir = folder / "state"
    argv = [sys.executable, "-m", "shockwave.cli.main", "serve"]
    log = (folder / "serve.log").open("wb")
    process = subprocess.Popen(
        [*argv, "--slots", str(SLOTS), "--state-dir", str(state_dir), "--stop-jobs"],
        stdout=log,
        stderr=log,
    )
    wait_until(lambda: b"listens on" in (folder / "serve.log").read_bytes())
    return process, Machine(state_dir, f"unix:{state_dir / 'shockwave.sock'}")


def submissions(machine: Machine, count: int) -> tuple[list[float], list[float]]:
    """Seconds to the first line: from typing the command, and from when it returned."""
    typed, returned = [], []
    for _ in range(count):
        wait_until(machine.is_idle)
        begin = time.monotonic()
        job = machine.shockwave("submit", *FIRST_LINE)
        back = time.monotonic()
        wait_until(lambda job=job: machine.has_written(job))  # type: ignore[misc]
        end = time.monotonic()
        typed.append(end - begin)
        returned.append(end - back)
    return typed, returned


def cancellations(machine: Machine, count: int) -> list[float]:
    """Seconds from typing the command until no process holds a GPU."""
    taken = []
    for _ in range(count):
        wait_until(machine.is_idle)
        job = machine.shockwave("submit", *ENDLESS)
        wait_until(lambda job=job: machine.runs(job))  # type: ignore[misc]
        begin = time.monotonic()
        machine.shockwave("cancel", job)
        wait_until(machine.is_idle)
        taken.append(time.monotonic() - begin)
    return taken


def sweeps(machine: Machine, count: int) -> tuple[list[float], list[float]]:
    """Seconds until the command that submits the sweep is back, and of the queue after it."""
    swept, queued = [], []
    for number in range(count):
        begin = time.monotonic()
        machine.shockwave("sweep", "--grid", f"x=1..{SWEEP}", "--parallel", "1", "--name",
                          f"sweep-{number}", "--epochs", "1", "--", "sleep", "{x}")  # fmt: skip
        back = time.monotonic()
        shown = machine.shockwave("queue")
        queued.append(time.monotonic() - back)
        swept.append(back - begin)
        lines = sum(f"{SWEEP:,} jobs" in line for line in shown.splitlines())
        if lines != number + 1:
            raise SystemExit(f"expected one line for each sweep:\n{shown}")
    return swept, queued


def starts_of(argv: list[str], count: int) -> list[float]:
    taken = []
    for _ in range(count):
        begin = time.monotonic()
        subprocess.run(argv, check=True, capture_output=True)
        taken.append(time.monotonic() - begin)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("out/latency.json"))
    chosen = parser.parse_args()
    count = 5 if chosen.quick else 50
    with tempfile.TemporaryDirectory() as folder:
        process, machine = start(Path(folder))
        try:
            typed, returned = submissions(machine, count)
            cancelled = cancellations(machine, count)
            swept, queued = sweeps(machine, 1 if chosen.quick else 5)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    command = [sys.executable, "-m", "shockwave.cli.main"]
    measured = {
        "submit to the first line of the log": typed,
        "... since submit has returned": returned,
        "cancel to GPUs that are free": cancelled,
        f"sweep of {SWEEP:,} jobs": swept,
        "... queue after it": queued,
        "python -c pass": starts_of([sys.executable, "-c", "pass"], count),
        "shockwave submit --help": starts_of([*command, "submit", "--help"], count),
    }
    load = os.getloadavg()[1]
    table = Table(
        title=f"Seconds, {count} of each (sweeps fewer); {os.cpu_count()} processors, "
        f"{load:.1f} processes that wanted one over the last 5 minutes"
    )
    for heading in ("", "median", "95 %", "most"):
        table.add_column(heading, justify="left" if not heading else "right")
    figures: dict[str, dict[str, float]] = {"load": {"average_5_minutes": load}}
    for name, seconds in measured.items():
        low, high = np.quantile(seconds, [0.5, 0.95]).tolist()
        figures[name] = {"p50_seconds": low, "p95_seconds": high, "max_seconds": max(seconds)}
        table.add_row(name, f"{low:.2f}", f"{high:.2f}", f"{max(seconds):.2f}")
    Console().print(table)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
