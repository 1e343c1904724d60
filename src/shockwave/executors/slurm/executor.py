"""Runs gangs as jobs of a Slurm cluster: one Slurm job a gang, on exactly the planned nodes.

Slurm is asked once a poll, for everything. It is told to start, to signal and to cancel; all
else goes through the job's folder, on a file system that all nodes see.
"""

from __future__ import annotations

import logging
import os
import pwd
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import ClassVar, Self, cast

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.errors import BackendAway, LaunchError
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.gang import Gang
from shockwave.executors.gangs.launch import GangSettings, Start
from shockwave.executors.gangs.launch_name import LaunchName
from shockwave.executors.gangs.outcome import Ending, Outcome
from shockwave.executors.gangs.remote import Look, RemoteExecutor, SeenGang
from shockwave.executors.live import Site
from shockwave.executors.local.accounts import (
    Account,
    account_to_run_as,
    hand_over,
    python_for_everybody,
)
from shockwave.executors.slurm.associations import check_account
from shockwave.executors.slurm.client import SlurmClient, SlurmRefused, client_here
from shockwave.executors.slurm.eligible import in_partitions, with_features
from shockwave.executors.slurm.gang import SlurmGang, terminate
from shockwave.executors.slurm.hostlist import expand
from shockwave.executors.slurm.jobs import SlurmJob
from shockwave.executors.slurm.limits import check_partition, problem_of
from shockwave.executors.slurm.look import PerGpu, SlurmLook, look
from shockwave.executors.slurm.nodes import SlurmNode
from shockwave.executors.slurm.options import SlurmJobOptions, SlurmSiteOptions, megabytes
from shockwave.executors.slurm.partitions import SlurmPartition, named
from shockwave.executors.slurm.rivals import contested_nodes
from shockwave.executors.slurm.script import Submission, option_arguments
from shockwave.model.command import Command
from shockwave.model.errors import InputError
from shockwave.model.job import JobSpec
from shockwave.protocol.lease import Lease

logger = logging.getLogger(__name__)
_CHOOSE_NODES = {"partition", "constraint", "exclude", "gpu_type", "cpus_per_gpu", "mem_per_gpu"}
# Parts of a refusal that may not hold for ever: nodes come and go.
_MAY_PASS = ("node configuration", "nodes are busy", "not available", "partition(s) is down")
_SUBMITTERS = 16  # at a time: enough to keep Slurm's controller and the file system busy


