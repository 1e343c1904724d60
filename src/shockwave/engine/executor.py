"""The seam between deciding and running: three verbs and a clock.

The loop orders, the executor obeys and reports. The simulated executor lives in virtual
time, the live ones in real time; the loop cannot tell them apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from shockwave.model.cluster import Node
from shockwave.model.events import Event, Placement
from shockwave.model.job import JobSpec
from shockwave.model.view import Floats, Ints


@dataclass(frozen=True, slots=True)
class Known:
    """What the scheduler knows of a job already; whatever goes beyond it is news.

    Lets an executor that has just been started tell neither too little nor anything twice.
    """

    epochs_done: float
    regime_epoch: float  # when the present regime began
    configuration: int  # of the present regime: a value, not an index
    productive_seconds: float
    held_seconds: float


@dataclass(frozen=True, slots=True)
class Launch:
    """Start a gang on exactly these GPUs. ``attempt`` counts its starts from 1."""

    handle: int
    job: JobSpec
    placement: Placement
    attempt: int
    known: Known | None = None  # None where the executor itself has seen everything so far


def _unknown() -> Floats:
    """Filled with nan for every job."""
    return np.empty(0)


@dataclass(frozen=True)
class Progress:
    """What running jobs did since the last poll, one array element per job."""

    handle: Ints
    epochs_done: Floats
    configuration: Ints  # index into the job's declared configurations
    epoch_seconds: Floats  # measured in that configuration, nan where nothing was measured
    productive_seconds: Floats  # since the last poll; negative where a crash undid work
    held_seconds: Floats  # since the last poll, restarts included
    restart_seconds: Floats = field(default_factory=_unknown)
    """What the present launch took from its order until it trained; nan if unknown."""
    unsaved_seconds: Floats = field(default_factory=_unknown)
    """Work since the last checkpoint, which a crash would undo; nan if it never saved any."""

    def __post_init__(self) -> None:
        for name in ("restart_seconds", "unsaved_seconds"):
            if getattr(self, name).size == 0:
                object.__setattr__(self, name, np.full(len(self.handle), np.nan))

    @staticmethod
    def none() -> Progress:
        ints, floats = np.empty(0, dtype=np.int64), np.empty(0)
        return Progress(ints, floats, ints, floats, floats, floats)


@dataclass(frozen=True)
class Poll:
    """What happened since the last poll: events in order of time, and progress."""

    events: list[Event] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress.none)


class Executor(ABC):
    """Runs gangs. Every method returns at once but ``poll``, which lets time pass."""

    @abstractmethod
    def launch(self, launches: Sequence[Launch]) -> None:
        """Start these gangs."""

    @abstractmethod
    def stop(self, handles: Ints) -> None:
        """End these leases: the jobs save their state and give up their GPUs."""

    @abstractmethod
    def poll(self, until: float) -> Poll:
        """Let time pass to ``until`` and tell what happened."""

    def adopt(self, launches: Sequence[Launch]) -> None:  # noqa: B027
        """After a restart of the scheduler: these gangs were running; find them again.

        Whatever became of them in the meantime is told by the next ``poll``.
        """

    def nodes(self) -> tuple[Node, ...] | None:
        """The nodes that are up now; None if the executor does not know them itself."""
        return None

    def nodes_for(self, job: JobSpec) -> frozenset[str] | None:
        """The nodes that a job may use; None for all. Asked when the job is to start."""
        return None

    def away(self) -> str | None:
        """Why nothing can be ordered now: the backend underneath does not answer.

        What runs goes on running then, and ``poll`` keeps working. None as long as orders can
        be carried out.
        """
        return None

    def quiet_until(self) -> float:
        """A time before which nothing will happen by itself; the present if unknown.

        Virtual time can know this and skip uneventful rounds. Real time cannot.
        """
        return 0.0
