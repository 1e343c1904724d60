"""A live run in virtual time: the work of a trace, with what a real cluster adds to it.

A start takes as long as that start of that job took. A job that has done its last epoch still
has to leave, and the scheduler learns of it only when it next looks: until then nobody else gets
the GPUs. A job that is told to stop works until it hears of it. A look takes a while too, most of
which is waiting for the cluster's answer, and sees what happened until its end.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from shockwave.engine.executor import Launch
from shockwave.executors.faults import Fault
from shockwave.executors.simulated import SimulatedExecutor
from shockwave.executors.simulation import TraceFeed, by_arrival
from shockwave.model.events import Event, JobFinished
from shockwave.model.job import TraceJob
from shockwave.model.progress import Progressed
from shockwave.model.view import Floats, Ints

_TINY = 1e-6  # seconds
_RECENT_EPOCHS = 5  # whose median live jobs tell


@dataclass(frozen=True, slots=True)
class LaunchSeconds:
    """What a launch took beside its work."""

    order: float = 0.0  # from the order until it was carried out
    start: float = 0.0  # from there to the job's first word
    stop: float = 0.0  # from an order to stop until nothing of it lived
    leave: float = 0.0  # of that, since it had saved


@dataclass(frozen=True, slots=True)
class EndSeconds:
    """What the end of a job took that has done all its epochs."""

    leave: float = 0.0  # from the end of its last epoch until nothing of it lived
    notice: float = 0.0  # from there to the look that saw it; negative if that had begun by then
    with_round: bool = False  # it knew when a round began


@dataclass(frozen=True)
class Overheads:
    """What was measured, and what is typical where nothing was."""

    launch: LaunchSeconds
    end: EndSeconds = EndSeconds()
    launches: Mapping[tuple[str, int], LaunchSeconds] = field(default_factory=dict)  # job, attempt
    ends: Mapping[str, EndSeconds] = field(default_factory=dict)  # by job
    look: float = 0.0  # from when a look between rounds is due until its end
    looks: Mapping[float, float] = field(default_factory=dict)  # of a round, by when that begins
    save: float = 0.0  # from the end of an epoch until it is saved
    looked: Sequence[float] = ()  # when looks that saw something began, in order
    taken_in: Mapping[str, float] = field(default_factory=dict)  # by job: the look, where known

    @property
    def start_seconds(self) -> float:
        """Typical, from the order to the job's first word."""
        return self.launch.order + self.launch.start

    def noticed(self, ended: float, seconds: EndSeconds) -> float:
        """When an end is seen: by a look that there was, or else by one as far away as it was."""
        index = bisect_left(self.looked, ended - self.look)
        if index < len(self.looked) and self.looked[index] <= ended + self.longest_notice:
            return self.looked[index]
        return ended + seconds.notice

    @property
    def longest_notice(self) -> float:
        """From when something happens until it is seen by the next look."""
        return self.look + max((end.notice for end in self.ends.values()), default=0.0)

    def with_starts(self, seconds: float) -> Overheads:
        """Every start takes so long."""
        return replace(self, launch=replace(self.launch, order=0.0, start=seconds), launches={})


class ReplayedFeed(TraceFeed):
    """A job that comes while the scheduler is busy is taken in by its next look.

    Or by the one that is under way: and then before it came, since that look began before.
    """

    def __init__(self, jobs: Sequence[TraceJob], overheads: Overheads) -> None:
        super().__init__(by_arrival(jobs))
        self._taken_in = overheads.taken_in

    def next_arrival(self) -> float:
        if self._next == len(self._jobs):
            return math.inf
        spec = self._jobs[self._next].spec
        return self._taken_in.get(spec.id, spec.arrival_seconds)


