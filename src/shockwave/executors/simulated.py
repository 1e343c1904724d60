"""Virtual time: runs the true regimes of a trace, as fast as arrays can.

A job that starts spends ``restart_seconds`` without progress; regimes change mid-round too; a job
that ends mid-round ends at that very time. A crash or a lost node takes a job back to its last
whole epoch, where its last checkpoint is. A run may begin with jobs that have come some way:
they go on from what the scheduler knows of them. How far each is on its timeline is kept in
:mod:`shockwave.executors.timelines`.
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
from shockwave.executors.timelines import Timelines
from shockwave.model.events import (
    Event,
    JobFailed,
    JobStopped,
    NodeDown,
    NodeDrained,
    NodeOccupied,
    NodeUp,
    RegimeChanged,
    StopReason,
)
from shockwave.model.job import TraceJob
from shockwave.model.options import Option
from shockwave.model.progress import Progressed
from shockwave.model.view import Bools, Floats, Ints


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
        self._handles: dict[str, int] = {}
        self._never_start: dict[str, float] = {}  # seconds that they hold their GPUs for
        self._trying: dict[int, float] = {}  # until when
        self._doomed: dict[str, JobFailure] = {}  # fail as soon as they run
        self._nodes_of: dict[int, tuple[str, ...]] = {}
        self._running: Ints = np.empty(0, dtype=np.int64)
        self._timelines = Timelines(count)
        self._reported = np.zeros(count)  # exclusive seconds done that progress was told of
        self._told_at = np.zeros(count)  # when that was
        self._left_at = np.zeros(count)  # when the last lease ended
        self._untold: Ints = np.empty(0, dtype=np.int64)  # ran since then and have stopped
        self._overhead = np.zeros(count)  # seconds left of the restart
        self._own_restarts = any(job.restart_seconds is not None for job in jobs)
        self.idle_looks = 0  # in a row, in which jobs held GPUs and none got any further
        self._start_cost = np.full(count, restart_seconds)

    # The verbs.

    def launch(self, launches: Sequence[Launch]) -> None:
        for order in launches:
            handle = order.handle
            self._nodes_of[handle] = tuple(node for node, _ in order.placement)
            if not self._timelines.has_begun(handle):
                self._begin(handle, self._jobs[order.job.id], order.option)
                if order.job.id not in self._never_start:
                    self._news += self._go_on(handle, order.known)
            elif self._timelines.option(handle) != order.option:
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
        left = self._timelines.next_news(rows) - self._timelines.work[rows]
        return min(fault, self.now + float((self._overhead[rows] + left).min()))

    # How time passes.

    def _begin(self, handle: int, job: TraceJob, option: Option | None) -> None:
        self._handles[job.spec.id] = handle
        self._timelines.begin(handle, job, option)
        if job.restart_seconds is not None:
            self._start_cost[handle] = job.restart_seconds

    def _switch(self, handle: int, option: Option | None) -> None:
        untold = self._timelines.work[handle] - self._reported[handle]
        if self._timelines.switch(handle, option):
            self._reported[handle] = self._timelines.work[handle] - untold

    def _go_on(self, handle: int, known: Known | None) -> list[RegimeChanged]:
        """Puts a job where it is known to be; its first regime, or a new one, is news."""
        epochs = 0.0 if known is None else max(known.epochs_done, 0.0)
        self._timelines.go_on(handle, epochs)
        self._reported[handle] = self._timelines.work[handle]
        change = self._timelines.present_regime(handle, self.now)
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

    def _advance(self, until: float, events: list[Event]) -> None:
        rows = self._running
        seconds = until - self.now
        if len(rows) == 0 or seconds <= 0:
            self.now = max(self.now, until)
            return
        before = self._timelines.work[rows]
        overhead = self._overhead[rows]
        productive_from = self.now + overhead
        after = before + np.maximum(seconds - overhead, 0.0)
        if self._own_restarts:  # else a start never outlasts a round
            self.idle_looks = 0 if (after > before).any() else self.idle_looks + 1
        self._overhead[rows] = np.maximum(overhead - seconds, 0.0)
        happened: list[Event] = []
        ended, crossing = self._timelines.advance(rows, after)
        for position in crossing.tolist():
            handle = int(rows[position])
            began = float(productive_from[position] - before[position])
            happened += self._timelines.cross(
                handle, float(after[position]), began, bool(ended[position])
            )
        events += sorted(happened, key=lambda event: event.time)
        self.now = until
        if ended.any():
            self._remove(ended)

    def progress(self, handles: Ints | None = None) -> Progressed:
        rows, ended = self._running, self._untold
        if handles is not None:
            rows, ended = rows[np.isin(rows, handles)], ended[np.isin(ended, handles)]
        self._untold = ended[:0] if handles is None else np.setdiff1d(self._untold, ended)
        until = np.full(len(rows) + len(ended), self.now)
        until[len(rows) :] = self._left_at[ended]
        rows = np.concatenate([rows, ended])
        lines = self._timelines
        in_regime = lines.epochs_in_regime(rows)
        told = self._told(in_regime)
        work = np.where(
            told == in_regime,
            lines.work[rows],
            lines.regime_start[rows] + told * lines.epoch_seconds[rows],
        )
        productive = work - self._reported[rows]
        done = lines.regime_epoch[rows] + told
        # Real jobs save when an epoch is over, and have nothing to go on from before the first.
        unsaved = np.where(done >= 1, np.maximum(lines.work[rows] - work, 0.0), np.nan)
        held = until - self._told_at[rows]
        self._reported[rows] = work
        self._told_at[rows] = self.now
        return Progressed(
            self.now,
            handle=rows,
            epochs_done=done,
            configuration=lines.configuration[rows],
            epoch_seconds=np.where(lines.knows_speed(rows), lines.epoch_seconds[rows], np.nan),
            productive_seconds=productive,
            held_seconds=held,
            restart_seconds=self._told_restarts(rows) if self._own_restarts else None,
            unsaved_seconds=unsaved if self._whole_epochs else None,
        )

    def _told_restarts(self, rows: Ints) -> Floats:
        """[row] what its start cost, once that is over."""
        return np.where(self._overhead[rows] <= 0, self._start_cost[rows], np.nan)

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
        job = self._timelines.job(handle).spec.id
        return JobStopped(self.now, job, self._timelines.fall_back(handle), reason)

    def _drop(self, handle: int) -> None:
        self._remove(self._running == handle)

    def _remove(self, leaving: Bools) -> None:
        """These of the running no longer do; what they did is still to be told."""
        left = self._running[leaving]
        self._left_at[left] = self.now
        self._untold = np.concatenate([self._untold, left[self._told_at[left] < self.now]])
        self._running = self._running[~leaving]
