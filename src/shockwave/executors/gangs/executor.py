"""The verbs of an executor over gangs of real processes: what all backends have in common.

Everything between scheduler and job goes through files in the job's folder (see
:mod:`shockwave.protocol`); a supervisor on every node does what takes time. So
the verbs return at once, and a scheduler that is killed and comes back finds its gangs running,
or reads how they ended.

Only the newest launch of a job, which the lease names, may write. Therefore ``launch`` may wait,
up to the grace period, while the launch before is still saving: once a newer one has the lease,
that checkpoint would be refused.
"""

from __future__ import annotations

import logging
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from shockwave.engine.executor import Launch
from shockwave.executors.gangs import news
from shockwave.executors.gangs.account import LiveJob, ProgressRow, columns, one_a_job
from shockwave.executors.gangs.errors import BackendAway, LaunchError
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.gang import Gang
from shockwave.executors.gangs.launch import GangSettings, Start
from shockwave.executors.gangs.outcome import Ending, Outcome
from shockwave.executors.gangs.root import take_root
from shockwave.executors.live import LiveExecutor
from shockwave.model.command import Command
from shockwave.model.errors import ExecutorError
from shockwave.model.events import Event
from shockwave.model.progress import Progressed
from shockwave.model.view import Ints
from shockwave.protocol.records import LaunchRecord

logger = logging.getLogger(__name__)
_Item = TypeVar("_Item")

_SUPERVISOR_MARGIN_SECONDS = 10.0  # beyond the grace period, then the executor kills them itself
_GLANCE_SECONDS = 0.02
_FORGET_SECONDS = 3600.0  # a job that has not run for so long is read anew when it starts again
_REFRESH_SECONDS = 1.0  # how often a backend is asked again while a launch waits


