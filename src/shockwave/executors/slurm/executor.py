"""Runs gangs as jobs of a Slurm cluster: one Slurm job a gang, on exactly the planned nodes.

Slurm is asked once a poll, for everything. It is told to start, to signal and to cancel; all
else goes through the job's folder, on a file system that all nodes see.
"""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import ClassVar, Self

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.errors import BackendAway, LaunchError
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.gang import Gang
from shockwave.executors.gangs.launch import GangSettings, Start
from shockwave.executors.gangs.launch_name import LaunchName
from shockwave.executors.gangs.remote import Look, RemoteExecutor, SeenGang
from shockwave.executors.live import Site
from shockwave.executors.slurm.client import SlurmClient, SlurmRefused
from shockwave.executors.slurm.eligible import in_partitions, with_features
from shockwave.executors.slurm.gang import SlurmGang, terminate
from shockwave.executors.slurm.look import SlurmLook, look
from shockwave.executors.slurm.nodes import SlurmNode
from shockwave.executors.slurm.options import SlurmJobOptions, SlurmSiteOptions
from shockwave.executors.slurm.script import Submission
from shockwave.model.command import Command
from shockwave.model.errors import ExecutorError
from shockwave.model.job import JobSpec
from shockwave.protocol.lease import Lease

logger = logging.getLogger(__name__)
_PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol")
_SUBMITTERS = 16  # at a time: enough to keep Slurm's controller and the file system busy


class SlurmExecutor(RemoteExecutor):
    """Gangs on the nodes of a Slurm cluster that have GPUs.

    ``options`` are the site's. Raises :class:`ExecutorError` if Slurm is not installed.
    """

    name: ClassVar[str] = "slurm"
    SiteOptions = SlurmSiteOptions
    JobOptions = SlurmJobOptions

    def __init__(
        self,
        root: Path,
        command_of: Callable[[str], Command],
        origin_unix: float,
        *,
        settings: GangSettings | None = None,
        options: SlurmSiteOptions | None = None,
        start_seconds: float = 60.0,
        client: SlurmClient | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        given = options or SlurmSiteOptions()
        self._client = client or _client_here()
        self._python = given.python or sys.executable
        self._defaults = given.job_defaults()
        self._default_partition: str | None = None  # Slurm's; None before it was asked
        self._slurm_look: SlurmLook | None = None
        super().__init__(
            root,
            command_of,
            origin_unix,
            start_seconds=start_seconds,
            settings=settings,
            clock=clock,
            sleep=sleep,
        )

    @classmethod
    def at(cls, site: Site) -> Self:
        return cls(
            site.state_dir,
            site.command_of,
            site.origin_unix,
            settings=GangSettings(grace_seconds=site.grace_seconds),
            options=site.options_as(SlurmSiteOptions),
            start_seconds=site.start_seconds,
            clock=site.clock,
        )

    # What the loop may ask.

    def nodes_for(self, job: JobSpec) -> frozenset[str] | None:
        """None also for what Slurm does not know: it is the one to say so, at the launch."""
        try:
            wanted = self._command_of(job.id).options
        except Exception:  # told when it is launched
            return None
        last = self._slurm_look
        if last is None or not {"partition", "constraint"} & wanted.keys():
            return None
        nodes = self._usable(last)
        for option, choose in (("partition", in_partitions), ("constraint", with_features)):
            if option in wanted:
                if not choose(list(last.nodes.values()), wanted[option]):
                    return None
                nodes = choose(nodes, wanted[option])
        return frozenset(node.name for node in nodes)

    # Starting.

    def _problem(self, order: Launch) -> str | None:
        if not order.placement or not all(slots for _, slots in order.placement):
            return "a gang needs at least one GPU on each of its nodes"
        return None

    def _start_all(self, starts: Sequence[Start]) -> None:
        """Several at a time: most of a submission is waiting for Slurm."""
        with ThreadPoolExecutor(_SUBMITTERS, "sbatch") as pool:
            started = [pool.submit(self._try_to_start, start) for start in starts]
        errors = [error for future in started if (error := future.exception()) is not None]
        if errors:
            raise errors[0]

    def _start(self, start: Start) -> Gang:
        if self._away is not None:
            raise BackendAway(self._away)
        placement = start.order.placement
        start.write(start.parts(), master_addr=self._address(placement[0][0]))
        name = self._name(start.folder, start.generation)
        submission = Submission(
            name,
            start.order.job.id,
            start.folder,
            placement,
            self._python,
            self._source,
            {**self._defaults, **start.command.options},
        )
        try:
            number = self._client.submit(submission.arguments())
        except SlurmRefused as answer:
            raise LaunchError(f"Slurm does not take it: {answer}") from answer
        except BackendAway as error:
            self._away = str(error)
            # It may have been heard all the same; without its lease it ends as it starts.
            start.folder.write_lease(Lease(start.generation, stop=True))
            raise
        nodes = [node for node, _ in placement]
        gang = self._make_gang(start.folder, name, start.now, nodes, number)
        self._gangs[name] = gang
        return gang

    def _address(self, node: str) -> str:
        known = self._look.nodes.get(node)
        return node if known is None else known.address

    def _make_gang(
        self,
        folder: JobFolder,
        name: LaunchName,
        launched: float,
        nodes: Sequence[str],
        number: int | None = None,
    ) -> SlurmGang:
        return SlurmGang(
            folder,
            name,
            launched,
            nodes,
            client=self._client,
            last_look=lambda: self._slurm_look,
            number=number,
        )

    # Looking.

    def _take_look(self) -> Look:
        if self._slurm_look is not None and self._away is not None and not self._client.answers():
            raise BackendAway(self._away)
        try:
            if self._default_partition is None:
                self._default_partition = self._client.default_partition() or ""
            seen = self._slurm_look = look(self._client, self._site, self._slurm_look)
        except SlurmRefused as answer:
            raise BackendAway(str(answer)) from answer
        gangs = {}
        for name, jobs in seen.jobs.items():
            if not all(job.ended for job in jobs):
                nodes = tuple(node for job in jobs for node in job.nodes)
                reasons = {job.reason for job in jobs if job.reason}
                waits = any(job.pending for job in jobs)
                gangs[name] = SeenGang(nodes, waits, ", ".join(sorted(reasons)))
        usable = self._usable(seen)
        return Look({node.name: node.seen(seen.occupied[node.name]) for node in usable}, gangs)

    def _usable(self, seen: SlurmLook) -> list[SlurmNode]:
        """The nodes that this site is about, whatever their health."""
        nodes = [node for node in seen.nodes.values() if node.gpus > 0]
        partition = self._defaults.get("partition", self._default_partition)
        if partition:
            nodes = in_partitions(nodes, partition)
        if "constraint" in self._defaults:
            nodes = with_features(nodes, self._defaults["constraint"])
        return nodes

    # Ending.

    def _terminate(self, gangs: Sequence[Gang]) -> None:
        """In a thread, and nobody waits for it: the leases say the same, only more slowly."""
        ours = [gang for gang in gangs if isinstance(gang, SlurmGang)]
        if ours and self._away is None:
            Thread(target=terminate, args=(self._client, ours), name="scancel").start()


def _client_here() -> SlurmClient:
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        raise ExecutorError(f"Slurm is not installed here: no {', '.join(missing)}")
    return SlurmClient()
