"""One launch of a job as its executor sees it: does it live, ask it to stop, end it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.outcome import Ending
from shockwave.protocol.lease import Lease


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
        """Sends SIGTERM to the supervisors, if they can be reached; the lease tells them too."""

    @abstractmethod
    def kill(self) -> None:
        """Ends everything at once."""

    def disown(self) -> None:  # noqa: B027
        """The gang runs on without us, and we do not wait for its end."""

    def fate(self) -> Ending | None:
        """How it ended as far as the backend knows, for a gang that left no record itself."""
        return None

    def was_seen(self) -> bool:
        """Whether any part of it got as far as to say that it runs."""
        return any(self.folder.processes(self.generation, part) for part in range(self.parts))

    def is_up(self) -> bool:
        """Whether the ranks of every part were started."""
        told = (self.folder.processes(self.generation, part) for part in range(self.parts))
        return all(who is not None and who.ranks for who in told)

    def take_back_lease(self) -> None:
        """Tells the gang to stop, unless the lease belongs to a newer launch already.

        Raises :class:`ExecutorError` if it cannot be written.
        """
        lease = self.folder.lease() or Lease(self.generation)
        if not lease.ends(self.generation):
            # Not durable: after a power failure the journal still knows that it was stopped.
            self.folder.write_lease(Lease(self.generation, stop=True), durable=False)

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
