"""The first step of a round: what happened, who arrived, and what was asked for.

Jobs come from an arrivals feed, news from the executor. All of it becomes events, which are in
the journal before they change the state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from shockwave.engine.arrivals import Arrivals, CancelJob, DrainNode, Request, ResumeNode
from shockwave.engine.executor import Executor, Progress
from shockwave.engine.fleet import Fleet
from shockwave.engine.journal import Journal
from shockwave.engine.state import SchedulerState
from shockwave.model.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobProgressed,
    JobStopped,
    JobSubmitted,
    NodeDown,
    NodeOccupied,
    NodeUp,
    StopReason,
)
from shockwave.model.job import JobState
from shockwave.model.view import Ints


class Intake:
    """Takes in news for the state, through the journal.

    ``journal_progress`` writes an event for what every running job did in a round.
    """

    def __init__(
        self,
        *,
        state: SchedulerState,
        journal: Journal,
        executor: Executor,
        arrivals: Arrivals,
        journal_progress: bool,
    ) -> None:
        self.arrivals = arrivals
        self.journal_progress = journal_progress
        self._state = state
        self._journal = journal
        self._executor = executor
        self._fleet = Fleet(state.placer)
        self._fits_engine = True  # whether the engine's nodes are the journal's

    def emit(self, event: Event) -> None:
        """Whatever changes the state is in the journal first."""
        self._journal.append(event)
        self._state.apply(event)

    def collect(self, now: float) -> None:
        """Everything up to ``now``."""
        poll = self._executor.poll(now)
        self._take_progress(poll.progress, now)
        for event in poll.events:
            self._take(event)
        self._fit_if_known(now)
        for spec in self.arrivals.due(now):
            self.emit(JobSubmitted(now, spec))
        if self._executor.away() is None:  # else they wait: nothing can be ordered
            for request in self.arrivals.requests():
                self._obey(request, now)
        self._journal.flush()

    def preempt(self, handles: Ints, time: float) -> None:
        """These jobs save and give up their GPUs: in the journal first, then for real."""
        if len(handles):
            self.record_stops(handles, time)
            self._journal.flush()
            self._executor.stop(handles)

    def record_stops(self, handles: Ints, time: float) -> None:
        table = self._state.table
        for handle in handles.tolist():
            done = float(table.epochs_done[handle])
            self.emit(JobStopped(time, table.specs[handle].id, done, StopReason.PREEMPTED))

    # After a restart.

    def restore(self, events: Iterable[Event], drained: frozenset[str]) -> None:
        """Folds a journal. ``drained`` are the nodes that the operator withholds."""
        for event in events:
            self._fleet.restore(event)
            self._state.apply(event)
        self._fleet.restored(drained)

    def fit_nodes(self, now: float) -> None:
        """Use the nodes that the executor has, not those that the journal knows.

        If the executor cannot tell yet, this is done as soon as it can. It begins to tell what
        others hold from nothing, so nothing is assumed.
        """
        for node in self._state.placer.nodes():
            self._take(NodeOccupied(now, node.id, 0))
        self._fits_engine = False
        self._fit_if_known(now)

    def _fit_if_known(self, now: float) -> None:
        nodes = None if self._fits_engine else self._executor.nodes()
        if nodes is not None:
            self._change_nodes(self._fleet.fit(nodes, now))
            self._fits_engine = True

    # What happened.

    def _take(self, event: Event) -> None:
        if isinstance(event, NodeUp | NodeDown | NodeOccupied):
            self._change_nodes(self._fleet.news(event))
        elif not self._comes_too_late(event):
            self.emit(event)
            if isinstance(event, JobStopped):
                self._take_stop(event)

    def _take_progress(self, progress: Progress, now: float) -> None:
        if not self.journal_progress:
            self._state.advance(progress)
            return
        for i, handle in enumerate(progress.handle.tolist()):
            spec = self._state.table.specs[handle]
            measured = float(progress.epoch_seconds[i])
            self.emit(
                JobProgressed(
                    now,
                    spec.id,
                    epochs_done=float(progress.epochs_done[i]),
                    configuration=spec.configurations[int(progress.configuration[i])],
                    epoch_seconds=None if math.isnan(measured) else measured,
                    productive_seconds=float(progress.productive_seconds[i]),
                    held_seconds=float(progress.held_seconds[i]),
                )
            )

    def _comes_too_late(self, event: Event) -> bool:
        """Whether it tells of a job that has ended, e.g. one that finished while cancelled."""
        job = getattr(event, "job", None)
        handle = self._state.table.find(job) if isinstance(job, str) else None
        return handle is not None and bool(self._state.table.state[handle] > JobState.RUNNING)

    def _take_stop(self, stop: JobStopped) -> None:
        """A job stopped that nobody here has stopped: decide anew, or give it up."""
        self._state.changed = True
        if stop.reason is StopReason.CRASHED and self._state.should_give_up(stop.job):
            self.emit(JobFailed(stop.time, stop.job, f"kept crashing: {stop.detail}"))

    def _change_nodes(self, events: list[Event]) -> None:
        """A node is empty before it goes, whoever takes it."""
        for event in events:
            if isinstance(event, NodeDown):
                holders = self._state.placer.holders(event.node)
                self.preempt(np.array(holders, dtype=np.int64), event.time)
            self.emit(event)

    # What was asked for.

    def _obey(self, request: Request, now: float) -> None:
        table = self._state.table
        match request:
            case CancelJob():
                handle = table.find(request.job)
                if handle is None or table.state[handle] > JobState.RUNNING:
                    return
                if table.state[handle] == JobState.RUNNING:
                    self._executor.stop(np.array([handle]))
                self.emit(JobCancelled(now, request.job))
            case DrainNode():
                self._change_nodes(self._fleet.drain(request.node, now))
            case ResumeNode():
                self._change_nodes(self._fleet.resume(request.node, now))
