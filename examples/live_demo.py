"""A live run to look at: a dozen small adaptive jobs on four emulated GPUs.

Starts ``shockwave serve`` in a folder of its own, submits jobs that really train (NumPy, no
framework needed), shows the queue while they run, and at the end the figures beside those that
first come, first served would have given the same jobs, a report of both, and how well the
simulator would have predicted this very run.

    python examples/live_demo.py [--jobs 12] [--round 4] [--policy shockwave] [--out out/live]

The same jobs run on a cluster (``--executor slurm``, or ``--executor ray --ray-address ...``)
whose nodes see the folder.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from shockwave.cli.client import Client
from shockwave.cli.comparison import comparison_table
from shockwave.cli.journals import events_of
from shockwave.cli.queue import queue_table
from shockwave.measure import fold_history, summarize
from shockwave.measure.replay import replay
from shockwave.measure.report import write_report

JOB = Path(__file__).with_name("numpy_sgd.py")
SLOTS = 4
PATIENCE_SECONDS = 900.0
BETWEEN_ARRIVALS_SECONDS = 0.5
BESIDE = "fifo"  # whose schedule of the same jobs is shown beside


def submission(number: int, epoch_seconds: float) -> dict[str, Any]:
    """Short and long in turns, one of them a gang of two, all free to double their batch."""
    epochs, gpus = 6 + (number * 7) % 23, 2 if number == 3 else 1
    return {
        "name": f"sgd-{number}",
        "command": [
            sys.executable, str(JOB), "--epochs", str(epochs),
            "--epoch-seconds", str(epoch_seconds), "--seed", str(number),
        ],
        "workdir": str(JOB.parent),
        "gpus": gpus,
        "epochs": epochs,
        "adaptation": "gns",
        "batch_sizes": [32, 64, 128, 256],
        "model": "pair" if gpus == 2 else "single",
    }  # fmt: skip


def start(
    state: Path, round_seconds: float, policy: str, where: list[str]
) -> tuple[subprocess.Popen[str], str]:
    """The scheduler as a process of its own, and its address."""
    command = [
        sys.executable, "-m", "shockwave.cli.main", "serve", "--state-dir", str(state), *where,
        "--round", str(round_seconds), "--restart", "1", "--policy", policy,
        "--stop-jobs",
    ]  # fmt: skip
    log = (state.parent / "serve.log").open("w+")
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline and process.poll() is None:
        log.seek(0)
        found = re.search(r"listens on (\S+?),?\s", log.read())
        if found:
            return process, found.group(1)
        time.sleep(0.2)
    log.seek(0)
    sys.exit(f"the scheduler did not start: {log.read()}")


def watch(client: Client, console: Console) -> None:
    """The queue, until it is empty."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while time.monotonic() < deadline:
            jobs = list(client.pages("jobs"))
            live.update(queue_table(jobs, time.time()))
            if all(job["state"] not in ("waiting", "running") for job in jobs):
                console.print(queue_table(jobs, time.time()))
                return
            time.sleep(0.5)
    sys.exit(f"the jobs were not done after {PATIENCE_SECONDS:.0f} s; see serve.log")


def show(console: Console, state: Path, title: str, report: Path) -> None:
    """The figures of the run, beside those of another policy on what its jobs turned out to be."""
    live = fold_history(events_of(str(state)))
    other = replay(events_of(str(state)), policy=BESIDE).simulated
    runs = [(summarize(live), live), (summarize(other), other)]
    console.print(comparison_table([summary for summary, _ in runs], title, console.width))
    console.print(f"{BESIDE} is simulated, with the times that the jobs took live.")
    write_report(report, runs, title=title)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--round", type=float, default=4.0)
    parser.add_argument("--policy", default="shockwave")
    parser.add_argument("--epoch-seconds", type=float, default=1.5)
    parser.add_argument("--executor", default="local")
    parser.add_argument("--ray-address")
    parser.add_argument("--out", type=Path, default=Path("out/live"))
    chosen = parser.parse_args()
    shutil.rmtree(chosen.out, ignore_errors=True)
    chosen.out.mkdir(parents=True)
    state, console = chosen.out / "state", Console()
    title = f"A live run of {chosen.jobs} jobs on {chosen.executor}"
    console.print(f"[bold]{title}[/]")
    where = ["--executor", chosen.executor]
    if chosen.ray_address:
        where += ["--ray-address", chosen.ray_address]
    elif chosen.executor != "slurm":
        where += ["--slots", str(SLOTS)]
    process, url = start(state, chosen.round, chosen.policy, where)
    try:
        client = Client(url)
        for number in range(1, chosen.jobs + 1):
            client.post("jobs", body=submission(number, chosen.epoch_seconds))
            time.sleep(BETWEEN_ARRIVALS_SECONDS)
        watch(client, console)
    finally:
        process.terminate()
        process.wait(60)
    show(console, state, title, chosen.out / "report.html")
    replay_command = [sys.executable, "-m", "shockwave.cli.main", "replay", str(state)]
    subprocess.run(replay_command, check=False)
    report = (chosen.out / "report.html").absolute()
    console.print(f"Report of the live run, and of {BESIDE}: {report.as_uri()}", soft_wrap=True)


if __name__ == "__main__":
    main()
