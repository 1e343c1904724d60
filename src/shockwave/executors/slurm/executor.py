"""Runs gangs as jobs of a Slurm cluster: one Slurm job a gang, on exactly the planned nodes.

Slurm is asked once a poll, for everything. It is told to start, to signal and to cancel; all
else goes through the job's folder, on a file system that all nodes see.
"""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar, Self, cast

import numpy as np

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.account import LiveJob
from shockwave.executors.gangs.errors import EngineAway, LaunchError
from shockwave.executors.gangs.executor import GangExecutor
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.gang import Gang
from shockwave.executors.gangs.launch import GangSettings, Part, Start, rank_variables
from shockwave.executors.gangs.shipping import ship_supervisor
from shockwave.executors.live import Site
from shockwave.executors.slurm.client import SlurmClient, SlurmRefused
from shockwave.executors.slurm.eligible import in_partitions, with_features
from shockwave.executors.slurm.gang import SlurmGang, terminate
from shockwave.executors.slurm.look import Look, look
from shockwave.executors.slurm.names import LaunchName, site_of
from shockwave.executors.slurm.news import NodeNews
from shockwave.executors.slurm.nodes import Health, SlurmNode
from shockwave.executors.slurm.options import SlurmJobOptions, SlurmSiteOptions
from shockwave.executors.slurm.script import Submission
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.errors import ExecutorError
from shockwave.model.events import Event, JobStopped, NodeDown, StopReason
from shockwave.model.job import JobSpec

logger = logging.getLogger(__name__)
_PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol")
_SUBMITTERS = 16  # at a time: enough to keep Slurm's controller and the file system busy


