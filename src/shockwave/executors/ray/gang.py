"""One launch on Ray: an actor on every node of it, all in one placement group."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from shockwave.executors.gangs.errors import BackendAway
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.launch_name import LaunchName
from shockwave.executors.gangs.nodes import Health
from shockwave.executors.gangs.outcome import NEVER_STARTED, Ending, Outcome
from shockwave.executors.gangs.remote import Look, RemoteGang, SeenGang
from shockwave.executors.ray.client import RayClient
from shockwave.executors.ray.look import Cause

logger = logging.getLogger(__name__)


class RayGang(RemoteGang):
    """``ray_ids`` are those of its nodes when we started it; none for an earlier scheduler's."""

    def __init__(
        self,
        folder: JobFolder,
        name: LaunchName,
        launched: float,
        nodes: Sequence[str],
        client: RayClient,
        ray_ids: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, name, launched, nodes)
        self._client = client
        self._ray_ids = ray_ids
        self._missed_since: float | None = None
        self._killed = False

    def terminate(self) -> None:
        try:
            self.terminated(self._client.ask("terminate", names=[str(self.name)])["ended"])
        except BackendAway as error:
            logger.info("%s is asked to stop by its lease alone: %s", self.name, error)

    def terminated(self, ended: Sequence[str]) -> None:
        """Takes the answer of Ray when gangs were asked to stop."""
        if str(self.name) in ended:
            self._fate = Ending(Outcome.STOPPED, "stopped before it had started")

    def kill(self) -> None:
        try:
            self._client.ask("end", names=[str(self.name)])
            self._killed = True
        except BackendAway as error:
            logger.warning("%s cannot be killed now: %s", self.name, error)

    # What the executor finds out when it looks.

    def missing(self, look: Look) -> list[int]:
        """The parts that Ray does not run and that did not write down how they ended."""
        seen = look.gangs.get(self.name, SeenGang()).parts
        return [
            part
            for part in range(self.parts)
            if part not in seen and not self.folder.has_ended(self.generation, part)
        ]

    def judge(
        self,
        missing: list[int],
        causes: dict[int, Cause],
        look: Look,
        now: float,
        patience: float,
    ) -> None:
        """Some parts are missing: has the gang ended, and how?

        A part whose actor was killed may still be saving, and gets ``patience`` seconds for it.
        """
        if self._missed_since is None:
            self._missed_since = now
        if self._killed:
            self._fate = self._fate or Ending(Outcome.STOPPED, "killed after the grace period")
            return
        lost = [part for part in missing if self._is_lost(part, causes.get(part), look)]
        failed = [cause for part in missing if (cause := causes.get(part)) and not cause.started]
        if lost and self._ray_ids is None and not causes and not self.was_seen():
            self._fate = NEVER_STARTED
        elif lost:
            nodes = ", ".join(self.nodes[part] for part in lost if part < len(self.nodes))
            self._end_rest(Ending(Outcome.LOST, f"node {nodes} was lost"))
        elif failed:
            self._end_rest(Ending(Outcome.CRASHED, f"it could not be started: {failed[0].message}"))
        elif now - self._missed_since > patience:
            said = next((causes[part].message for part in missing if part in causes), "")
            detail = "its actor ended without a word" + (f": {said}" if said else "")
            self._end_rest(Ending(Outcome.KILLED, detail))

    def _is_lost(self, part: int, cause: Cause | None, look: Look) -> bool:
        """Ray says so, or has forgotten the part, or has another node in place of the part's."""
        if cause is None or cause.node_died or part >= len(self.nodes):
            return True
        name = self.nodes[part]
        node = look.nodes.get(name)
        if node is None or node.health is Health.DOWN:
            return True
        return bool((self._ray_ids or {}).get(name, node.incarnation) != node.incarnation)
