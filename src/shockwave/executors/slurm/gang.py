"""One launch as a job of Slurm's."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from shockwave.executors.gangs.errors import EngineAway
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.gang import Gang
from shockwave.executors.gangs.outcome import NEVER_STARTED, Ending, Outcome
from shockwave.executors.gangs.supervisor.rotating_log import tail
from shockwave.executors.slurm.client import SlurmClient
from shockwave.executors.slurm.jobs import SlurmJob, ending_of
from shockwave.executors.slurm.look import Look
from shockwave.executors.slurm.names import LaunchName
from shockwave.executors.slurm.nodes import Health

logger = logging.getLogger(__name__)


class SlurmGang(Gang):
    """``nodes`` are those of its placement; ``number`` is that of its job, if it is known.

    ``last_look`` gives what Slurm said last, None before the first time. The gang was submitted
    now, or by an earlier scheduler, which is ``adopted``.
    """

    def __init__(
        self,
        folder: JobFolder,
        name: LaunchName,
        launched: float,
        nodes: Sequence[str],
        *,
        client: SlurmClient,
        last_look: Callable[[], Look | None],
        number: int | None = None,
    ) -> None:
        super().__init__(folder, name.generation, launched, max(len(nodes), 1))
        self.name = name
        self.nodes = frozenset(nodes)
        self.waits_since = launched  # unix seconds; for GPUs that no gang of ours holds
        self._client = client
        self._last_look = last_look
        self._number = number
        self._submitted = time.monotonic() if number is not None else None
        self._withdrawn: str | None = None

    def jobs(self) -> tuple[SlurmJob, ...] | None:
        """What Slurm says of it; None if it was not asked since the gang was submitted."""
        look = self._last_look()
        if look is None or (self._submitted is not None and look.began < self._submitted):
            return None
        return look.jobs.get(self.name, ())

    @property
    def number(self) -> int | None:
        """Of its job; the first one of a heterogeneous job stands for all of it."""
        if self._number is None:
            self._number = min((job.number for job in self.jobs() or ()), default=None)
        return self._number

    @property
    def pending(self) -> bool:
        return any(job.pending for job in self.jobs() or ())

    def alive(self) -> bool:
        if self._withdrawn is not None or self.left_records():
            return False
        jobs = self.jobs()
        return jobs is None or (not self._lost_nodes() and any(not job.ended for job in jobs))

    def terminate(self) -> None:
        terminate(self._client, [self])

    def kill(self) -> None:
        if self.number is not None:
            try:
                self._client.cancel([self.number])
            except EngineAway as error:
                logger.warning("Slurm job %d is not cancelled yet: %s", self.number, error)

    def withdraw(self, why: str) -> None:
        """It never started and never will: should it start this moment, its lease is gone."""
        try:
            self.take_back_lease()
        finally:
            self.kill()
            self._withdrawn = why

    def fate(self) -> Ending | None:
        if self._withdrawn is not None:
            return Ending(Outcome.NEVER_STARTED, self._withdrawn)
        jobs = self.jobs()
        if jobs is None:
            return None
        lost = self._lost_nodes()
        if lost:
            return Ending(Outcome.LOST, f"{', '.join(lost)} went down (Slurm job {self.number})")
        if not jobs:
            return self._unknown_to_slurm()
        ending = ending_of(jobs)
        if ending is None and not self._was_seen():
            said = tail(self.folder.supervisor_log)
            hint = f"is {self.folder.path} visible there, and its Python new enough?"
            return Ending(
                Outcome.CRASHED,
                f"it did not get as far as its ranks on {', '.join(sorted(self.nodes))} "
                f"(Slurm job {self.number}): {said or hint}",
            )
        return ending

    def _unknown_to_slurm(self) -> Ending:
        if self._submitted is None and not self._was_seen():
            return NEVER_STARTED
        return Ending(Outcome.LOST, "Slurm does not know its job any more")

    def _lost_nodes(self) -> list[str]:
        """One is enough, even while Slurm still clears up on the others."""
        look = self._last_look()
        seen = {} if look is None else look.nodes
        return sorted(n for n in self.nodes & seen.keys() if seen[n].health is Health.DOWN)

    def _was_seen(self) -> bool:
        """Whether any part of it got as far as to say that it runs."""
        return any(self.folder.processes(self.generation, part) for part in range(self.parts))


def terminate(client: SlurmClient, gangs: Sequence[SlurmGang]) -> None:
    """SIGTERM to the supervisors, and jobs that wait are taken back: few calls for many gangs.

    If Slurm does not answer, the leases have told them; one that starts later reads its lease.
    """
    known = [(gang, gang.number) for gang in gangs if gang.number is not None]
    waiting = [number for gang, number in known if gang.jobs() is None or gang.pending]
    on_one_node = [number for gang, number in known if gang.parts == 1]
    on_several = [number for gang, number in known if gang.parts > 1]
    try:
        for order, numbers in (
            (client.cancel_pending, waiting),
            (client.terminate_scripts, on_one_node),
            (client.terminate_steps, on_several),
        ):
            if numbers:
                order(numbers)
    except EngineAway as error:
        logger.warning("jobs are asked to stop by their leases alone: %s", error)
