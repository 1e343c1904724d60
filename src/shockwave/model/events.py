"""Everything that happens, as events. The journal is a list of these and nothing else.

Times are seconds since the run began. Jobs and nodes go by id; columns of many jobs go by
``handle``, which counts submissions from 0. The journal of a live run and of a simulated one
hold the same events, so whatever is measured from one is measured from the other by the same
code. Readers match on :data:`Event`, a closed union: the type checker finds the reader that
forgot one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from shockwave.model.cluster import Node
from shockwave.model.job import JobSpec
from shockwave.model.options import Option
from shockwave.model.progress import Progressed
from shockwave.model.tenants import Tenant

# A gang's GPUs: (node id, slots on that node) for every node it spans.
Placement = tuple[tuple[str, tuple[int, ...]], ...]


class StopReason(StrEnum):
    """Why a job's lease ended before the job did."""

    PREEMPTED = "preempted"
    CRASHED = "crashed"  # by its own doing
    KILLED = "killed"  # by somebody else
    NODE_LOST = "node-lost"
    NOT_STARTED = "not-started"  # its GPUs were ordered, but it never ran
    RESIZED = "resized"  # to go on at once with another type or number of GPUs

    @property
    def ordered(self) -> bool:
        """Whether the scheduler wanted it."""
        return self in (StopReason.PREEMPTED, StopReason.RESIZED)


class Starts(StrEnum):
    """When jobs may start."""

    ROUNDS = "rounds"  # at the beginning of a round only, as in the paper
    IMMEDIATE = "immediate"  # as soon as GPUs are free; preemption waits for a round