class SlurmExecutor(GangExecutor):
    """Gangs on the nodes of a Slurm cluster that have GPUs.

    ``options`` are the site's. A gang that Slurm does not start within ``start_seconds`` is
    withdrawn. Raises :class:`ExecutorError` if Slurm is not installed.
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
        self._start_seconds = start_seconds
        self._python = given.python or sys.executable
        self._defaults = given.job_defaults()
        self._default_partition: str | None = None  # Slurm's; None before it was asked
        self._look: Look | None = None
        self._away: str | None = None
        self._news = NodeNews()
        self._strays: dict[LaunchName, float] = {}  # when they were asked to stop, unix seconds
        self._submitting = False  # false as soon as Slurm does not answer
        super().__init__(root, command_of, origin_unix, settings=settings, clock=clock, sleep=sleep)
        self._site = site_of(self._root)
        self._source = ship_supervisor(self._root)

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

    def away(self) -> str | None:
        return self._away

    def nodes(self) -> tuple[Node, ...] | None:
        if self._look is None:
            self._refresh()
        if self._look is None or self._away is not None:
            return None
        return self._news.known(self._usable(self._look))

    def nodes_for(self, job: JobSpec) -> frozenset[str] | None:
        """None also for what Slurm does not know: it is the one to say so, at the launch."""
        try:
            wanted = self._command_of(job.id).options
        except Exception:  # told when it is launched
            return None
        if self._look is None or not {"partition", "constraint"} & wanted.keys():
            return None
        nodes = self._usable(self._look)
        for option, choose in (("partition", in_partitions), ("constraint", with_features)):
            if option in wanted:
                if not choose(list(self._look.nodes.values()), wanted[option]):
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
        self._submitting = self._away is None
        with ThreadPoolExecutor(_SUBMITTERS, "sbatch") as pool:
            started = [pool.submit(self._try_to_start, start) for start in starts]
        errors = [error for future in started if (error := future.exception()) is not None]
        if errors:
            raise errors[0]

    def _start(self, start: Start) -> Gang:
        if not self._submitting:
            raise EngineAway(self._away or "Slurm does not answer")
        placement = start.order.placement
        shared = self._protocol(start)
        parts = [
            Part(node, [{**shared, **variables} for variables in ranks])
            for (node, _), ranks in zip(placement, rank_variables(placement), strict=True)
        ]
        start.write(parts, self._settings, master_addr=self._address(placement[0][0]))
        name = LaunchName(self._site, start.folder.path.name, start.generation)
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
        except EngineAway as error:
            self._submitting = False
            self._away = str(error)
            # It may have been heard all the same; without its lease it ends as it starts.
            start.folder.write_lease(replace(start.lease, stop=True))
            raise
        return self._gang(start.folder, name, start.now, [node for node, _ in placement], number)

    def _address(self, node: str) -> str:
        known = None if self._look is None else self._look.nodes.get(node)
        return node if known is None else known.address

    def _gang(
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
            last_look=lambda: self._look,
            number=number,
        )

    # Finding again.

    def _find(self, order: Launch, folder: JobFolder, record: dict[str, Any]) -> Gang:
        name = LaunchName(self._site, folder.path.name, order.attempt)
        launched = float(record.get("launched", self._clock()))
        return self._gang(folder, name, launched, [node for node, _ in order.placement])

    def _living(self, job: LiveJob) -> list[Gang]:
        return list(self._known_to_slurm(job.folder.path.name))

    def _end_strays(self, expected: set[tuple[Path, int]]) -> None:
        if self._look is None:
            self._refresh()
        strays = [
            gang
            for gang in self._known_to_slurm()
            if (gang.folder.path, gang.generation) not in expected and not gang.left_records()
        ]
        now = self._clock()
        asked = {stray.name: self._strays.get(stray.name, now) for stray in strays}
        for stray in strays:
            if stray.name not in self._strays:
                logger.warning("Slurm job %s runs unknown, ending it", stray.number)
                try:
                    stray.ask_to_stop()
                except ExecutorError as error:
                    logger.warning("it was signalled, but not through its lease: %s", error)
            elif now > asked[stray.name] + self._patience_seconds:
                stray.kill()
        self._strays = asked

    def _known_to_slurm(self, of_folder: str | None = None) -> Iterator[SlurmGang]:
        """Every launch of this scheduler (of one job), ever, whose Slurm job has not ended."""
        jobs_by_name = {} if self._look is None else self._look.jobs
        for name, jobs in jobs_by_name.items():
            wanted = of_folder is None or name.folder == of_folder
            if wanted and not all(job.ended for job in jobs):
                folder = JobFolder(self._root / "jobs" / name.folder)
                nodes = [node for job in jobs for node in job.nodes]
                yield self._gang(folder, name, self._clock(), nodes)

    def _gangs(self) -> Iterator[tuple[LiveJob, SlurmGang]]:
        for job in self._jobs.values():
            if job.gang is not None:
                yield job, cast(SlurmGang, job.gang)

    # Looking.

    def _refresh(self) -> None:
        if self._away is not None and not self._client.answers():
            return
        try:
            if self._default_partition is None:
                self._default_partition = self._client.default_partition() or ""
            self._look = look(self._client, self._site, self._look)
        except (EngineAway, SlurmRefused) as error:
            if self._away is None:
                logger.warning("riding out an outage: %s", error)
            self._away = str(error)
            return
        if self._away is not None:
            logger.warning("Slurm answers again")
            self._away = None
            for _, gang in self._gangs():
                gang.waits_since = self._clock()
        if self._swept:
            self._end_strays({(gang.folder.path, gang.generation) for _, gang in self._gangs()})
            self._withdraw_late()

    def _withdraw_late(self) -> None:
        """Gangs that Slurm does not start: others were faster, or a limit is reached.

        As long as a gang of ours is leaving one of its nodes, it waits for that one.
        """
        now = self._clock()
        waiting = [gang for job, gang in self._gangs() if job.running and gang.pending]
        if not waiting:
            return
        leaving = {
            node
            for job, gang in self._gangs()
            if job.stop_asked is not None and gang.alive()
            for node in gang.nodes
        }
        for gang in waiting:
            if gang.nodes & leaving:
                gang.waits_since = now
            elif now - gang.waits_since > self._start_seconds:
                reasons = {job.reason for job in gang.jobs() or () if job.reason}
                why = f": {', '.join(sorted(reasons))}" if reasons else ""
                gang.withdraw(f"Slurm did not start it in {self._start_seconds:g} s{why}")

    def _usable(self, seen: Look) -> list[SlurmNode]:
        """The nodes that this site is about, whatever their health."""
        nodes = [node for node in seen.nodes.values() if node.gpus > 0]
        partition = self._defaults.get("partition", self._default_partition)
        if partition:
            nodes = in_partitions(nodes, partition)
        if "constraint" in self._defaults:
            nodes = with_features(nodes, self._defaults["constraint"])
        return nodes

    def _node_events(self, until: float) -> list[Event]:
        if self._look is None or self._away is not None:
            return []
        news = self._news.tell(self._usable(self._look), self._look.occupied, until)
        stops: list[Event] = []
        for event in news:
            if isinstance(event, NodeDown):
                node = self._look.nodes.get(event.node)
                if node is not None and node.health is Health.WITHHELD:
                    stops += self._clear(node, until)
        return [*stops, *news]

    def _clear(self, node: SlurmNode, until: float) -> list[Event]:
        """Asks the gangs on a node that is being drained to leave, and tells so."""
        leaving = [job for job, gang in self._gangs() if job.running and node.name in gang.nodes]
        why = f"Slurm withholds {node.name}: {node.reason or node.state}"
        events: list[Event] = []
        for job in leaving:
            done = float(min(job.ledger.epochs_done, job.spec.epochs))
            events.append(JobStopped(until, job.spec.id, done, StopReason.PREEMPTED, why))
        try:
            self.stop(np.array([job.handle for job in leaving], dtype=np.int64))
        except ExecutorError as error:
            logger.warning("jobs were signalled, but not through their lease: %s", error)
        return events

    # Ending.

    def _terminate(self, gangs: Sequence[Gang]) -> None:
        """Beside whatever comes next: the leases have told them, this is only faster."""
        if gangs and self._away is None:
            ours = [cast(SlurmGang, gang) for gang in gangs]
            Thread(target=terminate, args=(self._client, ours), name="scancel").start()


def _client_here() -> SlurmClient:
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        raise ExecutorError(f"Slurm is not installed here: no {', '.join(missing)}")
    return SlurmClient()
