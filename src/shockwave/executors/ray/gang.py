"""One launch on Ray: an actor on every node of it, all in one placement group."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from shockwave.executors.gangs.errors import EngineAway
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.gang import Gang
from shockwave.executors.gangs.outcome import NEVER_STARTED, Ending, Outcome
from shockwave.executors.ray.cluster import Cause, RayCluster, Sight
from shockwave.model.errors import ExecutorError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a part runs. ``ray_id`` is None where an earlier scheduler has started it."""

    node: str
    ray_id: str | None = None


class RayGang(Gang):
    """``adopted``: an earlier scheduler was to start it; whether it did is not known."""

    def __init__(
        self,
        name: str,
        folder: JobFolder,
        generation: int,
        launched: float,
        seats: list[Seat],
        cluster: RayCluster,
        *,
        adopted: bool = False,
    ) -> None:
        self._seats = seats or [Seat("")]  # its record is gone, or was never written
        super().__init__(folder, generation, launched, parts=len(self._seats))
        self.name = name
        self._cluster = cluster
        self._adopted = adopted
        self._fate: Ending | None = None
        self._missed_since: float | None = None
        self._killed = False

    def alive(self) -> bool:
        return self._fate is None and not self.left_records()

    def terminate(self) -> None:
        try:
            self.terminated(self._cluster.terminate([self.name]))
        except EngineAway as error:
            logger.info("%s is asked to stop by its lease alone: %s", self.name, error)

    def terminated(self, ended: set[str]) -> None:
        """Takes the answer of Ray when gangs were asked to stop."""
        if self.name in ended:
            self._fate = Ending(Outcome.STOPPED, "stopped before it had started")

    def kill(self) -> None:
        try:
            self._cluster.end([self.name])
            self._killed = True
        except EngineAway as error:
            logger.warning("%s cannot be killed now: %s", self.name, error)

    def fate(self) -> Ending | None:
        return self._fate

    # What the executor finds out when it looks.

    def missing(self, sight: Sight) -> list[int]:
        """The parts that Ray does not run and that did not write down how they ended."""
        seen = sight.gangs.get(self.name, {})
        return [
            part
            for part in range(self.parts)
            if part not in seen and not self.folder.has_ended(self.generation, part)
        ]

    def waits(self, sight: Sight) -> bool:
        """Whether Ray has yet to start a part of it."""
        return not all(sight.gangs.get(self.name, {}).values())

    def withdraw(self, detail: str) -> None:
        """It is not to be started any more."""
        self.kill()
        if self._killed:
            self._fate = Ending(Outcome.NEVER_STARTED, detail)

    def judge(
        self,
        missing: list[int],
        causes: dict[int, Cause],
        sight: Sight,
        now: float,
        patience: float,
    ) -> None:
        """Some parts are missing: has the gang ended, and how?

        A part whose actor was killed may still be saving, and gets ``patience`` seconds for it.
        """
        if self._missed_since is None:
            self._missed_since = now
        if self._killed:
            self._fate = Ending(Outcome.STOPPED, "killed after the grace period")
            return
        lost = [part for part in missing if self._is_lost(part, causes.get(part), sight)]
        failed = [cause for part in missing if (cause := causes.get(part)) and not cause.started]
        if lost and self._never_ran(causes):
            self._fate = NEVER_STARTED
        elif lost:
            nodes = ", ".join(self._seats[part].node for part in lost)
            self._end_rest(Ending(Outcome.LOST, f"node {nodes} was lost"))
        elif failed:
            self._end_rest(Ending(Outcome.CRASHED, f"it could not be started: {failed[0].message}"))
        elif now - self._missed_since > patience:
            said = next((causes[part].message for part in missing if part in causes), "")
            detail = "its actor ended without a word" + (f": {said}" if said else "")
            self._end_rest(Ending(Outcome.CRASHED, detail))

    def _is_lost(self, part: int, cause: Cause | None, sight: Sight) -> bool:
        """Ray says so, or has forgotten the part, or has another node in place of the part's."""
        if cause is None or cause.node_died:
            return True
        seat = self._seats[part]
        node = sight.nodes.get(seat.node)
        return node is None or seat.ray_id not in (None, node.ray_id)

    def _never_ran(self, causes: dict[int, Cause]) -> bool:
        """Nobody has ever seen anything of it."""
        who = [self.folder.processes(self.generation, part) for part in range(self.parts)]
        return self._adopted and not causes and not any(who)

    def _end_rest(self, fate: Ending) -> None:
        """A gang is all or nothing. What cannot be reached now is fenced off by its lease."""
        self._fate = fate
        try:
            self.take_back_lease()
        except ExecutorError as error:
            logger.warning("%s: %s", self.name, error)
        self.kill()
