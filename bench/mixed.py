"""A Slurm partition that is shared: our jobs beside those of others, who come at random.

    python bench/mixed.py                     # twice ten minutes; needs root and Slurm
    python bench/mixed.py --minutes 2         # shorter
    python bench/mixed.py --mode allocation   # with nodes that we hold

Four nodes of two emulated GPUs. Others submit to Slurm itself, at random times, jobs of one or two
GPUs; we submit ours to the scheduler all the time. Shown are how many of each finished, how long
theirs waited, how often a job of ours was preempted, and the share of time of the GPUs that Slurm
gave us in which no process of ours ran on them. Two audits tell whether theirs waited longer than
by Slurm's own order: which of ours overtook one of theirs although that would have fitted, from the
controller's log; and, with ``--mode jobs``, how long theirs wait if the same jobs come again at the
same times, and ours are plain jobs of Slurm's too. Writes ``out/mixed-MODE.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from slurm_order import THEIRS, Past, overtakings, past_jobs

from shockwave.cli.journals import events_of
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.launch_name import LaunchName
from shockwave.executors.gangs.supervisor.agent import ORDERS
from shockwave.executors.slurm.holders import HOLDER
from shockwave.executors.slurm.hostlist import expand
from shockwave.executors.slurm.jobs import gpus_in
from shockwave.model.events import (
    JobFinished,
    JobRunning,
    JobStarted,
    JobStopped,
    StopReason,
)
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


def plain(cluster: SlurmCluster, comment: str, gpus: int, seconds: float) -> None:
    cluster.run(
        "sbatch", "--parsable", f"--gres=gpu:{gpus}", "--nodes=1", "--output=/dev/null",
        f"--comment={comment}", f"--wrap=sleep {seconds:.1f}",
    )  # fmt: skip


@dataclass(frozen=True)
class Arrival:
    """A job that came ``at`` seconds after the beginning; ``ours`` is its number, None: theirs."""

    at: float
    gpus: int
    seconds: float  # that theirs run
    ours: int | None = None


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


def run(
    folder: Path, cluster: SlurmCluster, minutes: float, mode: str
) -> tuple[dict[str, Any], list[Arrival]]:
    """The figures, and all that came, ours with the seconds that they held GPUs."""
    config = ServeConfig(
        state_dir=folder / "state", executor="slurm", site_options={"mode": mode},
        round_seconds=10.0, restart_seconds=2.0, start_seconds=20.0, port=0, stop_jobs=True,
    )  # fmt: skip
    rng = np.random.default_rng(2)
    service = Service(config)
    service.start()
    arrivals: list[Arrival] = []
    names: list[str] = []  # of ours
    idle = held = 0
    begin = time.monotonic()
    end = begin + 60.0 * minutes
    next_ours = next_theirs = begin
    try:
        while time.monotonic() < end or any(
            service.desk.jobs(states=[state], tenant=None, after=None, limit=1)[0]
            for state in ("waiting", "running")
        ):
            now = time.monotonic()
            if now < end and now >= next_ours:
                next_ours = now + rng.exponential(OURS_EVERY_SECONDS)
                gpus, epochs = int(rng.integers(1, 3)), int(rng.integers(8, 40))
                names.append(service.desk.submit(ours(len(names), gpus, epochs), None)[0].id)
                arrivals.append(Arrival(now - begin, gpus, 0.0, len(names) - 1))
            if now < end and now >= next_theirs:
                next_theirs = now + rng.exponential(FOREIGN_EVERY_SECONDS)
                gpus, seconds = int(rng.integers(1, 3)), rng.uniform(3.0, LONGEST_SECONDS)
                plain(cluster, THEIRS, gpus, seconds)
                arrivals.append(Arrival(now - begin, gpus, seconds))
            now_held, now_idle = held_and_idle(cluster, config.state_dir)
            held, idle = held + now_held, idle + now_idle
            time.sleep(0.5)
            if now > end + 600.0:
                break
    finally:
        past = past_jobs(cluster)
        service.stop()
    waited = [job.waited for job in past if job.theirs]
    passed = overtakings(past, {f"n{number}": GPUS for number in range(NODES)})
    events = list(events_of(str(config.state_dir)))
    stops = [event for event in events if isinstance(event, JobStopped)]
    starts = {event.job: event.time for event in events if isinstance(event, JobStarted)}
    held_for = held_seconds(past)
    folders = [JobFolder.of(config.state_dir, name).path.name for name in names]
    came = [
        a if a.ours is None else replace(a, seconds=held_for.get(folders[a.ours], 0.0))
        for a in arrivals
    ]
    figures = {
        "mode": mode,
        "minutes": minutes,
        "load": os.getloadavg()[2],
        "ours": len(names),
        "ours_finished": sum(isinstance(event, JobFinished) for event in events),
        "theirs": len(arrivals) - len(names),
        "theirs_started": len(waited),
        "their_mean_wait_seconds": float(np.mean(waited)) if waited else None,
        "their_longest_wait_seconds": max(waited, default=None),
        "theirs_overtaken": len({one.theirs.number for one in passed}),
        "theirs_overtaken_that_fitted": len({one.theirs.number for one in passed if one.fitted}),
        "preemptions": sum(stop.reason is StopReason.PREEMPTED for stop in stops),
        "withdrawn": sum("did not start it" in stop.detail for stop in stops),
        "seconds_to_run": float(
            np.median([e.time - starts[e.job] for e in events if isinstance(e, JobRunning)] or [0])
        ),
        "idle_share_of_what_we_hold": idle / held if held else 0.0,
    }
    return figures, came


def held_seconds(past: Sequence[Past]) -> dict[str, float]:
    """[folder of a job of ours] for how long Slurm gave it GPUs, in all its launches."""
    found: dict[str, float] = {}
    for job in past:
        name = LaunchName.read(job.comment)
        if name is not None:
            found[name.folder] = found.get(name.folder, 0.0) + job.ended - job.started
    return found


def without_us(cluster: SlurmCluster, came: Sequence[Arrival]) -> dict[str, Any]:
    """The same jobs at the same times, all of them plain jobs of Slurm's."""
    begin = time.monotonic()
    for arrival in came:
        time.sleep(max(begin + arrival.at - time.monotonic(), 0.0))
        plain(cluster, THEIRS if arrival.ours is None else "ours", arrival.gpus, arrival.seconds)
    deadline = time.monotonic() + 600.0
    unfinished = ("squeue", "--noheader", "--states=PENDING,RUNNING,COMPLETING")
    while cluster.run(*unfinished).strip() and time.monotonic() < deadline:
        time.sleep(1.0)
    past = past_jobs(cluster)
    waited = [job.waited for job in past if job.theirs]
    passed = overtakings(past, {f"n{number}": GPUS for number in range(NODES)})
    return {
        "their_mean_wait_seconds_without_us": float(np.mean(waited)),
        "their_longest_wait_seconds_without_us": max(waited),
        "theirs_overtaken_without_us": len({one.theirs.number for one in passed}),
        "theirs_overtaken_that_fitted_without_us": len(
            {one.theirs.number for one in passed if one.fitted}
        ),
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
            figures, came = run(folder, cluster, chosen.minutes, chosen.mode)
        if chosen.mode == "jobs":
            with SlurmCluster(folder / "d", nodes=NODES, gpus=GPUS, settings=settings) as cluster:
                figures |= without_us(cluster, came)
    for label, value in figures.items():
        print(f"{label:40} {value if not isinstance(value, float) else round(value, 3)}")
    chosen.out.mkdir(exist_ok=True)
    (chosen.out / f"mixed-{chosen.mode}.json").write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
