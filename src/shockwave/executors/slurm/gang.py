"""One launch as a job of Slurm's."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from shockwave.executors.gangs.errors import BackendAway
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.launch_name import LaunchName
from shockwave.executors.gangs.nodes import Health
from shockwave.executors.gangs.outcome import NEVER_STARTED, Ending, Outcome
from shockwave.executors.gangs.remote import RemoteGang
from shockwave.executors.gangs.supervisor.rotating_log import tail
from shockwave.executors.slurm.client import SlurmClient
from shockwave.executors.slurm.jobs import SlurmJob, ending_of
from shockwave.executors.slurm.look import SlurmLook

logger = logging.getLogger(__name__)
_REASON_SECONDS = 30.0  # that Slurm gets to say why a gang of ours has left


class SlurmGang(RemoteGang):
    """``number`` is that of its Slurm job, if we have submitted it ourselves.

    ``last_look`` gives what Slurm said last, None before the first time.
    """

    def __init__(
        self,
        folder: JobFolder,
        name: LaunchName,
        launched: float,
        nodes: Sequence[str],
        *,
        client: SlurmClient,
        last_look: Callable[[], SlurmLook | None],
        number: int | None = None,
    ) -> None:
        super().__init__(folder, name, launched, nodes)
        self._client = client
        self._last_look = last_look
        self._number = number
        self._submitted = time.monotonic() if number is not None else None
        self._left: float | None = None  # monotonic; when it was first seen that others stopped it
        self._asked_accounts = 0.0  # monotonic; the look after which they were asked
        self._canceller: str | None = None  # empty: the accounts do not say yet

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

    def may_wait(self) -> bool:
        """Whether it may be that Slurm has not started it yet."""
        jobs = self.jobs()
        return jobs is None or any(job.pending for job in jobs)

    def alive(self) -> bool:
        if not super().alive():
            return self._fate is None and self._stopped_by_others() and self._may_learn_why()
        jobs = self.jobs()
        return jobs is None or (not self._lost_nodes() and any(not job.ended for job in jobs))

    def terminate(self) -> None:
        terminate(self._client, [self])

    def kill(self) -> None:
        if self.number is not None:
            try:
                self._client.cancel([self.number])
            except BackendAway as error:
                logger.warning("Slurm job %d is not cancelled yet: %s", self.number, error)

    def fate(self) -> Ending | None:
        jobs = self.jobs()
        if self._fate is not None or jobs is None:
            return self._fate
        lost = self._lost_nodes()
        if lost:
            return Ending(Outcome.LOST, f"{', '.join(lost)} went down (Slurm job {self.number})")
        if not jobs:
            return self._unknown_to_slurm()
        ending = ending_of(jobs, self._cancelled_by)
        if ending is None and not self.was_seen():
            said = tail(self.folder.supervisor_log())
            hint = f"is {self.folder.path} visible there, and its Python new enough?"
            return Ending(
                Outcome.CRASHED,
                f"it did not get as far as its ranks on {', '.join(sorted(self.nodes))} "
                f"(Slurm job {self.number}): {said or hint}",
            )
        return ending

    def _stopped_by_others(self) -> bool:
        """Whether it left because it was asked to, although its lease still stands."""
        lease = self.folder.lease()
        if lease is None or lease.ends(self.generation):
            return False
        records = (self.folder.exit_record(self.generation, part) for part in range(self.parts))
        return any(record is not None and record.asked for record in records)

    def _may_learn_why(self) -> bool:
        """Whether Slurm, which is still clearing up after it, will say who stopped it."""
        now = time.monotonic()
        self._left = self._left or now
        jobs = self.jobs()
        if now > self._left + _REASON_SECONDS or self._lost_nodes():
            return False
        if jobs is None:
            return True
        if any(job.pending for job in jobs):
            return False  # somebody has put it back into the queue
        if any(not job.ended for job in jobs):
            return True
        cancelled = [job.number for job in jobs if job.state == "CANCELLED"]
        return bool(cancelled) and self._cancelled_by(cancelled[0]) == ""

    def _cancelled_by(self, number: int) -> str | None:
        """As :meth:`SlurmClient.cancelled_by`, asked once a look and only until it is said."""
        look = self._last_look()
        if look is not None and not self._canceller and look.began > self._asked_accounts:
            self._asked_accounts = look.began
            self._canceller = self._client.cancelled_by(number)
        return self._canceller

    def _unknown_to_slurm(self) -> Ending:
        if self._submitted is None and not self.was_seen():
            return NEVER_STARTED
        return Ending(Outcome.LOST, "Slurm does not know its job any more")

    def _lost_nodes(self) -> list[str]:
        """One is enough, even while Slurm still clears up on the others."""
        look = self._last_look()
        seen = {} if look is None else look.nodes
        return sorted(n for n in self.nodes if n in seen and seen[n].health is Health.DOWN)


def terminate(client: SlurmClient, gangs: Sequence[SlurmGang]) -> None:
    """SIGTERM to the supervisors, in few calls for many gangs; jobs that wait are taken back.

    If Slurm does not answer, the gangs find it in their leases, those that start later too.
    """
    known = [(gang, gang.number) for gang in gangs if gang.number is not None]
    waiting = [number for gang, number in known if gang.may_wait()]
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
    except BackendAway as error:
        logger.warning("jobs are asked to stop by their leases alone: %s", error)