@dataclass(frozen=True, slots=True)
class RunStarted:
    """First event of a journal: the settings that give the rest its meaning."""

    kind: ClassVar[str] = "run-started"
    time: float
    policy: str
    predictor: str
    trace: str
    nodes: tuple[Node, ...]
    round_seconds: float
    restart_seconds: float
    seed: int
    version: str
    started_unix: float | None = None  # of a live run: when its second 0 was
    starts: Starts = Starts.ROUNDS


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """The scheduler was started again with other settings; they hold from now on."""

    kind: ClassVar[str] = "settings-changed"
    time: float
    policy: str
    predictor: str
    round_seconds: float
    restart_seconds: float
    seed: int
    version: str
    starts: Starts


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """A job arrived; ``job.arrival_seconds`` is when, ``time`` when it was first seen.

    Of a live job ``submission`` is what its owner wrote, as JSON, and ``key`` the caller's
    word for this one request: asked twice, it makes one job.
    """

    kind: ClassVar[str] = "job-submitted"
    time: float
    job: JobSpec
    submission: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class JobChanged:
    """Somebody changed what a waiting job declares."""

    kind: ClassVar[str] = "job-changed"
    time: float
    job: JobSpec
    submission: str | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class JobHeld:
    """Somebody keeps a waiting job from starting; a running one goes on."""

    kind: ClassVar[str] = "job-held"
    time: float
    job: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class JobReleased:
    """A job that was held may start again."""

    kind: ClassVar[str] = "job-released"
    time: float
    job: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Somebody wants the job to end. :class:`JobCancelled` follows when it has."""

    kind: ClassVar[str] = "cancel-requested"
    time: float
    job: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class RequeueRequested:
    """Somebody wants a running job to give up its GPUs and wait again."""

    kind: ClassVar[str] = "requeue-requested"
    time: float
    job: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class JobStarted:
    """GPUs were ordered for a gang that held none before (a restart, if not the first)."""

    kind: ClassVar[str] = "job-started"
    time: float
    job: str
    placement: Placement
    attempt: int  # 1 for the first start
    option: Option | None = None  # None where nobody has a choice


@dataclass(frozen=True, slots=True)
class JobRunning:
    """The processes of a gang that was started have been seen to run."""

    kind: ClassVar[str] = "job-running"
    time: float
    job: str


@dataclass(frozen=True, slots=True)
class JobNoted:
    """What the backend says of a job that it keeps waiting or suspended; empty when it is over."""

    kind: ClassVar[str] = "job-noted"
    time: float
    job: str
    note: str


@dataclass(frozen=True, slots=True)
class JobSilent:
    """A running job that used to report has said nothing for so long that it may hang.

    It counts as silent until its next progress or start.
    """

    kind: ClassVar[str] = "job-silent"
    time: float
    job: str
    silent_seconds: float
    epoch_seconds: float  # what an epoch of it usually takes


@dataclass(frozen=True, slots=True)
class JobStopped:
    """A gang lost its GPUs. ``epochs_done`` is what was saved."""

    kind: ClassVar[str] = "job-stopped"
    time: float
    job: str
    epochs_done: float
    reason: StopReason
    detail: str = ""  # of a crash: the exit code, the last lines of the log
    back_off_seconds: float = 0.0  # until it may start again


@dataclass(frozen=True, slots=True)
class RegimeChanged:
    """A job entered ``configuration`` after ``epoch`` epochs; its first regime at epoch 0."""

    kind: ClassVar[str] = "regime-changed"
    time: float
    job: str
    epoch: int
    configuration: int


@dataclass(frozen=True, slots=True)
class JobFinished:
    """All epochs done. ``exclusive_seconds`` is the productive time that its epochs took.

    ``alone_seconds`` are what all of its epochs would have taken with each option, where that is
    known: to judge by when it is over.
    """

    kind: ClassVar[str] = "job-finished"
    time: float
    job: str
    exclusive_seconds: float
    alone_seconds: tuple[tuple[str, int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class JobFailed:
    """A job was given up."""

    kind: ClassVar[str] = "job-failed"
    time: float
    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """A job has left because somebody wanted it to."""

    kind: ClassVar[str] = "job-cancelled"
    time: float
    job: str


@dataclass(frozen=True, slots=True)
class NodeUp:
    """The backend has this node now."""

    kind: ClassVar[str] = "node-up"
    time: float
    node: Node


@dataclass(frozen=True, slots=True)
class NodeDown:
    """The backend no longer has this node."""

    kind: ClassVar[str] = "node-down"
    time: float
    node: str
    reason: str = ""
    withheld: bool = False  # somebody drained it in the backend: it works, but is not to be used


@dataclass(frozen=True, slots=True)
class NodeOccupied:
    """Others hold ``gpus`` GPUs of a node from now on; 0 when they gave all of them back.

    They are not ours to use until then. While the node is ``contested``, whatever we give up
    there may go to others who wait for it, so the gangs on it are left where they are. A node
    that goes down is forgotten with its occupants.
    """

    kind: ClassVar[str] = "node-occupied"
    time: float
    node: str
    gpus: int
    contested: bool = False


@dataclass(frozen=True, slots=True)
class NodeDrained:
    """An operator wants the node empty: nothing starts on it, its gangs are preempted."""

    kind: ClassVar[str] = "node-drained"
    time: float
    node: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class NodeResumed:
    """A node that was drained may be used again."""

    kind: ClassVar[str] = "node-resumed"
    time: float
    node: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class TenantChanged:
    """An operator, or the configuration where ``by`` is empty, says what a tenant was promised."""

    kind: ClassVar[str] = "tenant-changed"
    time: float
    tenant: Tenant
    by: str = ""


@dataclass(frozen=True, slots=True)
class RoundDecided:
    """A decision was taken, and holds for ``rounds`` rounds from ``round`` on.

    ``plan_seconds`` is wall-clock time and the only field that differs between two runs
    of the same simulation. ``spanning`` counts the gangs that had to span nodes although
    one node could have held them.
    """

    kind: ClassVar[str] = "round-decided"
    time: float
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
class RunEnded:
    """Last event of a journal that is complete."""

    kind: ClassVar[str] = "run-ended"
    time: float
    rounds: int


# What happens to a job that is there, or is asked for it: each has its id as ``job``.
JobEvent = (
    JobHeld
    | JobReleased
    | CancelRequested
    | RequeueRequested
    | JobStarted
    | JobRunning
    | JobNoted
    | JobSilent
    | JobStopped
    | RegimeChanged
    | JobFinished
    | JobFailed
    | JobCancelled
)

Event = (
    JobEvent
    | RunStarted
    | SettingsChanged
    | JobSubmitted
    | JobChanged
    | Progressed
    | NodeUp
    | NodeDown
    | NodeOccupied
    | NodeDrained
    | NodeResumed
    | TenantChanged
    | RoundDecided
    | RunEnded
)

# What people ask for. The scheduler answers with events of its own.
Request = (
    JobSubmitted
    | JobChanged
    | JobHeld
    | JobReleased
    | CancelRequested
    | RequeueRequested
    | NodeDrained
    | NodeResumed
    | TenantChanged
)


def job_of(event: Event) -> str | None:
    """The id of the one job that an event is about."""
    job = getattr(event, "job", None)
    return job.id if isinstance(job, JobSpec) else job
