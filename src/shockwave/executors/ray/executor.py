"""Runs gangs on a Ray cluster.

A gang has a detached placement group, one bundle for every node that was planned, and a named
detached actor in each bundle, which runs the supervisor of that part. So gangs outlive the
scheduler and are found again by name. The scheduler's process never imports Ray, which it
speaks to through a bridge.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.account import LiveJob
from shockwave.executors.gangs.errors import EngineAway
from shockwave.executors.gangs.executor import GangExecutor
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.gang import Gang
from shockwave.executors.gangs.launch import (
    GangSettings,
    Part,
    Start,
    rank_variables,
    supervisor_argv,
)
from shockwave.executors.gangs.outcome import Ending, Outcome
from shockwave.executors.gangs.shipping import ship_supervisor
from shockwave.executors.live import Site
from shockwave.executors.ray.client import RayClient
from shockwave.executors.ray.cluster import RayCluster, RayNode
from shockwave.executors.ray.gang import RayGang, Seat
from shockwave.executors.ray.options import RaySiteOptions
from shockwave.executors.ray.own_head import OwnHead
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.errors import ExecutorError, InputError
from shockwave.model.events import Event, NodeDown, NodeOccupied, NodeUp

logger = logging.getLogger(__name__)


class RayExecutor(GangExecutor):
    """Gangs on the Ray cluster at ``address``; without one, on a Ray of its own with ``gpus``.

    ``root`` is a folder that all nodes see at the same path. Ray has ``start_seconds`` to start
    a gang, then it is withdrawn.
    """

    name: ClassVar[str] = "ray"
    SiteOptions = RaySiteOptions

    def __init__(
        self,
        root: Path,
        command_of: Callable[[str], Command],
        origin_unix: float,
        *,
        address: str | None = None,
        gpus: int = 1,
        start_seconds: float = 60.0,
        request_seconds: float = 15.0,
        settings: GangSettings | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if find_spec("ray") is None:
            raise InputError(
                "Ray is not installed",
                place="executor",
                value=self.name,
                hint="pip install 'shockwave-scheduler[ray]'",
            )
        super().__init__(root, command_of, origin_unix, settings=settings, clock=clock, sleep=sleep)
        self._start_seconds = start_seconds
        self._own_head: OwnHead | None = None
        environment: dict[str, str] = {}
        if address is None:
            self._own_head = OwnHead(self._root, gpus)
            address, environment = self._own_head.start()
        self._prefix = f"shockwave/{hashlib.sha256(str(self._root).encode()).hexdigest()[:12]}/"
        client = RayClient(
            address,
            self._prefix,
            self._root / "ray-bridge.log",
            environment=environment,
            request_seconds=request_seconds,
        )
        self.cluster = RayCluster(client)
        self._source = ship_supervisor(self._root)
        self._gangs: dict[str, RayGang] = {}  # by name, until they have ended
        self._ending: set[str] = set()  # those that have ended, but not for Ray
        self._asked: dict[str, float] = {}  # those that nobody wants, and since when
        self._to_start: list[dict[str, Any]] = []
        self._told_nodes: dict[str, RayNode] = {}

    @classmethod
    def at(cls, site: Site) -> Self:
        return cls(
            site.state_dir,
            site.command_of,
            site.origin_unix,
            address=site.options_as(RaySiteOptions).address,
            gpus=sum(node.gpus for node in site.nodes),
            start_seconds=site.start_seconds,
            settings=GangSettings(grace_seconds=site.grace_seconds),
            clock=site.clock,
        )

    # Nodes.

    def nodes(self) -> tuple[Node, ...] | None:
        if self.cluster.trouble is not None:
            self._refresh()
        if self.cluster.trouble is not None:
            return None
        self._told_nodes = {
            name: replace(node, foreign=0) for name, node in self.cluster.sight.nodes.items()
        }
        return tuple(node.node for node in self._told_nodes.values())

    def away(self) -> str | None:
        return self.cluster.trouble

    def _node_events(self, until: float) -> list[Event]:
        if self.cluster.trouble is not None:
            return []
        told, now = self._told_nodes, self.cluster.sight.nodes
        events: list[Event] = [
            NodeDown(until, name)
            for name, before in told.items()
            if name not in now or now[name].ray_id != before.ray_id
        ]
        self._told_nodes = {}
        for name, node in now.items():
            known = told.get(name)
            if known is None or known.ray_id != node.ray_id or known.node != node.node:
                events.append(NodeUp(until, node.node))
                known = replace(node, foreign=0)
            if node.foreign > known.foreign and not node.settled:
                node = replace(node, foreign=known.foreign)
            if node.foreign != known.foreign:
                events.append(NodeOccupied(until, name, node.foreign))
            self._told_nodes[name] = node
        return events

    # Launching.

    def _start_all(self, starts: Sequence[Start]) -> None:
        """One request for all of them."""
        self._to_start = []
        try:
            super()._start_all(starts)
        finally:
            try:
                if self._to_start:
                    self.cluster.start(self._to_start)
            except EngineAway as error:
                self._never_started(starts, error)

    def _start(self, start: Start) -> Gang:
        nodes = self.cluster.sight.nodes
        placement = start.order.placement
        gone = [node for node, _ in placement if node not in nodes]
        if gone:
            raise EngineAway(f"node {', '.join(gone)} has just left")
        protocol = self._protocol(start)
        variables = rank_variables(placement)
        parts = [
            Part(node, [{**protocol, **rank} for rank in ranks])
            for (node, _), ranks in zip(placement, variables, strict=True)
        ]
        start.write(parts, self._settings, nodes[placement[0][0]].address)
        seats = [Seat(node, nodes[node].ray_id) for node, _ in placement]
        gang = self._gang(start.folder, start.generation, start.now, seats)
        self._to_start.append(
            {
                "name": gang.name,
                "folder": str(start.folder.path),
                "generation": start.generation,
                "parts": [
                    {
                        "ray_id": nodes[node].ray_id,
                        "gpus": len(slots),
                        "argv": supervisor_argv(
                            start.folder, start.generation, part=number, source=self._source
                        ),
                    }
                    for number, (node, slots) in enumerate(placement)
                ],
            }
        )
        return gang

    def _never_started(self, starts: Sequence[Start], error: EngineAway) -> None:
        """Ray may have done it all the same: those gangs are unknown, and will be ended."""
        asked = {order["name"] for order in self._to_start}
        for start in starts:
            gang = start.job.gang
            if isinstance(gang, RayGang) and gang.name in asked:
                del self._gangs[gang.name]
                start.job.gang = None
                start.job.refused = Ending(Outcome.NEVER_STARTED, f"never started: {error}")
                gang.take_back_lease()

    # Looking.

    def _refresh(self) -> None:
        if not self.cluster.look():
            return
        try:
            self._judge_missing()
            if self._swept:
                self._end_unwanted()
            if self._withdraw_waiting():
                self.cluster.look()  # whoever has the GPUs instead is seen only now
        except ExecutorError as error:  # Ray went away in between, or a lease was not written
            logger.warning("the look at Ray is not complete: %s", error)

    def _judge_missing(self) -> None:
        sight = self.cluster.sight
        over = {name for name, gang in self._gangs.items() if not gang.alive()}
        self._ending = {name for name in self._ending | over if name in sight.gangs}
        for name in over:
            del self._gangs[name]
        missing = {
            name: parts for name, gang in self._gangs.items() if (parts := gang.missing(sight))
        }
        if not missing:
            return
        causes = self.cluster.causes(list(missing))
        for name, parts in missing.items():
            self._gangs[name].judge(
                parts, causes.get(name, {}), sight, self._clock(), self._patience_seconds
            )

    def _withdraw_waiting(self) -> bool:
        """Whether there were any."""
        latest = self._clock() - self._start_seconds
        waiting = [
            gang
            for gang in self._gangs.values()
            if gang.launched < latest and gang.alive() and gang.waits(self.cluster.sight)
        ]
        for gang in waiting:
            gang.withdraw(f"Ray did not start it in {self._start_seconds:g} s")
        return bool(waiting)

    def _end_unwanted(self) -> None:
        """Gangs of this folder that run although nobody here has them."""
        now = self._clock()
        unwanted = [name for name in self.cluster.sight.gangs if name not in self._gangs]
        self._asked = {name: since for name, since in self._asked.items() if name in unwanted}
        for name in unwanted:
            gang = self._named(name)
            since = self._asked.setdefault(name, now)
            if now - since > self._patience_seconds:
                gang.kill()
            elif since == now and name not in self._ending:
                logger.warning("%s runs unknown, ending it", name)
                gang.ask_to_stop()

    # Finding gangs again.

    def _find(self, order: Launch, folder: JobFolder, record: dict[str, Any]) -> Gang:
        seats = [Seat(str(part["node"])) for part in record.get("parts", [])]
        launched = float(record.get("launched", self._clock()))
        return self._gang(folder, order.attempt, launched, seats, adopted=True)

    def _living(self, job: LiveJob) -> list[Gang]:
        prefix = self._name(job.folder, "")
        return [
            self._gangs.setdefault(name, self._named(name))
            for name in self.cluster.sight.gangs
            if name.startswith(prefix)
        ]

    def _end_strays(self, expected: set[tuple[Path, int]]) -> None:
        """Every look does it from now on; Ray may be away at this moment."""
        self._refresh()

    # Ending.

    def _terminate(self, gangs: Sequence[Gang]) -> None:
        ours = [gang for gang in gangs if isinstance(gang, RayGang)]
        if not ours:
            return
        try:
            ended = self.cluster.terminate([gang.name for gang in ours])
        except EngineAway as error:
            logger.warning("gangs are asked to stop by their leases alone: %s", error)
            return
        for gang in ours:
            gang.terminated(ended)

    def shutdown(self, stop_jobs: bool) -> None:
        super().shutdown(stop_jobs)
        over = [name for name, gang in self._gangs.items() if stop_jobs or not gang.alive()]
        try:
            # Even if there are none: it also gives back the GPUs of gangs that the bridge has not
            # tidied away yet.
            self.cluster.end([*over, *self._ending])
        except EngineAway as error:
            logger.warning("GPUs of ended gangs stay reserved until the next start: %s", error)
        self.cluster.close()
        if self._own_head is not None:
            self._own_head.stop() if stop_jobs else self._own_head.leave()

    # Names.

    def _name(self, folder: JobFolder, generation: int | str) -> str:
        return f"{self._prefix}{folder.path.name}/{generation}"

    def _gang(
        self,
        folder: JobFolder,
        generation: int,
        launched: float,
        seats: list[Seat],
        *,
        adopted: bool = False,
    ) -> RayGang:
        name = self._name(folder, generation)
        gang = RayGang(name, folder, generation, launched, seats, self.cluster, adopted=adopted)
        self._gangs[name] = gang
        return gang

    def _named(self, name: str) -> RayGang:
        """A gang that only Ray knows."""
        path, _, generation = name.removeprefix(self._prefix).rpartition("/")
        folder = JobFolder(self._root / "jobs" / path)
        seats = [Seat("")] * len(self.cluster.sight.gangs.get(name, {}))
        return RayGang(name, folder, int(generation), self._clock(), seats, self.cluster)
