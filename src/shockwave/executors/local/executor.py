"""Runs gangs as real process groups on this machine.

A GPU slot is a file lock that the processes on it hold, and so is a launch: nothing runs twice,
and nobody has to guess whether a process id still means the same process.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Self

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.account import LiveJob
from shockwave.executors.gangs.executor import GangExecutor
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.gang import Gang
from shockwave.executors.gangs.launch import GangSettings, Start
from shockwave.executors.gangs.shipping import ship_supervisor
from shockwave.executors.live import Site
from shockwave.executors.local.accounts import account_to_run_as
from shockwave.executors.local.gangs import LocalGang, start_gang
from shockwave.executors.local.slots import Slots
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.protocol.records import LaunchRecord

logger = logging.getLogger(__name__)


class LocalExecutor(GangExecutor):
    """Gangs on the GPU slots of ``nodes``, all of them on this (POSIX) machine.

    ``devices`` are what ``CUDA_VISIBLE_DEVICES`` says for each slot, by default 0, 1, 2, ...
    """

    name: ClassVar[str] = "local"
    runs_as_owner: ClassVar[bool] = True

    def __init__(
        self,
        root: Path,
        nodes: tuple[Node, ...],
        command_of: Callable[[str], Command],
        origin_unix: float,
        *,
        settings: GangSettings | None = None,
        devices: Sequence[str] | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._slots = Slots(root.resolve(), nodes, devices)
        self._nodes = nodes
        super().__init__(root, command_of, origin_unix, settings=settings, clock=clock, sleep=sleep)
        self._source = ship_supervisor(self._root)

    @classmethod
    def at(cls, site: Site) -> Self:
        return cls(
            site.state_dir,
            site.nodes,
            site.command_of,
            site.origin_unix,
            settings=GangSettings(grace_seconds=site.grace_seconds),
            clock=site.clock,
        )

    def nodes(self) -> tuple[Node, ...]:
        return self._nodes

    def _problem(self, order: Launch) -> str | None:
        return self._slots.problem(order.placement)

    def _start(self, start: Start) -> Gang:
        placement = start.order.placement
        account = account_to_run_as(start.command.user)
        part = self._slots.part(placement, start.parts())
        slots = self._slots.open_locks(placement)
        try:
            return start_gang(start, part, self._source, slots, account)
        finally:
            for descriptor in slots:
                os.close(descriptor)  # the supervisor has its own

    def _find(self, order: Launch, folder: JobFolder, record: LaunchRecord | None) -> Gang:
        launched = self._clock() if record is None else record.launched
        return LocalGang(folder, order.attempt, launched)

    def _living(self, job: LiveJob) -> list[Gang]:
        return [LocalGang(job.folder, n, self._clock()) for n in job.folder.living_generations()]

    def _end_strays(self, expected: set[tuple[Path, int]]) -> None:
        for folder in JobFolder.all(self._root):
            for generation in folder.living_generations():
                if (folder.path, generation) not in expected:
                    logger.warning("%s: launch %d runs unknown, ending it", folder.path, generation)
                    LocalGang(folder, generation, self._clock()).ask_to_stop()
