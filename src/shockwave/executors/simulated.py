"""Virtual time: runs the true regimes of a trace, as fast as arrays can.

Progress is kept as exclusive seconds done. A job that starts spends ``restart_seconds``
without progress; regimes change at epoch boundaries, mid-round too; a job that ends
mid-round ends at that very time. A crash or a lost node takes a job back to its last
whole epoch, where its last checkpoint is. A run may begin with jobs that have come some way:
they go on from what the scheduler knows of them.

A job of which the speeds with every option are known has a timeline for each. When it starts with
another option, the epochs that it has done are looked up in the new timeline. It tells its speed
as soon as it has worked for half a minute, or an epoch if that is shorter.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shockwave.engine.executor import Executor, Known, Launch
from shockwave.executors.faults import (
    Fault,
    JobCrash,
    JobFailure,
    JobNeverStarts,
    NodeDrain,
    NodeFailure,
    NodeOccupation,
    NodeRecovery,
)
from shockwave.model.events import (
    Event,
    JobFailed,
    JobFinished,
    JobStopped,
    NodeDown,
    NodeDrained,
    NodeOccupied,
    NodeUp,
    RegimeChanged,
    StopReason,
)
from shockwave.model.job import Regime, TraceJob
from shockwave.model.options import Option
from shockwave.model.progress import Progressed
from shockwave.model.view import Bools, Floats, Ints

_TINY = 1e-7  # seconds; what is left of a job after rounding is not left
_PART = 1e-9  # of an epoch; the same for epochs
_TO_MEASURE_SECONDS = 30.0  # that a job works until it can tell how fast its steps are


@dataclass(frozen=True, slots=True)
class _StartGivenUp(Fault):
    handle: int


class SimulatedExecutor(Executor):
    """Holds the truth of a trace and lets virtual time pass.

    A run that goes on where another was begins at ``now``, and has ``handles`` jobs in all, of
    which some may have ended before.
    """

    def __init__(
        self,
        jobs: Sequence[TraceJob],
        restart_seconds: float,
        faults: Sequence[Fault] = (),
        *,
        whole_epochs: bool = False,
        now: float = 0.0,
        handles: int | None = None,
    ) -> None:
        count = len(jobs) if handles is None else handles
        self.now = now
        self._whole_epochs = whole_epochs  # real jobs tell of epochs when they are done
        self._jobs = {job.spec.id: job for job in jobs}
        self._news: list[Event] = []  # to tell at the next poll
        self._faults = sorted(faults, key=lambda fault: fault.time)
        self._truth: list[TraceJob | None] = [None] * count  # by handle
        self._handles: dict[str, int] = {}
        self._never_start: dict[str, float] = {}  # seconds that they hold their GPUs for
        self._trying: dict[int, float] = {}  # until when
        self._doomed: dict[str, JobFailure] = {}  # fail as soon as they run
        self._nodes_of: dict[int, tuple[str, ...]] = {}
        self._running: Ints = np.empty(0, dtype=np.int64)
        self._regime = np.zeros(count, dtype=np.int64)
        self._configuration = np.zeros(count, dtype=np.int64)
        self._work = np.zeros(count)  # exclusive seconds done
        self._reported = np.zeros(count)  # ... that progress was told of
        self._told_at = np.zeros(count)  # when that was
        self._left_at = np.zeros(count)  # when the last lease ended
        self._untold: Ints = np.empty(0, dtype=np.int64)  # ran since then and have stopped
        self._total = np.zeros(count)
        self._overhead = np.zeros(count)  # seconds left of the restart
        self._regime_start = np.zeros(count)  # exclusive seconds
        self._regime_end = np.zeros(count)
        self._regime_epoch = np.zeros(count)  # epochs done when the regime began
        self._epoch_seconds = np.ones(count)
        self._surprising = np.zeros(count, dtype=np.bool_)  # speed is not what was declared
        # Of jobs with options.
        self._timelines: dict[int, tuple[Regime, ...]] = {}
        self._options: dict[int, Option | None] = {}
        self._has_timelines = np.zeros(count, dtype=np.bool_)
        self._began_at = np.zeros(count)  # work done, by this timeline, when the option was new
        self._spent = np.zeros(count)  # productive seconds with other options before
        self._own_restarts = any(job.restart_seconds is not None for job in jobs)
        self.idle_looks = 0  # in a row, in which jobs held GPUs and none got any further
        self._start_cost = np.full(count, restart_seconds)

    # The verbs.

    def launch(self, launches: Sequence[Launch]) -> None:
        for order in launches:
            handle = order.handle
            self._nodes_of[handle] = tuple(node for node, _ in order.placement)
            if self._truth[handle] is None:
                self._begin(handle, self._jobs[order.job.id], order.option)
                if order.job.id not in self._never_start:
                    self._news += self._go_on(handle, order.known)
            elif self._options[handle] != order.option:
                self._switch(handle, order.option)
            if order.job.id in self._doomed:
                self._faults.insert(0, self._doomed.pop(order.job.id))
        handles = np.array([order.handle for order in launches], dtype=np.int64)
        self._overhead[handles] = self._start_cost[handles]
        self._try_to_start(launches)
        self._told_at[handles] = self.now
        self._running = np.concatenate([self._running, handles])

    def adopt(self, launches: Sequence[Launch]) -> None:
        for order in launches:
            handle, known = order.handle, order.known
            self._nodes_of[handle] = tuple(node for node, _ in order.placement)
            self._begin(handle, self._jobs[order.job.id], order.option)
            self._news += self._go_on(handle, known)
            if known is not None:  # what its present start still costs
                lost = known.held_seconds - known.productive_seconds
                cost = float(self._start_cost[handle])
                self._overhead[handle] = min(max(order.attempt * cost - lost, 0.0), cost)
            self._told_at[handle] = self.now
        self._running = np.array([order.handle for order in launches], dtype=np.int64)

    def stop(self, handles: Ints) -> None:
        self._remove(np.isin(self._running, handles))

    def poll(self, until: float) -> list[Event]:
        events, self._news = self._news, []
        while self._faults and self._faults[0].time <= until:
            fault = self._faults.pop(0)
            self._advance(max(fault.time, self.now), events)
            self._inject(fault, events)
        self._advance(until, events)
        return events

    def quiet_until(self) -> float:
        if self._news:
            return self.now
        fault = self._faults[0].time if self._faults else math.inf
        if len(self._running) == 0:
            return fault
        rows = self._running
        event = np.minimum(self._regime_end[rows], self._total[rows])
        # The first epoch of a regime measures its speed: news, unless it was declared.
        to_measure = self._surprising[rows] & (self._epochs_in_regime(rows) < 1.0 - _PART)
        measured = self._regime_start[rows] + self._epoch_seconds[rows]
        event = np.where(to_measure, np.minimum(event, measured), event)
        if self._timelines:
            event = np.minimum(event, self._next_measurement(rows))
        left = event - self._work[rows]
        return min(fault, self.now + float((self._overhead[rows] + left).min()))

    # How time passes.

    def _begin(self, handle: int, job: TraceJob, option: Option | None) -> None:
        self._truth[handle] = job
        self._handles[job.spec.id] = handle
        self._total[handle] = job.exclusive_seconds
        self._options[handle] = option
        if option is not None and job.speeds is not None:
            self._set_timeline(handle, job, option)
        if job.restart_seconds is not None:
            self._start_cost[handle] = job.restart_seconds

    def _set_timeline(self, handle: int, job: TraceJob, option: Option | None) -> None:
        self._timelines[handle] = job.timeline(option)
        self._total[handle] = sum(regime.seconds for regime in self._timelines[handle])
        self._has_timelines[handle] = True

    def _regimes(self, handle: int) -> tuple[Regime, ...]:
        job = self._truth[handle]
        assert job is not None  # launched before it runs
        return self._timelines.get(handle, job.regimes)

    def _switch(self, handle: int, option: Option | None) -> None:
        """From one timeline to another, with as many epochs done."""
        self._options[handle] = option
        job = self._truth[handle]
        assert job is not None
        if job.speeds is None:
            return
        untold = self._work[handle] - self._reported[handle]
        self._spent[handle] += self._work[handle] - self._began_at[handle]
        inside = (self._work[handle] - self._regime_start[handle]) / self._epoch_seconds[handle]
        epochs = float(self._regime_epoch[handle] + inside)
        self._set_timeline(handle, job, option)
        self._seek(handle, epochs)
        self._began_at[handle] = self._work[handle]
        self._reported[handle] = self._work[handle] - untold

    def _seek(self, handle: int, epochs: float) -> None:
        """Puts a job where it has done so many epochs of its timeline."""
        self._regime_start[handle] = self._regime_epoch[handle] = 0.0
        self._enter(handle, 0)
        regimes = self._regimes(handle)
        while self._regime[handle] + 1 < len(regimes):
            left = self._regime_epoch[handle] + regimes[self._regime[handle]].epochs
            if epochs < left - _PART:
                break
            self._enter(handle, int(self._regime[handle]) + 1)
        inside = max(epochs - self._regime_epoch[handle], 0.0)
        self._work[handle] = self._regime_start[handle] + inside * self._epoch_seconds[handle]

    def _next_measurement(self, rows: Ints) -> Floats:
        """[row] the work after which its speed is known; infinite if it is known already."""
        known_at = self._began_at[rows] + np.minimum(_TO_MEASURE_SECONDS, self._epoch_seconds[rows])
        waits = self._has_timelines[rows] & (self._work[rows] < known_at - _TINY)
        return np.where(waits, known_at, np.inf)

    def _go_on(self, handle: int, known: Known | None) -> list[RegimeChanged]:
        """Puts a job where it is known to be; its first regime, or a new one, is news."""
        epochs = 0.0 if known is None else max(known.epochs_done, 0.0)
        self._seek(handle, epochs)
        self._reported[handle] = self._work[handle]
        if self._has_timelines[handle]:
            self._began_at[handle] = self._spent[handle] = self._work[handle]
        change = self._told_regime(handle, self.now)
        if known is None or epochs == 0 or change.configuration != known.configuration:
            return [change]
        return []

    def _try_to_start(self, launches: Sequence[Launch]) -> None:
        """Those that never start hold their GPUs for a while, and their work does not begin."""
        for order in launches:
            if order.job.id in self._never_start:
                until = self.now + self._never_start[order.job.id]
                self._overhead[order.handle] = math.inf
                self._trying[order.handle] = until
                insort(self._faults, _StartGivenUp(until, order.handle), key=lambda f: f.time)

    def _enter(self, handle: int, index: int) -> None:
        job = self._truth[handle]
        assert job is not None  # launched before it runs
        regimes = self._regimes(handle)
        regime = regimes[index]
        if index:
            previous = regimes[index - 1]
            self._regime_start[handle] += previous.seconds
            self._regime_epoch[handle] += previous.epochs
        self._regime[handle] = index
        self._regime_end[handle] = self._regime_start[handle] + regime.seconds
        self._epoch_seconds[handle] = regime.epoch_seconds
        configuration = job.spec.configurations.index(regime.configuration)
        self._configuration[handle] = configuration
        self._surprising[handle] = job.spec.epoch_seconds[configuration] != regime.epoch_seconds

    def _told_regime(self, handle: int, time: float) -> RegimeChanged:
        job = self._truth[handle]
        assert job is not None
        configuration = job.spec.configurations[self._configuration[handle]]
        return RegimeChanged(time, job.spec.id, int(self._regime_epoch[handle]), configuration)

    def _advance(self, until: float, events: list[Event]) -> None:
        rows = self._running
        seconds = until - self.now
        if len(rows) == 0 or seconds <= 0:
            self.now = max(self.now, until)
            return
        before = self._work[rows]
        overhead = self._overhead[rows]
        productive_from = self.now + overhead
        after = before + np.maximum(seconds - overhead, 0.0)
        if self._own_restarts:  # else a start never outlasts a round
            self.idle_looks = 0 if (after > before).any() else self.idle_looks + 1
        self._overhead[rows] = np.maximum(overhead - seconds, 0.0)
        self._work[rows] = np.minimum(after, self._total[rows])
        happened: list[Event] = []
        ended = after >= self._total[rows] - _TINY
        crossing = np.flatnonzero((after >= self._regime_end[rows] - _TINY) | ended)
        for position in crossing.tolist():
            handle = int(rows[position])
            began = float(productive_from[position] - before[position])
            happened += self._cross(handle, float(after[position]), began, bool(ended[position]))
        events += sorted(happened, key=lambda event: event.time)
        self.now = until
        if ended.any():
            self._remove(ended)

    def _cross(self, handle: int, work: float, began: float, ended: bool) -> list[Event]:
        """Regime changes and the end of one job; ``began`` + work done = the time of it."""
        job = self._truth[handle]
        assert job is not None
        events: list[Event] = []
        regimes = self._regimes(handle)
        while self._regime[handle] + 1 < len(regimes) and (
            ended or work >= self._regime_end[handle] - _TINY
        ):
            time = began + float(self._regime_end[handle])
            before = self._configuration[handle]
            self._enter(handle, int(self._regime[handle]) + 1)
            # What rounding left of the regime is done, or a crash would fall back behind it.
            self._work[handle] = max(self._work[handle], self._regime_start[handle])
            if self._configuration[handle] != before:
                events.append(self._told_regime(handle, time))
        if ended:
            total = float(self._total[handle])
            self._work[handle] = total
            spent = float(self._spent[handle]) + (total - float(self._began_at[handle]))
            events.append(JobFinished(began + total, job.spec.id, spent, _alone_seconds(job)))
        return events

    def progress(self, handles: Ints | None = None) -> Progressed:
        rows, ended = self._running, self._untold
        if handles is not None:
            rows, ended = rows[np.isin(rows, handles)], ended[np.isin(ended, handles)]
        self._untold = ended[:0] if handles is None else np.setdiff1d(self._untold, ended)
        until = np.full(len(rows) + len(ended), self.now)
        until[len(rows) :] = self._left_at[ended]
        rows = np.concatenate([rows, ended])
        in_regime = self._epochs_in_regime(rows)
        told = self._told(in_regime)
        work = np.where(
            told == in_regime,
            self._work[rows],
            self._regime_start[rows] + told * self._epoch_seconds[rows],
        )
        productive = work - self._reported[rows]
        done = self._regime_epoch[rows] + told
        # Real jobs save when an epoch is over, and have nothing to go on from before the first.
        unsaved = np.where(done >= 1, np.maximum(self._work[rows] - work, 0.0), np.nan)
        held = until - self._told_at[rows]
        self._reported[rows] = work
        self._told_at[rows] = self.now
        known = in_regime >= 1.0 - _PART
        if self._timelines:
            by_steps = self._has_timelines[rows]
            known = np.where(by_steps, np.isinf(self._next_measurement(rows)), known)
        return Progressed(
            self.now,
            handle=rows,
            epochs_done=done,
            configuration=self._configuration[rows],
            epoch_seconds=np.where(known, self._epoch_seconds[rows], np.nan),
            productive_seconds=productive,
            held_seconds=held,
            restart_seconds=self._told_restarts(rows) if self._own_restarts else None,
            unsaved_seconds=unsaved if self._whole_epochs else None,
        )

    def _told_restarts(self, rows: Ints) -> Floats:
        """[row] what its start cost, once that is over."""
        return np.where(self._overhead[rows] <= 0, self._start_cost[rows], np.nan)

    def _epochs_in_regime(self, rows: Ints) -> Floats:
        return (self._work[rows] - self._regime_start[rows]) / self._epoch_seconds[rows]

    def _told(self, epochs: Floats) -> Floats:
        return np.floor(epochs + 1e-9) if self._whole_epochs else epochs

    # Faults.

    def _inject(self, fault: Fault, events: list[Event]) -> None:
        match fault:
            case NodeFailure():
                lost = [h for h in self._running.tolist() if fault.node in self._nodes_of[h]]
                events += [self._lose(handle, StopReason.NODE_LOST) for handle in lost]
                events.append(NodeDown(self.now, fault.node))
            case NodeRecovery():
                events.append(NodeUp(self.now, fault.node))
            case NodeDrain():
                events.append(NodeDrained(self.now, fault.node))
            case NodeOccupation():
                events.append(NodeOccupied(self.now, fault.node, fault.gpus, fault.contested))
            case JobCrash():
                crashed = self._handles.get(fault.job)
                if crashed is not None and crashed in self._running:
                    events.append(self._lose(crashed, StopReason.CRASHED))
            case JobFailure():
                failing = self._handles.get(fault.job)
                if failing is not None and failing in self._running:
                    self._drop(failing)
                    events.append(JobFailed(self.now, fault.job, fault.reason))
                else:
                    self._doomed[fault.job] = fault
            case JobNeverStarts():
                self._never_start[fault.job] = fault.start_seconds
            case _StartGivenUp(handle=handle):
                # It may have been stopped meanwhile, and have been launched again.
                if handle in self._running and self._trying[handle] == fault.time:
                    events.append(self._lose(handle, StopReason.NOT_STARTED))

    def _lose(self, handle: int, reason: StopReason) -> JobStopped:
        """A job dies and falls back to its last whole epoch."""
        self._drop(handle)
        seconds = self._epoch_seconds[handle]
        start = self._regime_start[handle]
        whole = math.floor((self._work[handle] - start) / seconds + _PART)
        self._work[handle] = start + whole * seconds
        job = self._truth[handle]
        assert job is not None
        return JobStopped(self.now, job.spec.id, float(self._regime_epoch[handle] + whole), reason)

    def _drop(self, handle: int) -> None:
        self._remove(self._running == handle)

    def _remove(self, leaving: Bools) -> None:
        """These of the running no longer do; what they did is still to be told."""
        left = self._running[leaving]
        self._left_at[left] = self.now
        self._untold = np.concatenate([self._untold, left[self._told_at[left] < self.now]])
        self._running = self._running[~leaving]


def _alone_seconds(job: TraceJob) -> tuple[tuple[str, int, float], ...]:
    """What the whole job takes with every option that it could use, or be given as its request."""
    if job.speeds is None:
        return ()
    counts = sorted({job.spec.gpus, *job.spec.gpu_counts})
    return tuple(
        (gpu_type, gpus, math.fsum(job.speeds.epoch_seconds(gpu_type, gpus)))
        for gpu_type in job.spec.gpu_types or job.speeds.types
        if gpu_type in job.speeds.by_type
        for gpus in counts
    )
