"""A Slurm partition that is shared: our jobs beside those of others, who come at random.

    python bench/mixed.py                     # ten minutes; needs root and Slurm
    python bench/mixed.py --minutes 2         # shorter
    python bench/mixed.py --mode allocation   # with nodes that we hold

Four nodes of two emulated GPUs. Others submit to Slurm itself, at random times, jobs of one or two
GPUs; we submit ours to the scheduler all the time. Shown are how many of each finished, how long
theirs waited, how many of theirs one of ours overtook (submitted later, and started before them on
the node that they got), how often a job of ours was preempted, and the share of time of the GPUs
that Slurm gave us in which no process of ours ran on them. Writes ``out/mixed-MODE.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shockwave.cli.journals import events_of
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.launch_name import LaunchName
from shockwave.executors.gangs.supervisor.agent import ORDERS
from shockwave.executors.slurm.holders import HOLDER
from shockwave.executors.slurm.hostlist import expand
from shockwave.executors.slurm.jobs import gpus_in
from shockwave.model.events import JobFinished, JobRunning, JobStarted, JobStopped, StopReason
from shockwave.protocol.files import read_json
from shockwave.server.config import ServeConfig
from shockwave.server.records import Submission
from shockwave.server.service import Service
from shockwave.testing.slurm_cluster import SlurmCluster, why_slurm_cannot_run

NODES, GPUS = 4, 2
FOREIGN_EVERY_SECONDS = 6.0  # on average
OURS_EVERY_SECONDS = 5.0
LONGEST_SECONDS = 25.0
JOB = Path(__file__).resolve().parents[1] / "examples" / "numpy_sgd.py"


def ours(number: int, gpus: int, epochs: int) -> Submission:
    argv = [sys.executable, str(JOB), "--epochs", str(epochs), "--epoch-seconds", "0.5"]
    return Submission(
        name=f"ours-{number}", command=argv, workdir=str(JOB.parent), gpus=gpus, epochs=epochs,
        batch_sizes=[32, 64, 128, 256], adaptation="gns",
    )  # fmt: skip


def theirs(cluster: SlurmCluster, gpus: int, seconds: float) -> str:
    return cluster.run(
        "sbatch", "--parsable", f"--gres=gpu:{gpus}", "--nodes=1", "--output=/dev/null",
        "--comment=theirs", f"--wrap=sleep {seconds:.1f}",
    ).strip()  # fmt: skip


@dataclass(frozen=True)
class Past:
    """A Slurm job that has started: when, in unix seconds, and where."""

    submitted: float
    started: float
    nodes: frozenset[str]


def past_jobs(cluster: SlurmCluster) -> tuple[list[Past], list[Past]]:
    """Theirs and ours, as Slurm remembers them."""
    form = "--format=%k|%V|%S|%T|%N"
    theirs_found, ours_found = [], []
    for row in cluster.run("squeue", "--noheader", "--states=all", form).splitlines():
        comment, submitted, started, state, nodes = row.split("|")
        if state == "PENDING" or started == "N/A":
            continue
        times = [time.mktime(time.strptime(t, "%Y-%m-%dT%H:%M:%S")) for t in (submitted, started)]
        past = Past(times[0], times[1], frozenset(expand(nodes)))
        (theirs_found if comment == "theirs" else ours_found).append(past)
    return theirs_found, ours_found


def overtaken(theirs_found: list[Past], ours_found: list[Past]) -> int:
    return sum(
        any(
            own.submitted > job.submitted and own.started < job.started and own.nodes & job.nodes
            for own in ours_found
        )
        for job in theirs_found
    )


def held_and_idle(cluster: SlurmCluster, state_dir: Path) -> tuple[int, int]:
    """GPUs that Slurm has given us at this moment, and those of them without a process of ours."""
    held = working = 0
    form = "--format=%k|%b|%N"
    for row in cluster.run("squeue", "--noheader", "--states=RUNNING", form).splitlines():
        comment, gpus, nodes = row.split("|")
        name = LaunchName.read(comment)
        if name is None:
            held += gpus_in(gpus) if comment.startswith(HOLDER) else 0
            continue
        held += gpus_in(gpus) * len(expand(nodes))
        working += working_ranks(JobFolder.named(state_dir, name.folder), name.generation)
    for path in (state_dir / "holders").glob(f"*/{ORDERS}"):
        for order in (read_json(path) or {"orders": []})["orders"]:
            folder = JobFolder(Path(order["folder"]))
            working += working_ranks(folder, order["generation"], (order["part"],))
    return held, held - min(working, held)


def working_ranks(folder: JobFolder, generation: int, parts: Sequence[int] = range(NODES)) -> int:
    found = 0
    for part in parts:
        who = folder.processes(generation, part)
        if who is not None and not folder.has_ended(generation, part):
            found += len(who.ranks)
    return found


def run(folder: Path, cluster: SlurmCluster, minutes: float, mode: str) -> dict[str, Any]:
    config = ServeConfig(
        state_dir=folder / "state", executor="slurm", site_options={"mode": mode},
        round_seconds=10.0, restart_seconds=2.0, start_seconds=20.0, port=0, stop_jobs=True,
    )  # fmt: skip
    rng = np.random.default_rng(2)
    service = Service(config)
    service.start()
    counts = {"ours": 0, "theirs": 0}
    idle = held = 0
    end = time.monotonic() + 60.0 * minutes
    next_ours = next_theirs = time.monotonic()
    try:
        while time.monotonic() < end or any(
            service.desk.jobs(states=[state], tenant=None, after=None, limit=1)[0]
            for state in ("waiting", "running")
        ):
            now = time.monotonic()
            if now < end and now >= next_ours:
                next_ours = now + rng.exponential(OURS_EVERY_SECONDS)
                service.desk.submit(
                    ours(counts["ours"], int(rng.integers(1, 3)), int(rng.integers(8, 40))), None
                )
                counts["ours"] += 1
            if now < end and now >= next_theirs:
                next_theirs = now + rng.exponential(FOREIGN_EVERY_SECONDS)
                theirs(cluster, int(rng.integers(1, 3)), rng.uniform(3.0, LONGEST_SECONDS))
                counts["theirs"] += 1
            now_held, now_idle = held_and_idle(cluster, config.state_dir)
            held, idle = held + now_held, idle + now_idle
            time.sleep(0.5)
            if now > end + 600.0:
                break
    finally:
        theirs_found, ours_found = past_jobs(cluster)
        waited = [job.started - job.submitted for job in theirs_found]
        service.stop()
    events = list(events_of(str(config.state_dir)))
    stops = [event for event in events if isinstance(event, JobStopped)]
    starts = {event.job: event.time for event in events if isinstance(event, JobStarted)}
    return {
        "mode": mode,
        "minutes": minutes,
        "ours": counts["ours"],
        "ours_finished": sum(isinstance(event, JobFinished) for event in events),
        "theirs": counts["theirs"],
        "theirs_started": len(waited),
        "their_mean_wait_seconds": float(np.mean(waited)) if waited else None,
        "their_longest_wait_seconds": max(waited, default=None),
        "theirs_overtaken": overtaken(theirs_found, ours_found),
        "preemptions": sum(stop.reason is StopReason.PREEMPTED for stop in stops),
        "withdrawn": sum("did not start it" in stop.detail for stop in stops),
        "seconds_to_run": float(
            np.median([e.time - starts[e.job] for e in events if isinstance(e, JobRunning)] or [0])
        ),
        "idle_share_of_what_we_hold": idle / held if held else 0.0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--mode", choices=("jobs", "allocation"), default="jobs")
    parser.add_argument("--out", type=Path, default=Path("out"))
    chosen = parser.parse_args()
    problem = why_slurm_cannot_run()
    if problem is not None:
        print(f"A shared partition is not measured: {problem}.")
        return
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        folder = Path(name)
        settings = {"MinJobAge": "100000"}  # so that it remembers how long jobs have waited
        with SlurmCluster(folder / "c", nodes=NODES, gpus=GPUS, settings=settings) as cluster:
            os.environ.update(cluster.environment)
            figures = run(folder, cluster, chosen.minutes, chosen.mode)
    for label, value in figures.items():
        print(f"{label:32} {value if not isinstance(value, float) else round(value, 3)}")
    chosen.out.mkdir(exist_ok=True)
    (chosen.out / f"mixed-{chosen.mode}.json").write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