class GangExecutor(LiveExecutor):
    """``root`` holds all state, one folder a job; one executor at a time may use it.

    ``command_of`` says what a job runs; whatever it raises is that job's crash.
    ``origin_unix`` is the unix time of second 0: all times that the loop uses count from there.
    ``clock`` (unix seconds) and ``sleep`` are passed in. Raises :class:`ExecutorError` if
    ``root`` cannot be used.
    """

    def __init__(
        self,
        root: Path,
        command_of: Callable[[str], Command],
        origin_unix: float,
        *,
        settings: GangSettings | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._root = root.resolve()
        self._command_of = command_of
        self._origin = origin_unix
        self._settings = settings or GangSettings()
        self._clock = clock
        self._sleep = sleep
        self._jobs: dict[str, LiveJob] = {}
        self._by_handle: dict[int, LiveJob] = {}
        self._told_until = 0.0
        self._looked_at = clock()  # unix seconds
        self._untold: list[ProgressRow] = []  # of launches that have ended
        self._swept = False
        self._lock: int | None = take_root(self._root)

    # What a backend adds.

    @abstractmethod
    def _start(self, start: Start) -> Gang:
        """Starts a gang. May be called for several at once, each in a thread of its own.

        Raises :class:`LaunchError` if it can never work, :class:`BackendAway` if the backend
        does not answer, and any other :class:`ExecutorError` if files could not be written.
        """

    @abstractmethod
    def _find(self, order: Launch, folder: JobFolder, record: LaunchRecord | None) -> Gang:
        """The gang of an earlier scheduler; ``record`` is None if it was never written."""

    @abstractmethod
    def _end_strays(self, expected: set[tuple[Path, int]]) -> None:
        """Asks gangs to stop that run below ``root`` but are not expected: folder, generation."""

    def _refresh(self) -> None:
        """Asks the backend how things are; all gangs are judged by that until the next time."""

    def _node_events(self, until: float) -> list[Event]:
        """What became of nodes since the last time; told after what became of their gangs."""
        return []

    def _note(self, gang: Gang) -> str:
        """What the backend says of a gang that it keeps waiting or suspended; else empty."""
        return ""

    def _living(self, job: LiveJob) -> list[Gang]:
        """Launches of a job before the present one of which something may live."""
        return []

    def _problem(self, order: Launch) -> str | None:
        """Why a gang can never be placed as ordered."""
        return None

    def _start_all(self, starts: Sequence[Start]) -> None:
        _for_each(starts, self._try_to_start)

    def _terminate(self, gangs: Sequence[Gang]) -> None:
        """SIGTERM to all of them; their leases are taken back already."""
        for gang in gangs:
            gang.terminate()

    # The verbs.

    def launch(self, launches: Sequence[Launch]) -> None:
        """Starts gangs; each runs as soon as its GPUs are free.

        Raises :class:`ExecutorError` if files could not be written. The other gangs are
        started all the same, and ``poll`` tells of the ones that were not.
        """
        if not self._swept:
            self._sweep([])
        prepared = [self._prepared(order) for order in launches]
        self._start_all([start for start in prepared if start is not None])

    def stop(self, handles: Ints) -> None:
        gangs: list[Gang] = []

        def take_back(handle: int) -> None:
            job = self._by_handle.get(handle)
            if job is None or not job.running:
                return
            job.stop_asked = self._clock()
            job.refused = None
            if job.gang is not None:
                gangs.append(job.gang)
                try:
                    job.gang.take_back_lease()
                except ExecutorError as error:
                    if job.folder.user() is None:
                        raise
                    logger.warning("job %r is stopped by a signal alone: %s", job.spec.id, error)

        try:
            _for_each(handles.tolist(), take_back)
        finally:
            self._terminate(gangs)

    def poll(self, until: float) -> list[Event]:
        """Waits until ``until`` and tells what happened; at once if that has passed.

        Event times are put between the last poll's ``until`` and this one, so that they never
        run backwards in the journal.
        """
        wait = self._origin + until - self._clock()
        if wait > 0:
            self._sleep(wait)
        until = max(until, self._told_until)
        self._refresh()
        self._looked_at = self._clock()
        events: list[Event] = []
        span = news.Span(self._origin, self._told_until, until)
        for job in list(self._jobs.values()):
            self._look_at(job, span, events)
        events.sort(key=lambda event: event.time)
        events += self._node_events(until)
        self._told_until = until
        return events

    def progress(self, handles: Ints | None = None) -> Progressed:
        wanted = None if handles is None else set(handles.tolist())
        ended = [row for row in self._untold if wanted is None or row.handle in wanted]
        self._untold = [row for row in self._untold if row not in ended]
        running = [
            job.row(self._looked_at)
            for job in self._jobs.values()
            if job.gang is not None
            and job.stop_asked is None
            and (wanted is None or job.handle in wanted)
        ]
        return columns(self._told_until, one_a_job([*ended, *running]))

    def adopt(self, launches: Sequence[Launch]) -> None:
        """Finds gangs again, and ends those that nobody knows of any more.

        A launch that was decided but never started is told as preempted.
        """
        self._refresh()
        for order in launches:
            folder = JobFolder.of(self._root, order.job.id)
            record = folder.launch(order.attempt)
            job = self._job(order)
            held_before = None if record is None else record.held_before
            job.begin(order.attempt, order.known, held_before)
            job.adopted = True
            job.gang = self._find(order, folder, record)
        self._sweep(launches)

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

    def _prepared(self, order: Launch) -> Start | None:
        """The launch, checked, when the last one is over; None if it is refused."""
        job = self._job(order)
        self._wait_for_end(job)
        job.begin(order.attempt, order.known)
        job.adopted = False
        job.gang = None
        try:
            self._check(order, job.folder)
            command = self._command(order.job.id)
        except LaunchError as error:
            job.refused = Ending(Outcome.CRASHED, str(error))
            return None
        return Start(order, job, command, self._settings, self._clock())

    def _try_to_start(self, start: Start) -> None:
        job = start.job
        try:
            job.folder.create()
            job.folder.forget_launches_before(start.generation)
            job.gang = self._start(start)
        except LaunchError as error:
            job.refused = Ending(Outcome.CRASHED, str(error))
        except BackendAway as error:
            job.refused = Ending(Outcome.KILLED, f"never started: {error}")
        except (ExecutorError, OSError) as error:
            if job.folder.user() is not None:  # what a user does there must not stop the rest
                job.refused = Ending(Outcome.CRASHED, f"its folder cannot be used: {error}")
                return
            job.refused = Ending(Outcome.KILLED, f"never started: {error}")
            raise ExecutorError(f"job {start.order.job.id!r} was not started: {error}") from error

    def _check(self, order: Launch, folder: JobFolder) -> None:
        problem = self._problem(order)
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

    # Looking.

    def _look_at(self, job: LiveJob, span: news.Span, events: list[Event]) -> None:
        now = self._looked_at
        ending = job.refused
        if job.gang is not None:
            if job.gang.alive():
                self._kill_if_overdue(job, now)
                if job.stop_asked is None:
                    job.read()
                    events += news.of_condition(job, job.gang, self._note(job.gang), span)
                    events += news.of_regimes(job, span)
                return
            job.read()  # after its end, so this is all of it
            ending = news.how_it_ended(job, job.gang)
        if ending is None:
            if job.idle_since is not None and now > job.idle_since + _FORGET_SECONDS:
                self._forget(job)
            return
        ended = now if ending.time is None else ending.time
        job.close(ending)
        self._untold.append(job.last_row(ended, ending))
        events += news.of_end(job, ending, ended, span)
        job.gang = job.refused = None
        job.idle_since = now
        if ending.outcome is Outcome.FINISHED:
            self._forget(job)

    # Ending.

    @property
    def _patience_seconds(self) -> float:
        """What supervisors get to end their ranks; they kill them themselves before that."""
        return self._settings.grace_seconds + _SUPERVISOR_MARGIN_SECONDS

    def _kill_if_overdue(self, job: LiveJob, now: float) -> None:
        """This is for a supervisor that hangs."""
        asked = job.stop_asked
        if job.gang is not None and asked is not None and now > asked + self._patience_seconds:
            logger.warning("job %r does not end, killing it", job.spec.id)
            job.gang.kill()

    def _wait_for_end(self, job: LiveJob) -> None:
        """Until nothing of the job's earlier launches lives; asks them first.

        Something that cannot even be killed is left behind: a newer launch fences it off.
        """
        gangs = self._living(job)
        if job.gang is not None:
            gangs = [gang for gang in gangs if gang.generation != job.gang.generation]
            gangs.append(job.gang)
        asked = job.gang if job.stop_asked is not None else None
        for gang in gangs:
            if gang is not asked and gang.alive():
                gang.ask_to_stop()
        begin = refreshed = time.monotonic()
        killed = False
        while any(gang.alive() for gang in gangs):
            waited = time.monotonic() - begin
            if waited > self._patience_seconds and not killed:
                killed = True
                for gang in gangs:
                    gang.kill()
            elif waited > self._patience_seconds + _SUPERVISOR_MARGIN_SECONDS:
                logger.warning("job %r cannot be killed, going on without it", job.spec.id)
                return
            self._sleep(_GLANCE_SECONDS)
            if time.monotonic() - refreshed > _REFRESH_SECONDS:
                self._refresh()
                refreshed = time.monotonic()

    def _sweep(self, adopted: Iterable[Launch]) -> None:
        self._swept = True
        self._end_strays(
            {(JobFolder.of(self._root, order.job.id).path, order.attempt) for order in adopted}
        )

    # Housekeeping.

    def _job(self, order: Launch) -> LiveJob:
        job = self._jobs.get(order.job.id)
        if job is None:
            folder = JobFolder.of(self._root, order.job.id)
            job = LiveJob(order.handle, order.job, folder)
            self._jobs[order.job.id] = job
        job.spec = order.job  # its owner may have changed it since
        self._by_handle[order.handle] = job
        return job

    def _forget(self, job: LiveJob) -> None:
        del self._jobs[job.spec.id], self._by_handle[job.handle]


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