class ReplayedExecutor(SimulatedExecutor):
    """Jobs tell what live ones tell: whole epochs, what these took lately, and their start.

    Their epochs may all take different times; consecutive regimes with the same configuration are
    one regime to whoever is told. ``told`` has what a job said that its epochs took lately, by how
    many it had done; where it was not asked, it is made from the times of its epochs.
    """

    def __init__(
        self,
        jobs: Sequence[TraceJob],
        overheads: Overheads,
        faults: Sequence[Fault] = (),
        *,
        round_seconds: float,
        told: Mapping[str, Mapping[int, float]] | None = None,
    ) -> None:
        super().__init__(jobs, overheads.start_seconds, faults, whole_epochs=True)
        self._overheads = overheads
        self._round_seconds = round_seconds
        self._own_restarts = True
        self._order_seconds = np.zeros(len(jobs))
        self._stop_seconds = np.zeros(len(jobs))
        self._leave_seconds = np.zeros(len(jobs))  # of these
        self._leaving: dict[str, tuple[float, JobFinished]] = {}  # by job: when it is noticed
        self._told_until = self.now
        self._look_began = self.now
        self._resumed_at = np.zeros(len(jobs))  # work done when the present launch began
        self._epochs = {job.spec.id: _epochs(job) for job in jobs}
        self._told_seconds = told or {}

    def launch(self, launches: Sequence[Launch]) -> None:
        for order in launches:
            measured = self._overheads.launches.get((order.job.id, order.attempt))
            seconds = measured or self._overheads.launch
            # Ordered when the look began, at whose end we are.
            ordering = max(seconds.order - (self.now - self._look_began), 0.0)
            self._start_cost[order.handle] = ordering + seconds.start
            self._order_seconds[order.handle] = ordering
            self._stop_seconds[order.handle] = seconds.stop
            self._leave_seconds[order.handle] = seconds.leave
        super().launch(launches)
        handles = np.array([order.handle for order in launches], dtype=np.int64)
        self._told_at[handles] += self._order_seconds[handles]  # it holds its GPUs from then on
        self._resumed_at[handles] = self._timelines.work[handles]
        self._untold = np.setdiff1d(self._untold, handles)

    def stop(self, handles: Ints) -> None:
        """One that is leaving already is noticed now, or it might be started again."""
        running = np.intersect1d(handles, self._running)
        for handle in running.tolist():
            self._work_on(handle)
        super().stop(handles)
        self._left_at[running] += self._stop_seconds[running]
        self._untold = np.union1d(self._untold, running)
        stopped = set(handles.tolist())
        for job, (_, finish) in self._leaving.items():
            if self._handles[job] in stopped:
                self._leaving[job] = (self._look_began, replace(finish, time=self._look_began))

    def poll(self, until: float) -> list[Event]:
        """A look that begins at ``until``; whatever it sees has happened by then, it says."""
        events = super().poll(max(until, self.now))  # it may have seen more the last time
        self._advance(until + self._overheads.looks.get(until, self._overheads.look), events)
        self._look_began = until
        told: list[Event] = []
        for event in events:
            if isinstance(event, JobFinished):
                self._leave(event)
            else:
                told.append(event)
        if any(noticed <= until for noticed, _ in self._leaving.values()):
            told += self._gone(until)
        if told:  # else nothing of this time is in the journal
            told = [replace(event, time=min(event.time, until)) for event in told]
            self._told_until = until
        return sorted(told, key=lambda event: event.time)

    def _gone(self, until: float) -> list[JobFinished]:
        """Whoever looks sees all that have left."""
        gone = [
            finish
            for noticed, finish in self._leaving.values()
            if noticed <= until or finish.time <= self.now
        ]
        for finish in gone:
            del self._leaving[finish.job]
        return [replace(finish, time=max(finish.time, self._told_until)) for finish in gone]

    def quiet_until(self) -> float:
        noticed = min((time for time, _ in self._leaving.values()), default=math.inf)
        return min(super().quiet_until(), noticed)

    def progress(self, handles: Ints | None = None) -> Progressed:
        """Whoever has stopped has saved, and goes on from there."""
        told = replace(super().progress(handles), time=self._look_began)
        rows = told.handle
        if told.unsaved_seconds is None or self._timelines.any_options or len(rows) == 0:
            return told
        running = np.isin(rows, self._running)
        since = np.where(
            running,
            self._timelines.work[rows] - self._resumed_at[rows],
            self._leave_seconds[rows],
        )
        unsaved = np.where(running, told.unsaved_seconds - self._overheads.save, since)
        recent = [
            self._recent_seconds(handle, int(done))
            for handle, done in zip(rows.tolist(), told.epochs_done.tolist(), strict=True)
        ]
        return replace(
            told,
            unsaved_seconds=np.where(
                np.isnan(told.unsaved_seconds), np.nan, np.clip(unsaved, 0.0, since)
            ),
            epoch_seconds=np.array(recent),
        )

    def _recent_seconds(self, handle: int, done: int) -> float:
        """Per epoch in the present configuration, the median of the last few; or nan."""
        job = self._timelines.job(handle)
        configurations, seconds = self._epochs[job.spec.id]
        present = job.spec.configurations[self._timelines.configuration[handle]]
        first = done
        while first and done - first < _RECENT_EPOCHS and configurations[first - 1] == present:
            first -= 1
        if first == done:
            return math.nan
        said = self._told_seconds.get(job.spec.id, {}).get(done)
        return float(np.median(seconds[first:done])) if said is None else said

    def _told_restarts(self, rows: Ints) -> Floats:
        return super()._told_restarts(rows) - self._order_seconds[rows]

    def _work_on(self, handle: int) -> None:
        """Until it has heard that it is to stop.

        What would be news, the end of a regime or of the job, is left for the next launch.
        """
        seconds = self._stop_seconds[handle] - self._leave_seconds[handle] - self._overhead[handle]
        lines = self._timelines
        most = min(lines.regime_end[handle], lines.total[handle]) - lines.work[handle] - _TINY
        lines.work[handle] += max(min(seconds, most), 0.0)

    def _leave(self, finish: JobFinished) -> None:
        seconds = self._overheads.ends.get(finish.job, self._overheads.end)
        ended = finish.time + seconds.leave
        look = self._overheads.look
        noticed = math.ceil((ended - look) / self._round_seconds) * self._round_seconds
        if not seconds.with_round:
            noticed = min(self._overheads.noticed(ended, seconds), noticed)
        self._leaving[finish.job] = (noticed, replace(finish, time=ended))


def _epochs(job: TraceJob) -> tuple[list[int], list[float]]:
    """The configuration of every epoch, and the seconds that it takes."""
    each = [regime for regime in job.regimes for _ in range(regime.epochs)]
    return [r.configuration for r in each], [r.epoch_seconds for r in each]
