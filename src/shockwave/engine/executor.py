"""The seam between deciding and running: launch, stop, look.

The loop orders, the executor obeys and reports. The simulated executor lives in virtual
time, the live ones in real time; the loop cannot tell them apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from shockwave.model.cluster import Node
from shockwave.model.events import Event, NodeDown, Placement
from shockwave.model.job import JobSpec
from shockwave.model.options import Option
from shockwave.model.progress import Progressed
from shockwave.model.view import Ints


@dataclass(frozen=True, slots=True)
class Known:
    """What the scheduler knows of a job already; only what goes beyond it is news.

    So an executor that has just been started forgets nothing and tells nothing twice.
    """

    epochs_done: float
    regime_epoch: float  # when the present regime began
    configuration: int  # of the present regime: a value, not an index
    productive_seconds: float
    held_seconds: float
    confirmed: bool = False  # that its processes run was told


@dataclass(frozen=True, slots=True)
class Launch:
    """Start a gang on exactly these GPUs. ``attempt`` counts its starts from 1.

    ``option`` says of which type they are and how many, None where nobody has a choice.
    """

    handle: int
    job: JobSpec
    placement: Placement
    attempt: int
    known: Known | None = None  # None where the executor itself has seen everything so far
    option: Option | None = None


class Executor(ABC):
    """Runs gangs. Every method returns at once but ``poll``, which lets time pass."""

    @abstractmethod
    def launch(self, launches: Sequence[Launch]) -> None:
        """Start these gangs."""

    @abstractmethod
    def stop(self, handles: Ints) -> None:
        """End these leases: the jobs save their state and give up their GPUs."""

    @abstractmethod
    def poll(self, until: float) -> list[Event]:
        """Let time pass to ``until`` and tell what happened, in order of time."""

    @abstractmethod
    def progress(self, handles: Ints | None = None) -> Progressed:
        """What these gangs did since they were last asked; by default all that ran since then.

        Told at the time of the last ``poll``, of gangs that have ended too.
        """

    def adopt(self, launches: Sequence[Launch]) -> None:  # noqa: B027
        """After a restart of the scheduler: these gangs were running; find them again.

        Whatever became of them in the meantime is told by the next ``poll``.
        """

    def nodes(self) -> tuple[Node, ...] | None:
        """The nodes that are up now; None if the executor does not know them itself."""
        return None

    def unusable(self, now: float) -> list[tuple[Node, NodeDown]]:
        """Nodes that there are beside :meth:`nodes`, and why they are not used."""
        return []

    def nodes_for(self, job: JobSpec) -> frozenset[str] | None:
        """The nodes that a job may use; None for all. Asked when the job is to start."""
        return None

    def away(self) -> str | None:
        """Why nothing can be ordered now: the backend does not answer.

        What runs goes on running then, and ``poll`` keeps working. None as long as orders can
        be carried out.
        """
        return None

    def quiet_until(self) -> float:
        """A time before which nothing will happen by itself; the present if unknown.

        Virtual time can know this and skip uneventful rounds. Real time cannot.
        """
        return 0.0
