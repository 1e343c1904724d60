"""Jobs as Slurm tells of them, and what their ends mean."""

from __future__ import annotations

import pwd
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shockwave.executors.gangs.outcome import Ending, Outcome
from shockwave.executors.slurm.hostlist import expand

JOB_FORMAT = "%A|%U|%T|%r|%Q|%b|%N|%k"
# number, uid, state, reason, priority, GPUs a node, nodes, comment
_FIELDS = JOB_FORMAT.count("|") + 1
_GPUS = re.compile(r"gpu(?::[^:,=()]+)?[:=](\d+)")
_NOTHING = ("(null)", "N/A", "None")

_LOST = {"NODE_FAIL": "its node failed", "BOOT_FAIL": "its node did not boot"}
_STOPPED = {
    "CANCELLED": "somebody cancelled its Slurm job",
    "TIMEOUT": "it reached Slurm's time limit",
    "DEADLINE": "it reached Slurm's deadline",
    "PREEMPTED": "Slurm preempted it for another job",
    "REVOKED": "Slurm gave its job to another cluster",
}
_CRASHED = {"OUT_OF_MEMORY": "it ran out of memory"}
_ENDED = {"COMPLETED", "FAILED", *_LOST, *_STOPPED, *_CRASHED}
_PENDING = {
    "PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT",
}  # fmt: skip
_SUSPENDED = {"SUSPENDED", "STOPPED"}
# What passes when others have had their turn.
_CROWDED_OUT = ("", "Resources", "Priority", "ReqNodeNotAvail", "Nodes required for job are DOWN")


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One row of ``squeue``. A heterogeneous job has one for each of its components."""

    number: int
    state: str
    reason: str
    gpus_per_node: int
    nodes: tuple[str, ...]  # none before it is started
    comment: str
    priority: int = 0
    uid: int = -1  # of the user that it runs as

    @property
    def pending(self) -> bool:
        return self.state in _PENDING

    @property
    def suspended(self) -> bool:
        return self.state in _SUSPENDED

    @property
    def crowded_out(self) -> bool:
        """Whether it waits for what others have, or get before it."""
        return self.reason.split(",")[0].split("(")[0].strip() in _CROWDED_OUT

    @property
    def ended(self) -> bool:
        return self.state in _ENDED

    @property
    def holds_gpus(self) -> bool:
        return not (self.pending or self.ended)


def read_jobs(text: str) -> list[SlurmJob]:
    """The answer to ``squeue --format=JOB_FORMAT``; lines that are something else are left out.

    >>> read_jobs("7|1000|RUNNING|None|100|gres:gpu:2|n[0-1]|a comment")[0].nodes
    ('n0', 'n1')
    """
    jobs = []
    for line in text.splitlines():
        fields = line.split("|", _FIELDS - 1)
        if len(fields) < _FIELDS or not (fields[0].isdigit() and fields[1].isdigit()):
            continue  # the second line of somebody's comment
        number, uid, state, reason, priority, gpus, nodes, comment = fields
        jobs.append(
            SlurmJob(
                int(number),
                state,
                "" if reason in _NOTHING else reason,
                gpus_in(gpus),
                () if nodes in _NOTHING else expand(nodes),
                comment,
                int(priority) if priority.isdigit() else 0,
                int(uid),
            )
        )
    return jobs


def gpus_in(text: str) -> int:
    """GPUs in a list of generic resources, of whatever type.

    >>> gpus_in("gpu:v100:2(IDX:0-1),gpu:a100:1(IDX:4)"), gpus_in("gres/gpu:4"), gpus_in("N/A")
    (3, 4, 0)
    """
    return sum(int(count) for count in _GPUS.findall(text))


def canceller_in(state: str) -> str | None:
    """The user that ``sacct`` names in a state.

    >>> canceller_in("CANCELLED by 0"), canceller_in("COMPLETED")
    ('root', None)
    """
    found = re.search(r"CANCELLED by (\d+)", state)
    if found is None:
        return None
    try:
        return pwd.getpwuid(int(found.group(1))).pw_name
    except KeyError:
        return f"user {found.group(1)}"


def ending_of(
    jobs: Sequence[SlurmJob], cancelled_by: Callable[[int], str | None] = lambda number: None
) -> Ending | None:
    """What Slurm says became of a launch; None where it only knows that it is over."""
    numbers = ", ".join(str(job.number) for job in jobs)
    for reasons, outcome in (
        (_LOST, Outcome.LOST),
        (_CRASHED, Outcome.CRASHED),
        (_STOPPED, Outcome.STOPPED),
    ):
        for job in jobs:
            if job.state in reasons:
                what = reasons[job.state]
                who = cancelled_by(job.number) if job.state == "CANCELLED" else None
                if who:
                    what = what.replace("somebody", who)
                return Ending(outcome, f"{what} (Slurm job {numbers})")
    return None
