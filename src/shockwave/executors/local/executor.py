"""Runs gangs as real process groups on this machine.

Everything between scheduler and job goes through files in the job's folder and signals (see
:mod:`shockwave.executors.local.folder`). A small supervisor per gang does what takes time:
waiting for GPU slots that are still being given up, SIGKILL after the grace period, keeping
output and exit codes. So the verbs return at once, and a scheduler that is killed and comes
back finds its gangs running, or reads how they ended.

Nothing runs twice: a GPU slot is a file lock that the processes on it hold, a launch is a lock
too, and the lease names the newest launch. The one verb that may wait is ``launch``, up to the
grace period, for a job whose own previous launch is still saving: a newer lease would refuse
it its last checkpoint.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import ClassVar, Self, TypeVar

import numpy as np

from shockwave.engine.executor import Launch, Poll, Progress, Signal
from shockwave.executors.live import LiveExecutor, Site
from shockwave.executors.local.folder import JobFolder, Lease
from shockwave.executors.local.gang.locks import open_lock, try_lock
from shockwave.executors.local.gangs import Gang, GangSettings, LaunchError, start
from shockwave.executors.local.jobs import LocalJob, ProgressRow
from shockwave.executors.local.outcome import Ending, Outcome, judge
from shockwave.executors.local.ranks import Slots
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.errors import ExecutorError
from shockwave.model.events import Event, JobFinished, JobStopped, RegimeChanged, StopReason
from shockwave.model.view import Ints

logger = logging.getLogger(__name__)
_Item = TypeVar("_Item")

_REASONS = {
    Outcome.STOPPED: StopReason.PREEMPTED,
    Outcome.CRASHED: StopReason.CRASHED,
    Outcome.LOST: StopReason.NODE_LOST,
    # Nobody's fault: it waits like any preempted job, and no crash is counted.
    Outcome.NEVER_STARTED: StopReason.PREEMPTED,
}
_SUPERVISOR_MARGIN_SECONDS = 10.0  # beyond the grace period, then the executor kills them itself
_GLANCE_SECONDS = 0.02


class LocalExecutor(LiveExecutor):
    """Gangs on the GPU slots of ``nodes``, all of them on this (POSIX) machine.

    ``root`` holds all state, one folder a job; one executor at a time may use it.
    ``command_of`` says what a job runs; whatever it raises is that job's crash.
    ``origin_unix`` is the unix time of second 0: all times of the engine count from there.
    ``devices`` are what ``CUDA_VISIBLE_DEVICES`` says for each slot, by default 0, 1, 2, ...
    ``clock`` (unix seconds) and ``sleep`` are passed in. Raises :class:`ExecutorError` if
    ``root`` cannot be used.
    """

    name: ClassVar[str] = "local"

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
        self._root = root.resolve()
        self._command_of = command_of
        self._origin = origin_unix
        self._settings = settings or GangSettings()
        self._clock = clock
        self._sleep = sleep
        self._slots = Slots(self._root, nodes, devices)
        self._jobs: dict[str, LocalJob] = {}
        self._by_handle: dict[int, LocalJob] = {}
        self._told_until = 0.0
        self._swept = False
        self._lock = self._take_root()

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

    # The four verbs.

    def launch(self, launches: Sequence[Launch]) -> None:
        """Starts gangs; each runs as soon as its slots are free.

        Raises :class:`ExecutorError` if files could not be written. The other gangs are
        started all the same, and ``poll`` tells of the ones that were not.
        """
        if not self._swept:
            self._end_strays([])
        _for_each(launches, self._launch)

    def signal(self, handles: Ints, signal: Signal, lease_end: float) -> None:
        """Rewrites leases. Jobs that do not run are passed over."""

        def tell(handle: int) -> None:
            job = self._by_handle.get(handle)
            gang = job.gang if job is not None and job.running else None
            lease = None if gang is None else gang.lease()
            if gang is None or lease is None:
                return
            if signal is Signal.RENEW:
                lease = replace(lease, lease_end=self._origin + lease_end)
            else:
                lease = replace(lease, checkpoint=lease.checkpoint + 1)
            gang.folder.write_lease(lease)

        _for_each(handles.tolist(), tell)

    def stop(self, handles: Ints) -> None:
        def stop(handle: int) -> None:
            job = self._by_handle.get(handle)
            if job is None or not job.running:
                return
            job.stop_asked = self._clock()
            job.refused = None
            if job.gang is not None:
                job.gang.ask_to_stop()

        _for_each(handles.tolist(), stop)

    def poll(self, until: float) -> Poll:
        """Waits until ``until`` and tells what happened; at once if that has passed.

        Event times are put between the last poll's ``until`` and this one, so that they never
        run backwards in the journal.
        """
        wait = self._origin + until - self._clock()
        if wait > 0:
            self._sleep(wait)
        until = max(until, self._told_until)
        events: list[Event] = []
        rows: list[ProgressRow] = []
        for job in list(self._jobs.values()):
            self._look_at(job, until, events, rows)
        self._told_until = until
        return Poll(sorted(events, key=lambda event: event.time), _columns(rows))

    def adopt(self, launches: Sequence[Launch]) -> None:
        """Finds gangs again, and ends those that nobody knows of any more.

        A launch that was decided but never started is told as preempted.
        """
        for order in launches:
            folder = JobFolder.of(self._root, order.job.id)
            record = folder.launch_record(order.attempt) or {}
            job = self._job(order)
            job.begin(order.attempt, order.known, record.get("held_before"))
            job.adopted = True
            job.gang = Gang(folder, order.attempt, float(record.get("launched", self._clock())))
        self._end_strays(launches)

    # For those who run the executor.

    def folder(self, job: str) -> Path:
        """Where everything of a job is."""
        return JobFolder.of(self._root, job).path

    def log(self, job: str, rank: int = 0) -> Path:
        """The newest part of a rank's output; it may not exist yet."""
        return JobFolder.of(self._root, job).log(rank)

    def shutdown(self, stop_jobs: bool) -> None:
        """Ends the executor: with its jobs, which may save, or without, and they run on."""
        living = [job for job in self._jobs.values() if job.gang is not None]
        if stop_jobs:
            try:
                self.stop(np.array([job.handle for job in living], dtype=np.int64))
            except ExecutorError as error:
                logger.warning("jobs were signalled, but not through their lease: %s", error)
            for job in living:
                self._wait_for_end(job)
        for job in living:
            if job.gang is not None:
                job.gang.disown()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # Launching.

    def _launch(self, order: Launch) -> None:
        job = self._job(order)
        self._wait_for_end(job)
        job.begin(order.attempt, order.known)
        job.adopted = False
        job.gang = None
        try:
            self._check(order, job.folder)
            command = self._command(order.job.id)
            job.folder.create()
            job.folder.forget_launches_before(order.attempt)
            job.gang = start(
                job.folder,
                job=order.job.id,
                lease=Lease(order.attempt, self._origin + order.lease_end),
                command=command,
                ranks=self._slots.variables(order.placement, self._protocol(order, job.folder)),
                slot_locks=self._slots.locks(order.placement),
                settings=self._settings,
                now=self._clock(),
                held_before=job.held_seconds,
            )
        except LaunchError as error:
            job.refused = Ending(Outcome.CRASHED, str(error))
        except (ExecutorError, OSError) as error:
            job.refused = Ending(Outcome.NEVER_STARTED, f"never started: {error}")
            raise ExecutorError(f"job {order.job.id!r} was not started: {error}") from error

    def _check(self, order: Launch, folder: JobFolder) -> None:
        problem = self._slots.problem(order.placement)
        if problem is not None:
            raise LaunchError(problem)
        if "\0" in order.job.id:
            raise LaunchError("a job whose id holds a NUL cannot be told its id")
        lease = folder.lease()
        if lease is not None and lease.generation >= order.attempt:
            raise LaunchError(
                f"{folder.path} is at launch {lease.generation} already, this would be "
                f"{order.attempt}: it belongs to another run"
            )

    def _command(self, job: str) -> Command:
        try:
            command = self._command_of(job)
        except Exception as error:  # whoever gives us commands must not end the scheduler
            raise LaunchError(f"there is no command for it: {error!r}") from error
        if not command.argv:
            raise LaunchError("its command is empty")
        return command

    def _protocol(self, order: Launch, folder: JobFolder) -> dict[str, str]:
        return {
            "SHOCKWAVE_JOB": order.job.id,
            "SHOCKWAVE_GENERATION": str(order.attempt),
            "SHOCKWAVE_DIR": str(folder.path),
            "SHOCKWAVE_GRACE_SECONDS": str(self._settings.grace_seconds),
        }

    # Looking.

    def _look_at(
        self, job: LocalJob, until: float, events: list[Event], rows: list[ProgressRow]
    ) -> None:
        now = self._clock()
        ending = job.refused
        if job.gang is not None:
            if job.gang.alive():
                self._kill_if_overdue(job, now)
                if job.stop_asked is None:
                    job.read()
                    rows.append(job.row(now))
                    events += self._regimes(job, until)
                return
            job.read()  # after its end, so this is all of it
            ending = judge(
                job.folder, job.gang.generation, job.ledger.last_event, adopted=job.adopted
            )
        if ending is None:
            return
        ended = now if ending.time is None else ending.time
        job.close(ending)
        rows.append(job.row(ended))
        events += self._regimes(job, until)
        event = self._end_event(job, ending, ended, until)
        if event is not None:
            events.append(event)
        job.gang = job.refused = None
        if ending.outcome is Outcome.FINISHED:
            del self._jobs[job.spec.id], self._by_handle[job.handle]

    def _regimes(self, job: LocalJob, until: float) -> list[Event]:
        return [
            RegimeChanged(self._when(news.time, until), job.spec.id, news.epoch, news.configuration)
            for news in job.regime_news()
        ]

    def _end_event(self, job: LocalJob, ending: Ending, ended: float, until: float) -> Event | None:
        time = self._when(ended, until)
        if ending.outcome is Outcome.FINISHED:  # even if it was asked to stop at the end
            return JobFinished(time, job.spec.id, job.exclusive_seconds(ended))
        if job.stop_asked is not None:
            return None  # as ordered
        detail = ending.detail
        if ending.outcome is Outcome.STOPPED:
            detail = "stopped, but not by this scheduler"
        done = float(min(job.ledger.epochs_done, job.spec.epochs))
        return JobStopped(time, job.spec.id, done, _REASONS[ending.outcome], detail)

    def _when(self, unix: float, until: float) -> float:
        return min(max(unix - self._origin, self._told_until), until)

    # Ending.

    def _kill_if_overdue(self, job: LocalJob, now: float) -> None:
        """Supervisors kill their ranks themselves; this is for one that hangs."""
        limit = self._settings.grace_seconds + _SUPERVISOR_MARGIN_SECONDS
        if job.gang is not None and job.stop_asked is not None and now > job.stop_asked + limit:
            logger.warning("job %r does not end, killing it", job.spec.id)
            job.gang.kill()

    def _wait_for_end(self, job: LocalJob) -> None:
        """Until no process of the job's earlier launches lives; asks them first."""
        gangs = [Gang(job.folder, n, self._clock()) for n in job.folder.living_generations()]
        if job.gang is not None:
            gangs = [gang for gang in gangs if gang.generation != job.gang.generation]
            gangs.append(job.gang)
        asked = job.gang if job.stop_asked is not None else None
        for gang in gangs:
            if gang is not asked and gang.alive():
                gang.ask_to_stop()
        limit = self._settings.grace_seconds + _SUPERVISOR_MARGIN_SECONDS
        begin = time.monotonic()
        while any(gang.alive() for gang in gangs):
            if time.monotonic() - begin > limit:
                for gang in gangs:
                    gang.kill()
            self._sleep(_GLANCE_SECONDS)

    def _end_strays(self, adopted: Iterable[Launch]) -> None:
        """Asks gangs to stop that live in ``root`` but are not among those adopted."""
        self._swept = True
        expected = {
            (JobFolder.of(self._root, order.job.id).path, order.attempt) for order in adopted
        }
        for folder in JobFolder.all(self._root):
            for generation in folder.living_generations():
                if (folder.path, generation) not in expected:
                    logger.warning("%s: launch %d runs unknown, ending it", folder.path, generation)
                    Gang(folder, generation, self._clock()).ask_to_stop()

    # Housekeeping.

    def _job(self, order: Launch) -> LocalJob:
        job = self._jobs.get(order.job.id)
        if job is None:
            folder = JobFolder.of(self._root, order.job.id)
            job = LocalJob(order.handle, order.job, folder)
            self._jobs[order.job.id] = job
        self._by_handle[order.handle] = job
        return job

    def _take_root(self) -> int | None:
        path = self._root / "executor.lock"
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            descriptor = open_lock(path)
        except OSError as error:
            raise ExecutorError(f"{path} cannot be created: {error}") from error
        if not try_lock(descriptor):
            os.close(descriptor)
            raise ExecutorError(f"{self._root} is in use by another scheduler")
        return descriptor


def _for_each(items: Iterable[_Item], act: Callable[[_Item], None]) -> None:
    """All of them, whatever happens to one; then raises what happened first."""
    first: ExecutorError | None = None
    for item in items:
        try:
            act(item)
        except ExecutorError as error:
            first = first or error
    if first is not None:
        raise first


def _columns(rows: list[ProgressRow]) -> Progress:
    if not rows:
        return Progress.none()
    columns = {
        field.name: np.array([getattr(row, field.name) for row in rows])
        for field in fields(ProgressRow)
    }
    return Progress(**columns)
