"""The first step of a round: what happened, who arrived, and what was asked for.

News comes from the executor, jobs from a feed, requests from people through the log. All of it
becomes events; what has to be ordered because of them is ordered when they are durable.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

import numpy as np

from shockwave.engine.executor import Executor
from shockwave.engine.feed import Feed
from shockwave.engine.log import Log
from shockwave.engine.retry import Retries
from shockwave.engine.watch import Silence, newly_silent, out_of_time, waiting_in_vain
from shockwave.model.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobSilent,
    JobStopped,
    JobSubmitted,
    NodeDown,
    NodeOccupied,
    NodeUp,
    RegimeChanged,
    StopReason,
    job_of,
)
from shockwave.model.job import OnHang
from shockwave.model.view import Ints
from shockwave.predict.base import Predictor


class Intake:
    """Takes in news through the log, and obeys requests."""

    def __init__(
        self,
        log: Log,
        executor: Executor,
        feed: Feed,
        predictor: Predictor,
        retries: Retries,
        silence: Silence | None = None,
    ) -> None:
        self._log = log
        self._state = log.state
        self._executor = executor
        self._feed = feed
        self._predictor = predictor
        self._retries = retries
        self._silence = silence  # None where jobs cannot hang
        self._fits_backend = True  # whether the backend's nodes are the journal's

    def collect(self, now: float, *, round_starts: bool = True) -> None:
        """Everything up to ``now``.

        The progress of all jobs is taken at the start of a round, between rounds that of the
        jobs that something happened to.
        """
        events = self._executor.poll(now)
        self._take_progress(events, round_starts)
        for event in events:
            self._take(event)
        self._fit_if_known(now)
        for spec in self._feed.due(now):
            self._log.emit(JobSubmitted(now, spec))
        self._log.take_requests()
        if self._executor.away() is None:  # else they wait: nothing can be ordered
            self._obey_requests(now)
            self._keep_limits(now)
            if round_starts and self._silence is not None:
                self._look_for_silence(now, self._silence)
        while ends := waiting_in_vain(self._state, now):  # which may let others wait in vain
            self._log.emit(*ends)
        self._log.flush()

    def preempt(self, handles: Ints, time: float) -> None:
        """These jobs save and give up their GPUs: in the journal first, then for real."""
        if len(handles):
            self.record_stops(handles, time)
            self._log.flush()
            self._executor.stop(handles)

    def record_stops(
        self, handles: Ints, time: float, resized: Container[int] = frozenset()
    ) -> None:
        """What is ordered goes into the journal first; those ``resized`` start again at once."""
        table = self._state.table
        epochs_done = table.epochs_done[table.rows(handles)].tolist()
        self._log.emit(
            *(
                JobStopped(
                    time,
                    table.spec(handle).id,
                    done,
                    StopReason.RESIZED if handle in resized else StopReason.PREEMPTED,
                )
                for handle, done in zip(handles.tolist(), epochs_done, strict=True)
            )
        )

    # Nodes.

    def fit_nodes(self, now: float) -> None:
        """Use the nodes that the executor has, not those that the journal knows.

        If the executor cannot tell yet, this is done as soon as it can. It begins to tell what
        others hold from nothing, so nothing is assumed.
        """
        for name, status in self._state.nodes.items():
            if status.occupied or status.contested:
                self._log.emit(NodeOccupied(now, name, 0))
        self._fits_backend = False
        self._fit_if_known(now)

    def _fit_if_known(self, now: float) -> None:
        nodes = None if self._fits_backend else self._executor.nodes()
        if nodes is None:
            return
        self._fits_backend = True
        wanted = {node.id: node for node in nodes}
        for name, status in list(self._state.nodes.items()):
            if status.up and wanted.get(name) != status.node:
                self._node_down(NodeDown(now, name))
        for node in nodes:
            self._node_up(NodeUp(now, node))
        for node, down in self._executor.unusable(now):
            if node.id not in self._state.nodes:  # so that people see why it is not used
                self._log.emit(NodeUp(now, node), down)

    def _node_up(self, event: NodeUp) -> None:
        status = self._state.nodes.get(event.node.id)
        if status is not None and status.up:
            if status.node == event.node:
                return
            self._node_down(NodeDown(event.time, event.node.id))  # with other GPUs than before
        self._log.emit(event)

    def _node_down(self, event: NodeDown) -> None:
        """A node is empty before it goes."""
        status = self._state.nodes.get(event.node)
        if status is not None and status.up:
            holders = self._state.placer.holders(event.node)
            self.preempt(np.array(holders, dtype=np.int64), event.time)
            self._log.emit(event)

    # What happened.

    def _take_progress(self, events: list[Event], all_jobs: bool) -> None:
        handles = None
        if not all_jobs:
            ends = [event for event in events if not isinstance(event, RegimeChanged)]
            found = {self._state.table.find(job) for job in map(job_of, ends) if job is not None}
            handles = np.array([handle for handle in found if handle is not None], dtype=np.int64)
        if handles is None or len(handles):
            progress = self._executor.progress(handles)
            if len(progress.handle):
                self._log.emit(progress)

    def _take(self, event: Event) -> None:
        match event:
            case NodeUp():
                self._node_up(event)
            case NodeDown():
                self._node_down(event)
            case NodeOccupied():
                status = self._state.nodes.get(event.node)
                told = status is not None and (status.occupied, status.contested)
                if status is not None and status.up and told != (event.gpus, event.contested):
                    self._log.emit(event)
            case JobStopped():
                self._take_stop(event)
            case JobFinished():
                if self._state.table.find(event.job) is not None:
                    self._log.emit(event)
                    self._predictor.learn([self._state.experience[-1]])
            case _:
                job = job_of(event)
                # What is told of a job that has ended meanwhile comes too late.
                if job is None or self._state.table.find(job) is not None:
                    self._log.emit(event)

    def _take_stop(self, stop: JobStopped) -> None:
        """A job stopped that nobody here has stopped: it tries again, or is given up."""
        table = self._state.table
        handle = table.find(stop.job)
        if handle is None:
            return
        row = table.row(handle)
        if stop.reason.ordered:  # only what we order is a preemption
            stop = replace(stop, reason=StopReason.KILLED)
        if stop.reason is StopReason.CRASHED:
            again = stop.epochs_done <= table.crash_epochs[row]
            tries = int(table.crashes[row]) + 1 if again else 1
        elif stop.reason is StopReason.NOT_STARTED:
            tries = int(table.failed_starts[row]) + 1
        elif stop.reason is StopReason.KILLED:
            self._take_kill(stop, row)
            return
        else:
            self._log.emit(stop)
            return
        wait = self._retries.back_off_seconds(tries)
        self._log.emit(replace(stop, back_off_seconds=wait))
        crashed = stop.reason is StopReason.CRASHED
        allowed = table.spec(handle).retries if crashed else None
        if self._retries.gives_up(tries, crashed=crashed, retries=allowed):
            what = ("kept crashing" if tries > 1 else "crashed") if crashed else "cannot start"
            self._log.emit(JobFailed(stop.time, stop.job, f"{what}: {stop.detail}"))

    def _take_kill(self, stop: JobStopped, row: int) -> None:
        """Not its own fault: tried again without end, but ever more slowly if nothing comes of it.

        Unless its owner wants no such retries.
        """
        table = self._state.table
        again = stop.epochs_done <= table.kill_epochs[row]
        kills = int(table.kills[row]) + 1 if again else 1
        wait = self._retries.back_off_seconds(kills - 1) if kills > 1 else 0.0
        self._log.emit(replace(stop, back_off_seconds=wait))
        retries = table.spec(int(table.handle[row])).retries
        if retries is not None and kills > retries:
            self._log.emit(JobFailed(stop.time, stop.job, f"was killed: {stop.detail}"))

    # What was asked for.

    def _obey_requests(self, now: float) -> None:
        table = self._state.table
        leaving = set(self._state.drained_holders())
        if not (table.any_request or leaving):
            return
        active = table.active
        rows = table.rows(active)
        cancelled = active[table.cancelling[rows]]
        running = np.array([h for h in cancelled.tolist() if self._state.is_running(h)], np.int64)
        for handle in cancelled.tolist():
            self._log.emit(JobCancelled(now, table.spec(handle).id))
        self._stop_when_durable(running)
        requeued = active[table.requeueing[rows]].tolist()
        leaving.update(handle for handle in requeued if self._state.is_running(handle))
        leaving.difference_update(cancelled.tolist())
        self.preempt(np.array(sorted(leaving), dtype=np.int64), now)

    def _stop_when_durable(self, handles: Ints) -> None:
        """For jobs that the journal has as ended or stopped already."""
        if len(handles):
            self._log.flush()
            self._executor.stop(handles)

    # What cannot go on.

    def _keep_limits(self, now: float) -> None:
        overdue, table = out_of_time(self._state, now), self._state.table
        for handle in overdue.tolist():
            spec = table.spec(handle)
            reason = f"time limit: it has held its GPUs for {spec.time_limit_seconds:g} s"
            self._log.emit(JobFailed(now, spec.id, reason))
        self._stop_when_durable(overdue)

    def _look_for_silence(self, now: float, silence: Silence) -> None:
        table = self._state.table
        for event in newly_silent(self._state, now, silence):
            self._log.emit(event)
            handle = table.find(event.job)
            assert handle is not None  # it runs
            choice = table.spec(handle).on_hang
            if choice is OnHang.NOTHING:
                continue
            if choice is OnHang.FAIL:
                self._log.emit(JobFailed(now, event.job, _said_of(event)))
            else:
                done = float(table.epochs_done[table.row(handle)])
                stop = JobStopped(now, event.job, done, StopReason.CRASHED, _said_of(event))
                self._take_stop(stop)
            self._stop_when_durable(np.array([handle], dtype=np.int64))


def _said_of(silent: JobSilent) -> str:
    return (
        f"it hung: it said nothing for {silent.silent_seconds:.0f} s, "
        f"and an epoch takes {silent.epoch_seconds:.3g} s"
    )
