"""Runs gangs on a Ray cluster.

A gang has a detached placement group, one bundle for every node that was planned, and a named
detached actor in each bundle, which runs the supervisor of that part. So gangs outlive the
scheduler and are found again by name. The scheduler's process never imports Ray, which it
speaks to through a bridge.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.errors import BackendAway
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.gang import Gang
from shockwave.executors.gangs.launch import GangSettings, Start, supervisor_argv
from shockwave.executors.gangs.launch_name import LaunchName, prefix_of
from shockwave.executors.gangs.nodes import Health
from shockwave.executors.gangs.outcome import Ending, Outcome
from shockwave.executors.gangs.remote import Look, RemoteExecutor
from shockwave.executors.live import Site
from shockwave.executors.options import UNKNOWN_TYPE
from shockwave.executors.ray.client import RayClient
from shockwave.executors.ray.gang import RayGang
from shockwave.executors.ray.look import causes, look
from shockwave.executors.ray.options import RaySiteOptions
from shockwave.executors.ray.own_head import OwnHead
from shockwave.model.command import Command
from shockwave.model.errors import InputError

logger = logging.getLogger(__name__)


class RayExecutor(RemoteExecutor):
    """Gangs on the Ray cluster at ``address``; without one, on a Ray of its own with ``gpus``.

    Those are all of ``gpu_type``.

    Raises :class:`InputError` if Ray is not installed.
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
        gpu_type: str = UNKNOWN_TYPE,
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
        super().__init__(
            root,
            command_of,
            origin_unix,
            start_seconds=start_seconds,
            settings=settings,
            clock=clock,
            sleep=sleep,
        )
        self._own_head: OwnHead | None = None
        environment: dict[str, str] = {}
        if address is None:
            self._own_head = OwnHead(self._root, gpus, gpu_type)
            address, environment = self._own_head.start()
        self.client = RayClient(
            address,
            prefix_of(self._site),
            self._root / "ray-bridge.log",
            environment=environment,
            request_seconds=request_seconds,
        )
        self._to_start: list[dict[str, Any]] = []

    @classmethod
    def at(cls, site: Site) -> Self:
        return cls(
            site.state_dir,
            site.command_of,
            site.origin_unix,
            address=site.options_as(RaySiteOptions).address,
            gpus=sum(node.gpus for node in site.nodes),
            gpu_type=_one_type({node.gpu_type for node in site.nodes}),
            start_seconds=site.start_seconds,
            settings=GangSettings(grace_seconds=site.grace_seconds),
            clock=site.clock,
        )

    def adopt(self, launches: Sequence[Launch]) -> None:
        """Where there is a past, nobody waits for Ray: it is away until it is connected."""
        self.client.waits_at_first = False
        super().adopt(launches)

    # Starting.

    def _start_all(self, starts: Sequence[Start]) -> None:
        """One request for all of them."""
        self._to_start = []
        try:
            super()._start_all(starts)
        finally:
            try:
                if self._to_start:
                    self.client.ask("start", gangs=self._to_start)
            except BackendAway as error:
                self._away = str(error)
                self._never_started(starts, error)

    def _start(self, start: Start) -> Gang:
        nodes = self._look.nodes
        placement = start.order.placement
        gone = [
            node for node, _ in placement if node not in nodes or nodes[node].health is Health.DOWN
        ]
        if gone:
            raise BackendAway(f"node {', '.join(gone)} has just left")
        start.write(start.parts(), nodes[placement[0][0]].address)
        name = self._name(start.folder, start.generation)
        ray_ids = {node: nodes[node].incarnation for node, _ in placement}
        gang = RayGang(start.folder, name, start.now, list(ray_ids), self.client, ray_ids)
        self._gangs[name] = gang
        self._to_start.append(
            {
                "name": str(name),
                "folder": str(start.folder.path),
                "launch_file": str(start.folder.launch_file(start.generation)),
                "generation": start.generation,
                "parts": [
                    {
                        "node": node,
                        "ray_id": ray_ids[node],
                        "gpus": len(slots),
                        "argv": supervisor_argv(
                            start.folder, start.generation, self._source, part=part
                        ),
                        "log": str(start.folder.supervisor_log(part)),
                        "exit_file": str(start.folder.exit_file(start.generation, part)),
                    }
                    for part, (node, slots) in enumerate(placement)
                ],
            }
        )
        return gang

    def _never_started(self, starts: Sequence[Start], error: BackendAway) -> None:
        """Ray may have done it all the same: those gangs are unwanted, and will be ended."""
        asked = {order["name"] for order in self._to_start}
        for start in starts:
            gang = start.job.gang
            if isinstance(gang, RayGang) and str(gang.name) in asked:
                del self._gangs[gang.name]
                start.job.gang = None
                start.job.refused = Ending(Outcome.KILLED, f"never started: {error}")
                gang.take_back_lease()

    # Looking.

    def _take_look(self) -> Look:
        return look(self.client, self._look.nodes)

    def _judge_gangs(self) -> None:
        ours = [gang for gang in self._gangs.values() if isinstance(gang, RayGang)]
        missing = [(gang, parts) for gang in ours if (parts := gang.missing(self._look))]
        why = causes(self.client, [gang.name for gang, _ in missing]) if missing else {}
        for gang, parts in missing:
            now = self._clock()
            gang.judge(parts, why[gang.name], self._look, now, self._patience_seconds)

    def _make_gang(
        self, folder: JobFolder, name: LaunchName, launched: float, nodes: Sequence[str]
    ) -> RayGang:
        return RayGang(folder, name, launched, nodes, self.client)

    # Ending.

    def _terminate(self, gangs: Sequence[Gang]) -> None:
        ours = [gang for gang in gangs if isinstance(gang, RayGang)]
        if not ours:
            return
        try:
            names = [str(gang.name) for gang in ours]
            ended = self.client.ask("terminate", names=names)["ended"]
        except BackendAway as error:
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
            self.client.ask("end", names=[str(name) for name in (*over, *self._ending)])
        except BackendAway as error:
            logger.warning("GPUs of ended gangs stay reserved until the next start: %s", error)
        self.client.close()
        if self._own_head is not None:
            self._own_head.stop() if stop_jobs else self._own_head.leave()


def _one_type(types: set[str]) -> str:
    if len(types) > 1:
        raise InputError(
            "a Ray of its own is one node, which has GPUs of one type",
            place="slots",
            value=", ".join(sorted(types)),
            hint="Start a Ray cluster with a node for each type, and give its --ray-address",
        )
    return next(iter(types), UNKNOWN_TYPE)
