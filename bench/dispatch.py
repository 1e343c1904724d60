"""How long a round takes on Slurm: 64 nodes of 8 GPUs, 500 short jobs, rounds of 30 seconds.

    python bench/dispatch.py           # about three minutes; needs root and Slurm
    python bench/dispatch.py --single  # jobs of one GPU: all 500 start in one round
    python bench/dispatch.py --quick   # 8 nodes, 60 jobs, rounds of 10 seconds
    python bench/dispatch.py --mode allocation  # inside of allocations that hold the nodes

A real Slurm on loopback with emulated GPUs, a real scheduler, real (short) jobs. The work on a
round is everything from looking at Slurm and at the jobs to the last order given: the first
round starts hundreds of gangs, later ones replace those that have ended. The nodes share this
machine with the scheduler and with Slurm's controller, and get what these leave of it.
Prints a table and writes ``out/dispatch-MODE.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from shockwave.cli.journals import events_of
from shockwave.model.events import Event, JobStarted, RoundDecided, Starts
from shockwave.server.config import ServeConfig
from shockwave.server.records import Submission
from shockwave.server.service import Service
from shockwave.testing.slurm_cluster import SlurmCluster, why_slurm_cannot_run

GANGS = (1, 1, 1, 2, 2, 4, 8)  # as often as in a shared cluster, more or less
PATIENCE_SECONDS = 600.0
# What Slurm's guide to high throughput recommends: bursts of submissions are taken in first and
# scheduled together. Three seconds are Slurm's own default.
BUSY = "defer,batch_sched_delay=3"


@dataclass(frozen=True)
class Size:
    nodes: int
    gpus: int
    jobs: int
    round_seconds: float
    gangs: tuple[int, ...] = GANGS
    mode: str = "jobs"


def submission(number: int, gpus: int, seconds: float) -> Submission:
    """A job that holds its GPUs for some time: dispatch is what is measured."""
    return Submission(
        name=f"short-{number}",
        command=["sleep", str(round(seconds, 1))],
        workdir="/",
        gpus=gpus,
        epochs=1,
        epoch_seconds={1: seconds},
    )


def run(size: Size, folder: Path) -> list[Event]:
    """The journal of a scheduler that has all jobs to do at once."""
    config = ServeConfig(
        state_dir=folder / "state",
        executor="slurm",
        site_options={"mode": size.mode},
        starts=Starts.ROUNDS,
        round_seconds=size.round_seconds,
        restart_seconds=1.0,
        start_seconds=5 * size.round_seconds,
        stop_jobs=True,
    )
    rng = np.random.default_rng(1)
    service = Service(config)
    service.start()
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while _gpus_to_use(service) < size.nodes * size.gpus and time.monotonic() < deadline:
            time.sleep(0.2)  # allocations are being made
        for number in range(size.jobs):
            gpus = size.gangs[number % len(size.gangs)]
            seconds = size.round_seconds * rng.uniform(0.3, 2.0)
            service.desk.submit(submission(number, gpus, seconds), None)
        while _waiting(service) and time.monotonic() < deadline:
            time.sleep(1.0)
    finally:
        service.stop()
    return list(events_of(str(config.state_dir)))


def _waiting(service: Service) -> bool:
    return bool(service.desk.jobs(states=["waiting"], tenant=None, after=None, limit=1)[0])


def _gpus_to_use(service: Service) -> int:
    return sum(node.gpus - node.gpus_others for node in service.desk.nodes())


def measured(events: list[Event], round_seconds: float) -> list[dict[str, Any]]:
    rounds = []
    starts = 0
    for event in events:
        if isinstance(event, JobStarted):
            starts += 1
        elif isinstance(event, RoundDecided):
            work = event.work_seconds or 0.0
            rounds.append(
                {
                    "round": event.round,
                    "active": event.active,
                    "gangs_started": starts,
                    "gpus_busy": event.gpus_busy,
                    "plan_seconds": event.plan_seconds,
                    "work_seconds": work,
                    "share_of_round": work / round_seconds,
                }
            )
            starts = 0
    return rounds


def show(size: Size, rounds: list[dict[str, Any]]) -> None:
    title = (
        f"{size.nodes} nodes x {size.gpus} GPUs, {size.jobs} jobs, "
        f"rounds of {size.round_seconds:g} s, mode {size.mode}"
    )
    table = Table(title=title, box=None)
    for header in ("round", "active", "started", "GPUs busy", "decision", "work", "of the round"):
        table.add_column(header, justify="right")
    for row in rounds:
        table.add_row(
            str(row["round"]), str(row["active"]), str(row["gangs_started"]),
            str(row["gpus_busy"]), f"{row['plan_seconds'] * 1000:.0f} ms",
            f"{row['work_seconds']:.2f} s", f"{row['share_of_round']:.1%}",
        )  # fmt: skip
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--single", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--share", action="store_true", help="nodes get their share of the machine")
    parser.add_argument("--mode", choices=("jobs", "allocation"), default="jobs")
    chosen = parser.parse_args()
    problem = why_slurm_cannot_run()
    if problem is not None:
        print(f"Dispatch to Slurm is not measured: {problem}.")
        return
    size = Size(8, 8, 60, 10.0) if chosen.quick else Size(64, 8, 500, 30.0)
    size = replace(size, mode=chosen.mode)
    if chosen.single:
        size = replace(size, gangs=(1,))
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        folder = Path(name)
        cluster = SlurmCluster(
            folder / "c",
            nodes=size.nodes,
            gpus=size.gpus,
            nodes_yield=not chosen.share,
            settings={"SchedulerParameters": BUSY},
        )
        with cluster:
            os.environ.update(cluster.environment)
            rounds = measured(run(size, folder), size.round_seconds)
    show(size, rounds)
    chosen.out.mkdir(exist_ok=True)
    (chosen.out / f"dispatch-{size.mode}.json").write_text(json.dumps(rounds, indent=1))


if __name__ == "__main__":
    main()
