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
from shockwave.executors.gangs.errors import LaunchError
from shockwave.executors.gangs.executor import GangExecutor
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.gang import Gang
from shockwave.executors.gangs.launch import GangSettings, Start
from shockwave.executors.gangs.shipping import ship_supervisor
from shockwave.executors.live import Site
from shockwave.executors.local.accounts import account_to_run_as
from shockwave.executors.local.devices import arranged, devices_of_slots, types_of
from shockwave.executors.local.gangs import LocalGang, start_gang
from shockwave.executors.local.limits import NO_LIMITS, Limits, Within, find_keeper
from shockwave.executors.local.nvidia import Gpu, Library, open_library
from shockwave.executors.local.options import LocalJob, LocalSite
from shockwave.executors.local.others import Others
from shockwave.executors.local.slots import Slots
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.errors import InputError
from shockwave.model.events import Event, Placement
from shockwave.model.job import JobSpec
from shockwave.protocol.environment import DEVICE_ORDER
from shockwave.protocol.records import LaunchRecord

logger = logging.getLogger(__name__)


class LocalExecutor(GangExecutor):
    """Gangs on the GPU slots of ``nodes``, all of them on this (POSIX) machine.

    ``devices`` are what ``CUDA_VISIBLE_DEVICES`` says for each slot, by default 0, 1, 2, ...
    ``library`` knows who else computes on them; None if nobody does. Gangs then get the GPUs of
    their nodes on which nobody else is, whichever slots they were given.
    """

    name: ClassVar[str] = "local"
    runs_as_owner: ClassVar[bool] = True
    runs_without_gpus: ClassVar[bool] = True
    look_seconds: ClassVar[float] = 0.2  # a look is a few files and no request to anybody
    SiteOptions = LocalSite
    JobOptions = LocalJob

    def __init__(
        self,
        root: Path,
        nodes: tuple[Node, ...],
        command_of: Callable[[str], Command],
        origin_unix: float,
        *,
        settings: GangSettings | None = None,
        devices: Sequence[str] | None = None,
        library: Library | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._slots = Slots(root.resolve(), nodes, devices)
        self._nodes = nodes
        super().__init__(root, command_of, origin_unix, settings=settings, clock=clock, sleep=sleep)
        self._others = None if library is None else Others(library, self._slots, nodes, clock)
        self._source = ship_supervisor(self._root)

    @classmethod
    def at(cls, site: Site) -> Self:
        options = site.options_as(LocalSite)
        types = [node.gpu_type for node in site.nodes for _ in range(node.gpus)]
        devices = devices_of_slots(len(types), options.devices)
        if len(set(types)) > 1:
            devices = arranged(devices, types_of(devices), types)
        library = open_library() if options.leave_to_others else None
        made = cls(
            site.state_dir,
            site.nodes,
            site.command_of,
            site.origin_unix,
            settings=GangSettings(grace_seconds=site.grace_seconds),
            devices=devices,
            library=library,
            clock=site.clock,
        )
        for gpu in made.gpus():
            logger.info("GPU %s", gpu)
        return made

    def gpus(self) -> list[Gpu]:
        """Those of the slots, as far as NVIDIA's library knows them."""
        return [] if self._others is None else self._others.gpus

    def nodes(self) -> tuple[Node, ...]:
        return self._nodes

    def _problem(self, order: Launch) -> str | None:
        return self._slots.problem(order.placement)

    def _start(self, start: Start) -> Gang:
        placement = self._really(start.order.placement)
        account = account_to_run_as(start.command.user)
        limits = self._limits(start)
        part = self._slots.part(placement, start.parts())
        if self._others is not None:  # which counts GPUs in this order
            for variables in part.ranks:
                variables.setdefault(DEVICE_ORDER, os.environ.get(DEVICE_ORDER, "PCI_BUS_ID"))
        slots = self._slots.open_locks(placement)
        try:
            gang = start_gang(start, part, self._source, slots, account, limits)
        finally:
            for descriptor in slots:
                os.close(descriptor)  # the supervisor has its own
        gang.slots = placement
        return gang

    def _really(self, placement: Placement) -> Placement:
        """On GPUs that are free of others, where it is known which are."""
        others = self._others
        if others is None:
            return placement
        promised = {
            (node, slot)
            for job in self._jobs.values()
            if isinstance(job.gang, LocalGang) and job.stop_asked is None
            for node, slots in job.gang.slots
            for slot in slots
        }
        return self._slots.elsewhere(placement, promised, others.hold)

    def _limits(self, start: Start) -> Within | None:
        limits = Limits.of(start.command.options)
        if not limits:
            return None
        keeper = find_keeper()
        if keeper is None:
            raise LaunchError(NO_LIMITS)
        return Within(keeper, f"{start.folder.path.name}-{start.generation}", limits)

    def check(self, job: JobSpec, command: Command) -> list[str]:
        """Raises :class:`InputError` for limits that nobody could keep here."""
        if Limits.of(command.options) and find_keeper() is None:
            raise InputError(NO_LIMITS, place="local", hint="Leave memory and cpus out")
        return []

    def _node_events(self, until: float) -> list[Event]:
        return [] if self._others is None else self._others.news(until)

    def _find(self, order: Launch, folder: JobFolder, record: LaunchRecord | None) -> Gang:
        launched = self._clock() if record is None else record.launched
        slots = self._slots.of_record(record, order.placement)
        return LocalGang(folder, order.attempt, launched, slots=slots)

    def _living(self, job: LiveJob) -> list[Gang]:
        return [LocalGang(job.folder, n, self._clock()) for n in job.folder.living_generations()]

    def _end_strays(self, expected: set[tuple[Path, int]]) -> None:
        for folder in JobFolder.all(self._root):
            for generation in folder.living_generations():
                if (folder.path, generation) not in expected:
                    logger.warning("%s: launch %d runs unknown, ending it", folder.path, generation)
                    LocalGang(folder, generation, self._clock()).ask_to_stop()
