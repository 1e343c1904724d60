"""The round loop. One for simulated and live scheduling.

Every round: collect, observe, predict, decide, place, act, record. The loop itself does
nothing else: jobs come from an arrivals feed, time from an executor, choices from a
policy, and all that happened goes into a journal.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shockwave.engine.executor import Executor, Launch, Signal
from shockwave.engine.journal import Journal
from shockwave.engine.placement import Placer
from shockwave.engine.table import JobTable
from shockwave.model.cluster import Cluster
from shockwave.model.errors import PolicyError, StuckError
from shockwave.model.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeDown,
    NodeUp,
    Placement,
    RegimeChanged,
    RoundDecided,
    StopReason,
)
from shockwave.model.job import JobSpec, JobState
from shockwave.model.view import Ints, View
from shockwave.policies.base import Decision, Policy
from shockwave.predict.base import Forecast, Predictor


@dataclass(frozen=True, slots=True)
class Rounds:
    """The lengths that scheduling is cut into, in seconds."""

    round_seconds: float = 120.0
    restart_seconds: float = 20.0

    def boundary(self, seconds: float) -> int:
        """The first round that starts at or after ``seconds``."""
        return math.ceil(seconds / self.round_seconds - 1e-9)


class Arrivals(ABC):
    """Where jobs come from: a trace, or people."""

    @abstractmethod
    def due(self, now: float) -> list[JobSpec]:
        """Jobs that arrived up to ``now`` and were not handed out yet."""

    @abstractmethod
    def next_arrival(self) -> float:
        """When the next job arrives; infinity if there is none, the present if unknown."""


# Called with every decision, e.g. to explain or to show progress.
Observer = Callable[[View, Forecast, Decision], None]


class RoundLoop:
    """Schedules until no job is left."""

    def __init__(
        self,
        *,
        policy: Policy,
        predictor: Predictor,
        executor: Executor,
        arrivals: Arrivals,
        cluster: Cluster,
        journal: Journal,
        rounds: Rounds | None = None,
        observers: Sequence[Observer] = (),
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.policy = policy
        self.predictor = predictor
        self.executor = executor
        self.arrivals = arrivals
        self.journal = journal
        self.rounds = rounds or Rounds()
        self.observers = observers
        self.timer = timer
        self.table = JobTable()
        self.placer = Placer(cluster.nodes)
        self.round = 0
        self.rounds_scheduled = 0
        self._changed = True
        self._active_at_decision = 0
        self._last: tuple[Ints, Decision] | None = None  # handles that run, and why

    @property
    def now(self) -> float:
        return self.round * self.rounds.round_seconds

    def run(self) -> None:
        """Run rounds until every job has ended."""
        while self.step():
            pass

    def step(self) -> bool:
        """One round, or several in which nothing changes. False when all work is done."""
        self._collect()
        if len(self.table.active) == 0 or self.placer.gpus == 0:
            return self._skip_idle()
        view = self._observe()
        forecast = self.predictor.forecast(view)
        decision, chosen, seconds = self._decide(view, forecast)
        stopped, started, continuing = self._diff(chosen)
        self.placer.release(stopped.tolist())
        placements = self.placer.place(started.tolist(), self.table.gpus[started].tolist())
        spanning = self._record_orders(stopped, placements)
        self._act(stopped, placements, continuing)
        self._record_round(decision, chosen, spanning, seconds)
        return True

    # 1. Collect what happened since the last round, and who arrived.

    def _collect(self) -> None:
        poll = self.executor.poll(self.now)
        self.table.advance(poll.progress, self._active_at_decision, self.placer.gpus)
        for event in poll.events:
            self.journal.append(event)
            self._apply(event)
        arrived = self.arrivals.due(self.now)
        if arrived:
            self.table.submit(arrived)
            for spec in arrived:
                self.journal.append(JobSubmitted(self.now, spec))
            self._changed = True

    def _apply(self, event: Event) -> None:
        self._changed = True
        match event:
            case RegimeChanged():
                handle = self.table.handle(event.job)
                self.table.change_regime(handle, event.epoch, event.configuration)
            case JobFinished():
                handle = self.table.handle(event.job)
                self._end(handle, JobState.FINISHED)
                self.predictor.learn([self.table.finished_job(handle)])
            case JobFailed() | JobCancelled():
                failed = isinstance(event, JobFailed)
                self._end(
                    self.table.handle(event.job), JobState.FAILED if failed else JobState.CANCELLED
                )
            case JobStopped():
                handle = self.table.handle(event.job)
                self.table.state[handle] = JobState.WAITING
                self.table.epochs_done[handle] = event.epochs_done
                self.placer.release([handle])
            case NodeUp():
                self.placer.add(event.node)
            case NodeDown():
                self.placer.release(self.placer.remove(event.node))

    def _end(self, handle: int, state: JobState) -> None:
        self.placer.release([handle])
        self.table.close([handle], state)

    def _skip_idle(self) -> bool:
        """Nothing to decide: go to the round in which that may change."""
        jobs_wait = len(self.table.active) > 0
        # Without jobs only an arrival matters: a run ends with its jobs, not with its nodes.
        change = self._next_change() if jobs_wait else self.arrivals.next_arrival()
        if math.isinf(change):
            if jobs_wait:
                raise StuckError(self._stuck_message())
            return False
        self.round = max(self.round + 1, self.rounds.boundary(change))
        self._last = None
        return True

    # 2. Observe: freeze what a policy may see.

    def _observe(self) -> View:
        active = self.table.active
        self._active_at_decision = len(active)
        return self.table.view(
            now=self.now,
            round_index=self.round,
            gpus_total=self.placer.gpus,
            round_seconds=self.rounds.round_seconds,
            restart_seconds=self.rounds.restart_seconds,
            changed=self._changed,
        )

    # 3. and 4. Predict and decide.

    def _decide(self, view: View, forecast: Forecast) -> tuple[Decision, Ints, float]:
        if self._last is not None and not self._changed and self._last[1].stable:
            return self._last[1], self._last[0], 0.0
        start = self.timer()
        decision = self.policy.decide(view, forecast)
        seconds = self.timer() - start
        run = np.asarray(decision.run)
        if run.ndim != 1 or (len(run) and not np.issubdtype(run.dtype, np.integer)):
            raise PolicyError(
                f"{self.policy.name} must choose positions in the view, not {decision.run!r}"
            )
        run = run.astype(np.int64, copy=False)
        if len(np.unique(run)) != len(run) or (
            len(run) and not 0 <= run.min() <= run.max() < len(view)
        ):
            raise PolicyError(
                f"{self.policy.name} chose jobs twice or jobs that do not exist: {run}"
            )
        if view.gpus[run].sum() > view.gpus_total:
            raise PolicyError(
                f"{self.policy.name} chose gangs of {view.gpus[run].sum()} GPUs in round "
                f"{self.round}, but {view.gpus_total} are up"
            )
        for observer in self.observers:
            observer(view, forecast, decision)
        chosen = view.handle[run]
        self._last = (chosen, decision)
        self._changed = False
        return decision, chosen, seconds

    # 5. Place: who stops, who starts where, who stays.

    def _diff(self, chosen: Ints) -> tuple[Ints, Ints, Ints]:
        """Who stops, who starts, who goes on."""
        state, active = self.table.state, self.table.active
        goes_on = state[chosen] == JobState.RUNNING
        continuing = chosen[goes_on]
        held = active[state[active] == JobState.RUNNING]
        stopped = held[:0] if len(held) == len(continuing) else np.setdiff1d(held, continuing)
        return stopped, chosen[~goes_on], continuing

    # 6. Act: through the executor's verbs only.

    def _act(self, stopped: Ints, placements: dict[int, Placement], continuing: Ints) -> None:
        table = self.table
        lease_end = (self.round + 1) * self.rounds.round_seconds
        if len(stopped):
            table.state[stopped] = JobState.WAITING
            self.executor.stop(stopped)
        if len(continuing):
            self.executor.signal(continuing, Signal.RENEW, lease_end)
        if placements:
            handles = np.fromiter(placements, dtype=np.int64)
            table.state[handles] = JobState.RUNNING
            self.executor.launch(
                [
                    Launch(
                        handle, table.specs[handle], placement, int(table.starts[handle]), lease_end
                    )
                    for handle, placement in placements.items()
                ]
            )

    # 7. Record: orders before they are carried out, the round after.

    def _record_orders(self, stopped: Ints, placements: dict[int, Placement]) -> int:
        """Returns how many gangs span nodes although one node could hold them."""
        table, now, append = self.table, self.now, self.journal.append
        spanning = 0
        for handle in stopped.tolist():
            done = float(table.epochs_done[handle])
            append(JobStopped(now, table.specs[handle].id, done, StopReason.PREEMPTED))
        for handle, placement in placements.items():
            table.starts[handle] += 1
            spec = table.specs[handle]
            spanning += len(placement) > 1 and spec.gpus <= self.placer.largest_node
            append(JobStarted(now, spec.id, placement, int(table.starts[handle])))
        return spanning

    def _record_round(
        self, decision: Decision, chosen: Ints, spanning: int, seconds: float
    ) -> None:
        table, active = self.table, self.table.active
        if len(chosen) == 0 and math.isinf(self._next_change()):
            raise StuckError(self._stuck_message())
        count = self._lease_rounds(decision, chosen)
        table.active_integral[active] += len(active) * count
        table.rounds_active[active] += count
        self.rounds_scheduled += count
        self.journal.append(
            RoundDecided(
                self.now,
                round=self.round,
                rounds=count,
                active=len(active),
                running=len(chosen),
                gpus_up=self.placer.gpus,
                gpus_busy=int(table.gpus[chosen].sum()),
                spanning=spanning,
                plan_seconds=seconds,
                welfare=decision.welfare,
                gap=decision.gap,
                price=decision.price,
            )
        )
        self.round += count

    def _lease_rounds(self, decision: Decision, chosen: Ints) -> int:
        """How many rounds the decision holds for; more than one only in virtual time."""
        everyone_runs = len(chosen) == len(self.table.active)
        if not (decision.stable or everyone_runs):
            return 1
        quiet = self._next_change()
        return 1 if math.isinf(quiet) else max(1, self.rounds.boundary(quiet) - self.round)

    def _next_change(self) -> float:
        return min(self.executor.quiet_until(), self.arrivals.next_arrival())

    def _stuck_message(self) -> str:
        active = self.table.active
        waiting = [self.table.specs[handle] for handle in active[:3].tolist()]
        names = ", ".join(f"{spec.id} ({spec.gpus} GPUs)" for spec in waiting)
        return (
            f"{len(active)} jobs wait at {self.now:.0f} s and nothing can start them: {names}"
            f"{' ...' if len(active) > 3 else ''}; {self.placer.gpus} GPUs are up"
        )
