"""One launch of a job as its executor sees it: does it live, ask it to stop, end it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from shockwave.executors.gangs.folder import JobFolder, Lease
from shockwave.executors.gangs.outcome import Ending


class Gang(ABC):
    """The processes of one launch, in ``parts``: one supervisor each, on a node each.

    ``launched`` is in unix seconds.
    """

    def __init__(self, folder: JobFolder, generation: int, launched: float, parts: int = 1) -> None:
        self.folder = folder
        self.generation = generation
        self.launched = launched
        self.parts = parts

    @abstractmethod
    def alive(self) -> bool:
        """Whether any of its processes may live, be it one that is only just starting."""

    @abstractmethod
    def terminate(self) -> None:
        """SIGTERM to the supervisors; it may come late or never, the lease tells them too."""

    @abstractmethod
    def kill(self) -> None:
        """Ends everything at once."""

    def disown(self) -> None:  # noqa: B027
        """The gang runs on without us; its end is nothing we wait for."""

    def fate(self) -> Ending | None:
        """What the engine knows of its end, for a gang that left no word itself."""
        return None

    def lease(self) -> Lease | None:
        """Its lease; None if a newer launch has it. One that got lost is as good as new."""
        lease = self.folder.lease() or Lease(self.generation, self.launched)
        return lease if lease.generation == self.generation else None

    def take_back_lease(self) -> None:
        """Raises :class:`ExecutorError` if it cannot be written."""
        lease = self.lease()
        if lease is not None and not lease.stop:
            # Lost with the power it costs nothing: the journal knows that the gang was stopped.
            self.folder.write_lease(replace(lease, stop=True), durable=False)

    def ask_to_stop(self) -> None:
        """Takes the lease back and sends SIGTERM; SIGKILL follows after the grace period.

        Raises :class:`ExecutorError` if the lease cannot be written; the signal is sent anyway.
        """
        try:
            self.take_back_lease()
        finally:
            self.terminate()

    def left_records(self) -> bool:
        """Whether every part has written down how it ended."""
        return all(self.folder.has_ended(self.generation, part) for part in range(self.parts))