class SlurmExecutor(RemoteExecutor):
    """Gangs on the nodes of a Slurm cluster that have GPUs.

    As root it submits a job as the user of its command: Slurm then checks and accounts as if that
    user had submitted it. ``options`` are the site's. Raises :class:`ExecutorError` if Slurm is
    not installed.
    """

    name: ClassVar[str] = "slurm"
    runs_as_owner: ClassVar[bool] = True
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
        self._client = client or client_here()
        self._python = given.python
        self._defaults = given.job_defaults()
        self._allowed = frozenset((given.allow or "").split(",")) - {""}
        self._per_gpu = PerGpu(given.cpus_per_gpu or 0, megabytes(given.mem_per_gpu))
        self._first_come: bool | None = None  # how Slurm orders its queue; None before it was asked
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
        """Raises :class:`InputError` if Slurm has no such partition; it may not answer, though."""
        options = site.options_as(SlurmSiteOptions)
        if options.mode == "allocation":
            from shockwave.executors.slurm.allocation import SlurmAllocationExecutor

            cls = cast("type[Self]", SlurmAllocationExecutor)
        made = cls(
            site.state_dir,
            site.command_of,
            site.origin_unix,
            settings=GangSettings(grace_seconds=site.grace_seconds),
            options=options,
            start_seconds=site.start_seconds,
            clock=site.clock,
        )
        partition = made._defaults.get("partition")
        with suppress(BackendAway, SlurmRefused):
            if partition is not None:
                check_partition(partition, made._client.partitions(), place="slurm_partition")
        return made

    # What the loop may ask.

    def nodes_for(self, job: JobSpec) -> frozenset[str] | None:
        """None also for what Slurm does not know: it is the one to say so, at the launch."""
        try:
            wanted = self._command_of(job.id).options
        except Exception:  # told when it is launched
            return None
        last = self._slurm_look
        if last is None or not _CHOOSE_NODES & wanted.keys():
            return None
        nodes = self._usable(last)
        for option, choose in (("partition", in_partitions), ("constraint", with_features)):
            if option in wanted:
                if not choose(list(last.nodes.values()), wanted[option]):
                    return None
                nodes = choose(nodes, wanted[option])
        if "partition" in wanted:
            closed = {p.name for p in named(last.partitions, wanted["partition"]) if not p.is_open}
            open_names = set(wanted["partition"].split(",")) - closed
            nodes = [node for node in nodes if node.partitions & open_names]
        if "exclude" in wanted:
            left_out = set(expand(wanted["exclude"]))
            nodes = [node for node in nodes if node.name not in left_out]
        if "gpu_type" in wanted:
            nodes = [node for node in nodes if node.has(wanted["gpu_type"])]
        cpus, memory = int(wanted.get("cpus_per_gpu", 0)), megabytes(wanted.get("mem_per_gpu"))
        nodes = [node for node in nodes if node.cpus >= cpus and node.memory_mb >= memory]
        return frozenset(node.name for node in nodes)

    def check(self, job: JobSpec, command: Command) -> list[str]:
        """By what Slurm said last, and by trying it out. Not at all while Slurm is away."""
        self._check_extra(command)
        last = self._slurm_look
        if last is None or self._away is not None:
            return []
        options = {**self._defaults, **command.options}
        partition = options.get("partition") or self._default_partition(last)
        nodes = [node for node in last.nodes.values() if node.gpus > 0]
        warnings = problem_of(job.gpus, options, partition, last.partitions, nodes)
        kind = f"{options['gpu_type']}:" if "gpu_type" in options else ""
        attempt = [f"--gpus={kind}{job.gpus}", *option_arguments(options), "--wrap=true"]
        try:
            account = account_to_run_as(command.user)
            self._check_account(account, options)
            refusal = self._client.try_out(attempt, account)
        except BackendAway:
            return warnings
        except LaunchError as error:
            raise InputError(str(error), place="user", value=command.user) from error
        if refusal is None:
            return warnings
        if any(sign in refusal.lower() for sign in _MAY_PASS):
            return [*warnings, f"Slurm says: {refusal}"]
        raise InputError(f"Slurm would not take it: {refusal}", place="slurm")

    def _check_account(self, account: Account | None, options: Mapping[str, str]) -> None:
        if "account" not in options and "qos" not in options:
            return  # Slurm takes the user's own defaults
        user = pwd.getpwuid(os.geteuid()).pw_name if account is None else account.name
        known = self._client.associations(user)
        if known:  # none at all: Slurm says whether it minds
            check_account(user, options, known)

    def _check_extra(self, command: Command) -> None:
        wanted = command.options.get("extra", "")
        names = {option.partition("=")[0] for option in wanted.split(",") if option}
        if names - self._allowed:
            raise InputError(
                f"the operator does not allow {', '.join(sorted(names - self._allowed))}",
                place="slurm.extra",
                value=wanted,
                hint=f"Allowed by slurm_allow: {', '.join(sorted(self._allowed)) or 'none'}",
            )

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
        try:
            self._check_extra(start.command)
        except InputError as error:  # allowed when it was submitted
            raise LaunchError(str(error)) from error
        account = account_to_run_as(start.command.user)
        if account is not None:
            hand_over(start.folder, account)
        start.write(start.parts(), master_addr=self._address(placement[0][0]))
        name = self._name(start.folder, start.generation)
        submission = Submission(
            name,
            start.order.job.id,
            start.folder,
            placement,
            self._python_of(account),
            self._source,
            {**self._defaults, **start.command.options},
        )
        try:
            number = self._client.submit(submission.arguments(), account)
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

    def _python_of(self, account: Account | None) -> str:
        """The interpreter of the nodes for a job of that user."""
        return self._python or (sys.executable if account is None else python_for_everybody())

    def _is_ours(self, name: LaunchName, uid: int) -> bool:
        """A launch runs as us, or as the user whose its folder is."""
        return uid == os.getuid() or uid == JobFolder.named(self._root, name.folder).user()

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
        if self._away is not None and not self._client.answers():
            first = self._slurm_look is None
            raise BackendAway("Slurm's controller does not answer" if first else self._away)
        try:
            if self._first_come is None:
                self._first_come = self._client.first_come_first_served()
            phantoms = self._phantoms()
            seen = look(
                self._client,
                self._site,
                self._slurm_look,
                per_gpu=self._per_gpu,
                is_ours=self._is_ours,
                phantoms=phantoms,
            )
            partition = self._defaults.get("partition")
            if partition is not None:
                check_partition(partition, seen.partitions, place="slurm_partition")
        except SlurmRefused as answer:
            raise BackendAway(str(answer)) from answer
        except InputError as error:
            raise BackendAway(str(error)) from error
        self._tell_of_partitions(self._slurm_look, seen)
        self._slurm_look = seen
        gangs = {name: _seen(jobs) for name, jobs in seen.jobs.items() if not _over(jobs)}
        usable = self._usable(seen)
        closed, contested = self._closed(seen, usable), self._contested(seen, usable)
        nodes = {}
        for node in usable:
            occupied = seen.occupied[node.name]
            if node.name in closed:  # what runs there goes on, but nothing is started
                occupied = node.gpus - seen.ours.get(node.name, 0)
            nodes[node.name] = node.seen(occupied, node.name in contested | closed)
        return Look(nodes, gangs)

    def _tell_of_partitions(self, last: SlurmLook | None, seen: SlurmLook) -> None:
        before = {} if last is None else last.partitions
        for partition in self._partitions(seen):
            known = before.get(partition.name)
            if partition.state != ("UP" if known is None else known.state):
                logger.info("Slurm says that partition %s is %s", partition.name, partition.state)

    def _closed(self, seen: SlurmLook, nodes: Sequence[SlurmNode]) -> frozenset[str]:
        """Nodes of which every partition of ours has been told to start nothing."""
        ours = self._partitions(seen)
        open_names = {partition.name for partition in ours if partition.is_open}
        if not ours:
            return frozenset()
        return frozenset(node.name for node in nodes if not node.partitions & open_names)

    def _contested(self, seen: SlurmLook, nodes: Sequence[SlurmNode]) -> frozenset[str]:
        """Nodes on which somebody who waits in Slurm's queue would get what we give up."""
        return contested_nodes(
            nodes,
            seen.around.rivals,
            seen.partitions,
            ours=[partition.name for partition in self._partitions(seen)],
            our_priority=None if self._first_come else seen.newest_priority,
        )

    def _partitions(self, seen: SlurmLook) -> list[SlurmPartition]:
        """Those that jobs are submitted to which name none."""
        return named(
            seen.partitions, self._defaults.get("partition") or self._default_partition(seen)
        )

    def _default_partition(self, seen: SlurmLook) -> str:
        return next((name for name, found in seen.partitions.items() if found.is_default), "")

    def _judge_gangs(self) -> None:
        """What ran and waits again was put back into the queue by somebody else."""
        for name, gang in self._gangs.items():
            seen = self._look.gangs.get(name)
            if seen is not None and seen.waits and gang.alive() and gang.was_seen():
                why = f" ({seen.why})" if seen.why else ""
                gang.withdraw(Ending(Outcome.KILLED, f"somebody requeued its Slurm job{why}"))

    def _usable(self, seen: SlurmLook) -> list[SlurmNode]:
        """The nodes that this site is about, whatever their health."""
        nodes = [node for node in seen.nodes.values() if node.gpus > 0]
        partition = self._defaults.get("partition") or self._default_partition(seen)
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


def _over(jobs: Sequence[SlurmJob]) -> bool:
    return all(job.ended for job in jobs)


def _seen(jobs: Sequence[SlurmJob]) -> SeenGang:
    waiting = [job for job in jobs if job.pending]
    return SeenGang(
        nodes=tuple(node for job in jobs for node in job.nodes),
        waits=bool(waiting),
        why=", ".join(sorted({job.reason for job in jobs if job.reason})),
        crowded_out=all(job.crowded_out for job in waiting),
        suspended=any(job.suspended for job in jobs),
    )
