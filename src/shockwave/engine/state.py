"""The state of the scheduler: by construction the fold of its journal.

Events in, state changed, nothing else happens here. A scheduler that was killed reads its
journal back through the same function and knows what it knew.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shockwave.engine.executor import Progress
from shockwave.engine.placement import Placer
from shockwave.engine.retry import Retries
from shockwave.engine.table import JobTable
from shockwave.model.cluster import Node
from shockwave.model.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobProgressed,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeDown,
    NodeOccupied,
    NodeUp,
    RegimeChanged,
    RoundDecided,
    StopReason,
)
from shockwave.model.job import JobState
from shockwave.model.view import Ints
from shockwave.predict.base import FinishedJob


class SchedulerState:
    """All jobs, all nodes, who runs where, and who crashed how often."""

    def __init__(
        self,
        nodes: tuple[Node, ...],
        retries: Retries,
        learn: Callable[[FinishedJob], None],
    ) -> None:
        self.table = JobTable()
        self.placer = Placer(nodes)
        self.changed = True  # since the last decision
        self._retries = retries
        self._learn = learn
        self._active_at_decision = 0
        self._crashes: dict[int, tuple[int, float]] = {}  # in a row, and the epochs done then

    def eligible(self, now: float) -> Ints:
        """Handles of the active jobs that may run: all but those that back off."""
        active = self.table.active
        backs_off = self.table.eligible_after[active] > now
        return np.asarray(active[~backs_off]) if backs_off.any() else active

    def running(self) -> Ints:
        active = self.table.active
        return np.asarray(active[self.table.state[active] == JobState.RUNNING])

    def next_eligible(self, now: float) -> float:
        """When the next back-off ends; infinite if nobody backs off."""
        waits = self.table.eligible_after[self.table.active]
        waits = waits[waits > now]
        return float(waits.min(initial=np.inf))

    def should_give_up(self, job: str) -> bool:
        """Whether the job has just crashed once too often."""
        crashes, _ = self._crashes.get(self.table.handle(job), (0, 0.0))
        return self._retries.gives_up(crashes)

    def advance(self, progress: Progress) -> None:
        """Progress as columns, where there are too many jobs for an event each."""
        self.table.advance(progress, self._active_at_decision, self.placer.gpus)

    def apply(self, event: Event) -> None:
        """Takes in one event."""
        match event:
            case JobSubmitted():
                self.table.submit([event.job])
            case JobStarted():
                handle = self.table.handle(event.job)
                self.table.state[handle] = JobState.RUNNING
                self.table.starts[handle] = event.attempt
                self.placer.claim(handle, event.placement)
                return  # a decision's own doing is not a change
            case JobStopped():
                self._stop(event)
                if event.reason is StopReason.PREEMPTED:
                    return
            case JobProgressed():
                self._progress(event)
                return
            case RegimeChanged():
                handle = self.table.handle(event.job)
                self.table.change_regime(handle, event.epoch, event.configuration)
            case JobFinished():
                handle = self.table.handle(event.job)
                self._end(handle, JobState.FINISHED)
                self._learn(self.table.finished_job(handle))
            case JobFailed():
                self._end(self.table.handle(event.job), JobState.FAILED)
            case JobCancelled():
                self._end(self.table.handle(event.job), JobState.CANCELLED)
            case NodeUp():
                self.placer.add(event.node)
            case NodeDown():
                self.placer.release(self.placer.remove(event.node))
            case NodeOccupied():
                self.placer.occupy(event.node, event.gpus)
            case RoundDecided():
                self._decided(event)
                return
            case _:
                return
        self.changed = True

    def _stop(self, event: JobStopped) -> None:
        handle = self.table.handle(event.job)
        self.table.state[handle] = JobState.WAITING
        self.table.epochs_done[handle] = event.epochs_done
        self.placer.release([handle])
        if event.reason is StopReason.CRASHED:
            crashes, epochs = self._crashes.get(handle, (0, -1.0))
            crashes = crashes + 1 if event.epochs_done <= epochs else 1
            self._crashes[handle] = (crashes, event.epochs_done)
            wait = self._retries.back_off_seconds(crashes)
            self.table.eligible_after[handle] = event.time + wait

    def _progress(self, event: JobProgressed) -> None:
        handle = self.table.handle(event.job)
        spec = self.table.specs[handle]
        index = spec.configurations.index(event.configuration)
        measured = np.nan if event.epoch_seconds is None else event.epoch_seconds
        self.advance(
            Progress(
                handle=np.array([handle]),
                epochs_done=np.array([event.epochs_done]),
                configuration=np.array([index]),
                epoch_seconds=np.array([measured]),
                productive_seconds=np.array([event.productive_seconds]),
                held_seconds=np.array([event.held_seconds]),
            )
        )

    def _decided(self, event: RoundDecided) -> None:
        active = self.table.active
        self.table.active_integral[active] += len(active) * event.rounds
        self.table.rounds_active[active] += event.rounds
        self._active_at_decision = len(active)

    def _end(self, handle: int, state: JobState) -> None:
        self.placer.release([handle])
        self.table.close([handle], state)
        self._crashes.pop(handle, None)
