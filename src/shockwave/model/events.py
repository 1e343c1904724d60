"""Everything that happens, as events. The journal is a list of these and nothing else.

Times are seconds since the run began. Jobs and nodes go by id. The journal of a live run
and of a simulated one hold the same events, so whatever is measured from one is measured
from the other by the same code.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from shockwave.model.cluster import Node
from shockwave.model.errors import JournalError
from shockwave.model.job import Adaptation, JobSpec

# A gang's GPUs: (node id, slots on that node) for every node it spans.
Placement = tuple[tuple[str, tuple[int, ...]], ...]


class StopReason(StrEnum):
    """Why a job's lease ended before the job did."""

    PREEMPTED = "preempted"
    CRASHED = "crashed"  # by a fault of its own
    KILLED = "killed"  # by somebody else, which is no fault of its own
    NODE_LOST = "node-lost"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at ``time``."""

    kind: ClassVar[str] = "event"
    time: float


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """First event of a journal: the settings that give the rest its meaning."""

    kind: ClassVar[str] = "run-started"
    policy: str
    predictor: str
    trace: str
    nodes: tuple[Node, ...]
    round_seconds: float
    restart_seconds: float
    seed: int
    version: str
    started_unix: float | None = None  # of a live run: when its second 0 was


@dataclass(frozen=True, slots=True)
class JobSubmitted(Event):
    """A job arrived; ``job.arrival_seconds`` is when, ``time`` when it was first seen."""

    kind: ClassVar[str] = "job-submitted"
    job: JobSpec


@dataclass(frozen=True, slots=True)
class JobStarted(Event):
    """A gang got GPUs it did not hold in the round before (a restart, if not the first)."""

    kind: ClassVar[str] = "job-started"
    job: str
    placement: Placement
    attempt: int  # 1 for the first start


@dataclass(frozen=True, slots=True)
class JobStopped(Event):
    """A gang lost its GPUs. ``epochs_done`` is what was saved."""

    kind: ClassVar[str] = "job-stopped"
    job: str
    epochs_done: float
    reason: StopReason
    detail: str = ""  # of a crash: the exit code, the last lines of the log


@dataclass(frozen=True, slots=True)
class JobProgressed(Event):
    """What a live job did since it was last asked. Simulated runs do without."""

    kind: ClassVar[str] = "job-progressed"
    job: str
    epochs_done: float
    configuration: int
    epoch_seconds: float | None  # measured in that configuration
    productive_seconds: float  # since the last of these events
    held_seconds: float


@dataclass(frozen=True, slots=True)
class RegimeChanged(Event):
    """A job entered ``configuration`` after ``epoch`` epochs; its first regime at epoch 0."""

    kind: ClassVar[str] = "regime-changed"
    job: str
    epoch: int
    configuration: int


@dataclass(frozen=True, slots=True)
class JobFinished(Event):
    """All epochs done. ``exclusive_seconds`` is the productive time that its epochs took."""

    kind: ClassVar[str] = "job-finished"
    job: str
    exclusive_seconds: float


@dataclass(frozen=True, slots=True)
class JobFailed(Event):
    """A job was given up."""

    kind: ClassVar[str] = "job-failed"
    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class JobCancelled(Event):
    """A user took the job back."""

    kind: ClassVar[str] = "job-cancelled"
    job: str


@dataclass(frozen=True, slots=True)
class NodeUp(Event):
    kind: ClassVar[str] = "node-up"
    node: Node


@dataclass(frozen=True, slots=True)
class NodeDown(Event):
    kind: ClassVar[str] = "node-down"
    node: str


@dataclass(frozen=True, slots=True)
class NodeOccupied(Event):
    """Others hold ``gpus`` GPUs of a node from now on; 0 when they gave all of them back.

    They are not ours to use until then. A node that goes down is forgotten with its
    occupants.
    """

    kind: ClassVar[str] = "node-occupied"
    node: str
    gpus: int


@dataclass(frozen=True, slots=True)
class RoundDecided(Event):
    """A decision was taken, and holds for ``rounds`` rounds from ``round`` on.

    ``plan_seconds`` is wall-clock time and the only field that differs between two runs
    of the same simulation. ``spanning`` counts the gangs that had to span nodes although
    one node could have held them.
    """

    kind: ClassVar[str] = "round-decided"
    round: int
    rounds: int
    active: int
    running: int
    gpus_up: int
    gpus_busy: int
    spanning: int
    plan_seconds: float
    welfare: float | None = None
    gap: float | None = None
    price: float | None = None
    overrun_seconds: float = 0.0  # live: by how much the round began too late
    work_seconds: float | None = None  # live: from looking at jobs until all orders were given


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    """Last event of a journal that is complete."""

    kind: ClassVar[str] = "run-ended"
    rounds: int


_KINDS: dict[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        RunStarted, JobSubmitted, JobStarted, JobStopped, JobProgressed, RegimeChanged,
        JobFinished, JobFailed, JobCancelled, NodeUp, NodeDown, NodeOccupied, RoundDecided,
        RunEnded,
    )
}  # fmt: skip


def to_record(event: Event) -> dict[str, Any]:
    """The event as JSON types, ``kind`` first; ``nan`` becomes null."""
    return {"kind": event.kind, **_plain(dataclasses.asdict(event))}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    return value


def from_record(record: dict[str, Any]) -> Event:
    """The inverse of :func:`to_record`. Raises :class:`JournalError` on anything else."""
    try:
        fields = dict(record)
        cls = _KINDS[fields.pop("kind")]
        if cls is RunStarted:
            fields["nodes"] = tuple(Node(**node) for node in fields["nodes"])
        elif cls is NodeUp:
            fields["node"] = Node(**fields["node"])
        elif cls is JobSubmitted:
            fields["job"] = _spec(fields["job"])
        elif cls is JobStarted:
            fields["placement"] = tuple((node, tuple(slots)) for node, slots in fields["placement"])
        elif cls is JobStopped:
            fields["reason"] = StopReason(fields["reason"])
        return cls(**fields)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise JournalError(f"not an event of a journal: {str(record)[:120]} ({error})") from error


def _spec(record: dict[str, Any]) -> JobSpec:
    fields = dict(record)
    fields["adaptation"] = Adaptation(fields["adaptation"])
    fields["configurations"] = tuple(fields["configurations"])
    fields["epoch_seconds"] = tuple(math.nan if s is None else s for s in fields["epoch_seconds"])
    return JobSpec(**fields)
