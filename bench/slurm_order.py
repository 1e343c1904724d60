"""In which order Slurm started jobs, and whether one of ours was let past one of theirs.

Times are those of the controller's log, to the millisecond. An overtaking (ours came later and
started while theirs waited) is against Slurm's order only if theirs would have fitted then:
otherwise it is backfill, and the controller decides on that for everybody alike. A job that is
cancelled holds its GPUs until the controller is told so: ``squeue`` has whole seconds, by which one
that is cancelled as it starts would never have held any.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shockwave.executors.slurm.hostlist import expand
from shockwave.executors.slurm.jobs import gpus_in
from shockwave.testing.slurm_cluster import SlurmCluster

THEIRS = "theirs"  # the comment of their jobs
_SUBMITTED = re.compile(r"submit_batch_job: JobId=(\d+)")
_STARTED = re.compile(r"(?:Allocate|Started) JobId=(\d+)")
_ENDED = re.compile(r"_job_complete: JobId=(\d+) done")
_CANCELLED = re.compile(r"REQUEST_KILL_JOB JobId=(\d+)")


@dataclass(frozen=True)
class Past:
    """A Slurm job that has started: unix seconds, and GPUs on each of its nodes."""

    number: int
    comment: str
    gpus: int
    nodes: frozenset[str]
    submitted: float
    started: float
    ended: float

    @property
    def theirs(self) -> bool:
        return self.comment == THEIRS

    @property
    def waited(self) -> float:
        return self.started - self.submitted


def past_jobs(cluster: SlurmCluster) -> list[Past]:
    """All that started so far."""
    log = (cluster.folder / "log" / "slurmctld.log").read_text(errors="replace")
    kinds = (_SUBMITTED, _STARTED, _ENDED, _CANCELLED)
    submitted, started, ended, cancelled = (_times(log, what) for what in kinds)
    form = "--format=%A|%k|%b|%N|%e"
    found = []
    for row in cluster.run("squeue", "--noheader", "--states=all", form).splitlines():
        number, comment, gpus, nodes, end = row.split("|")
        key = int(number)
        if key in started and key in submitted:
            over = ended.get(key) or cancelled.get(key)
            if over is None:
                over = _unix(end) if end[:1].isdigit() else time.time()
            names = frozenset(expand(nodes))
            found.append(
                Past(key, comment, gpus_in(gpus), names, submitted[key], started[key], over)
            )
    return found


@dataclass(frozen=True)
class Overtaking:
    """``fitted``: theirs would have found room on a node at that moment."""

    theirs: Past
    ours: Past
    fitted: bool


def overtakings(jobs: Sequence[Past], gpus_of: Mapping[str, int]) -> list[Overtaking]:
    """Theirs that waited while ours, submitted later, started on a node with GPUs."""
    found = []
    for job in jobs:
        for own in jobs:
            if job.theirs and not own.theirs and _passes(own, job):
                before = [j for j in jobs if j.started < own.started < j.ended]
                fitted = any(
                    gpus - sum(j.gpus for j in before if node in j.nodes) >= job.gpus
                    for node, gpus in gpus_of.items()
                )
                found.append(Overtaking(job, own, fitted))
    return found


def _passes(own: Past, job: Past) -> bool:
    return job.submitted < own.submitted and own.started < job.started


def _times(log: str, what: re.Pattern[str]) -> dict[int, float]:
    found: dict[int, float] = {}
    for line in log.splitlines():
        match = what.search(line)
        if match is not None and line.startswith("["):
            found.setdefault(int(match.group(1)), _unix(line[1 : line.index("]")]))
    return found


def _unix(text: str) -> float:
    whole, _, thousandths = text.partition(".")
    seconds = time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
    return seconds + float(f"0.{thousandths or 0}")
