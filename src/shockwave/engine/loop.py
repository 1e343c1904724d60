"""The round loop. One for simulated and live scheduling.

Every round: collect, observe, predict, decide, place, act, record. The loop itself does
nothing else: jobs come from an arrivals feed, time from a clock, choices from a policy,
running is an executor's, and all that happened goes into a journal.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shockwave.engine.arrivals import Arrivals
from shockwave.engine.assign import Assigner, Orders
from shockwave.engine.clock import Clock, VirtualClock
from shockwave.engine.executor import Executor, Launch
from shockwave.engine.intake import Intake
from shockwave.engine.journal import Journal
from shockwave.engine.retry import Retries
from shockwave.engine.state import SchedulerState
from shockwave.model.cluster import Cluster
from shockwave.model.errors import PolicyError, StuckError
from shockwave.model.events import (
    Event,
    JobStarted,
    Placement,
    RoundDecided,
)
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


# Called with every decision, e.g. to explain or to show progress.
Observer = Callable[[View, Forecast, Decision], None]


class RoundLoop:
    """Schedules until no job is left, or for ever where jobs may always come.

    ``journal_progress`` writes an event for what every running job did in a round: needed
    where the journal must be enough to go on from, that is, live.
    """

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
        clock: Clock | None = None,
        retries: Retries | None = None,
        journal_progress: bool = False,
        observers: Sequence[Observer] = (),
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.policy = policy
        self.predictor = predictor
        self.executor = executor
        self.journal = journal
        self.rounds = rounds or Rounds()
        self.clock = clock or VirtualClock()
        self.observers = observers
        self.timer = timer
        self.state = SchedulerState(
            cluster.nodes, retries or Retries(), lambda job: predictor.learn([job])
        )
        self.round = 0
        self.rounds_scheduled = 0
        self._began = 0.0  # the work on this round, by the timer
        self.overrun_seconds = 0.0  # by how much the last decision came too late
        self.intake = Intake(
            state=self.state,
            journal=journal,
            executor=executor,
            arrivals=arrivals,
            journal_progress=journal_progress,
        )
        self._assigner = Assigner(self.state, executor)
        self._eligible = 0
        self._last: tuple[Ints, Decision] | None = None  # handles that run, and why

    @property
    def now(self) -> float:
        return self.round * self.rounds.round_seconds

    def run(self) -> None:
        """Run rounds until every job has ended."""
        while self.step():
            pass

    def restore(
        self, events: Iterable[Event], now: float, drained: frozenset[str] = frozenset()
    ) -> None:
        """Go on from a journal: fold it, then find again what was running.

        ``drained`` are the nodes that the operator withholds.
        """
        self.intake.restore(events, drained)
        self.round = self.rounds.boundary(now)
        table = self.state.table
        self.executor.adopt(
            [
                self._launch_order(handle, self.state.placer.placement(handle))
                for handle in self.state.running().tolist()
            ]
        )
        self.rounds_scheduled = int(table.rounds_active.max(initial=0))

    def step(self) -> bool:
        """One round, or several in which nothing changes. False when all work is done."""
        self._catch_up(self.clock.wait_until(self.now))
        self._began = self.timer()
        self.intake.collect(self.now)
        if self.executor.away() is not None:
            return self._ride_out()
        eligible = self._assigner.that_could_fit(self.state.eligible(self.now))
        if len(eligible) != self._eligible:  # a back-off ended: news that no event tells
            self._eligible = len(eligible)
            self.state.changed = True
        if len(eligible) == 0 or self.state.placer.gpus == 0:
            return self._skip_idle()
        view = self._observe(eligible)
        forecast = self.predictor.forecast(view)
        decision, chosen, seconds = self._decide(view, forecast)
        orders = self._assigner.assign(chosen, view, decision)
        if not orders.complete:
            self._last = None  # whoever found no room is decided on again
        spanning = self._record_orders(orders)
        self._act(orders)
        self._record_round(view, decision, orders.running, spanning, seconds)
        return True

    # 1. Collect what happened since the last round, who arrived, and what was asked for.

    def _catch_up(self, actual: float) -> None:
        """Real time may have left a round or more behind; decide for the present one."""
        self.overrun_seconds = max(actual - self.now, 0.0)
        self.round = max(self.round, math.floor(actual / self.rounds.round_seconds + 1e-9))

    def _ride_out(self) -> bool:
        """Nothing can be ordered: what runs goes on, and the next round looks again."""
        self.round += 1
        self._last = None
        return True

    def _skip_idle(self) -> bool:
        """Nothing to decide: go to the round in which that may change.

        Gangs run then only if others say that they hold all GPUs; they are left alone.
        """
        jobs_wait = len(self.state.table.active) > 0
        # Without jobs only an arrival matters: a run ends with its jobs, not with its nodes.
        change = self._next_change() if jobs_wait else self.intake.arrivals.next_arrival()
        if math.isinf(change):
            if jobs_wait:
                raise StuckError(self._stuck_message())
            return False
        self.round = max(self.round + 1, self.rounds.boundary(change))
        self._last = None
        return True

    # 2. Observe: freeze what a policy may see.

    def _observe(self, eligible: Ints) -> View:
        return self.state.table.view(
            eligible,
            now=self.now,
            round_index=self.round,
            gpus_total=self.state.placer.gpus,
            round_seconds=self.rounds.round_seconds,
            restart_seconds=self.rounds.restart_seconds,
            changed=self.state.changed,
        )

    # 3. and 4. Predict and decide.

    def _decide(self, view: View, forecast: Forecast) -> tuple[Decision, Ints, float]:
        if self._last is not None and not self.state.changed and self._last[1].stable:
            return self._last[1], self._last[0], 0.0
        start = self.timer()
        decision = self.policy.decide(view, forecast)
        seconds = self.timer() - start
        run = self._checked(view, decision.run)
        for observer in self.observers:
            observer(view, forecast, decision)
        chosen = view.handle[run]
        self._last = (chosen, decision)
        self.state.changed = False
        return decision, chosen, seconds

    def _checked(self, view: View, positions: Ints) -> Ints:
        """The positions, if they can be carried out; a policy may come from anywhere."""
        run = np.asarray(positions)
        if run.ndim != 1 or (len(run) and not np.issubdtype(run.dtype, np.integer)):
            raise PolicyError(f"{self.policy.name} must choose positions in the view, not {run!r}")
        run = run.astype(np.int64, copy=False)
        in_range = len(run) == 0 or (run.min() >= 0 and run.max() < len(view))
        if not in_range or len(np.unique(run)) != len(run):
            raise PolicyError(
                f"{self.policy.name} chose jobs twice or jobs that do not exist: {run.tolist()}"
            )
        wanted = int(view.gpus[run].sum())
        if wanted > view.gpus_total:
            raise PolicyError(
                f"{self.policy.name} chose gangs of {wanted} GPUs in round "
                f"{self.round}, but {view.gpus_total} are up"
            )
        return run

    # 5. and 6. Place (:mod:`shockwave.engine.assign`) and act: through the executor's verbs only.

    def _act(self, orders: Orders) -> None:
        if len(orders.stopped):
            self.executor.stop(orders.stopped)
        if orders.placements:
            self.executor.launch([self._launch_order(*item) for item in orders.placements.items()])

    def _launch_order(self, handle: int, placement: Placement) -> Launch:
        table = self.state.table
        attempt = int(table.starts[handle])
        known = table.known(handle) if self.intake.journal_progress else None
        return Launch(handle, table.specs[handle], placement, attempt, known)

    # 7. Record: orders before they are carried out, the round after.

    def _record_orders(self, orders: Orders) -> int:
        """Returns how many gangs span nodes although one node could hold them."""
        table = self.state.table
        spanning = 0
        self.intake.record_stops(orders.stopped, self.now)
        for handle, placement in orders.placements.items():
            spec = table.specs[handle]
            spanning += len(placement) > 1 and spec.gpus <= self.state.placer.largest_node
            attempt = int(table.starts[handle]) + 1
            self.intake.emit(JobStarted(self.now, spec.id, placement, attempt))
        self.journal.flush()
        return spanning

    def _record_round(
        self, view: View, decision: Decision, running: Ints, spanning: int, seconds: float
    ) -> None:
        all_placed = self._last is not None
        if len(running) == 0 and all_placed and math.isinf(self._next_change()):
            raise StuckError(self._stuck_message())
        count = self._lease_rounds(decision, len(running) == len(view)) if all_placed else 1
        self.rounds_scheduled += count
        self.intake.emit(
            RoundDecided(
                self.now,
                round=self.round,
                rounds=count,
                active=len(self.state.table.active),
                running=len(running),
                gpus_up=self.state.placer.gpus,
                gpus_busy=int(self.state.table.gpus[running].sum()),
                spanning=spanning,
                plan_seconds=seconds,
                welfare=decision.welfare,
                gap=decision.gap,
                price=decision.price,
                overrun_seconds=self.overrun_seconds,
                work_seconds=self.timer() - self._began if self.intake.journal_progress else None,
            )
        )
        self.journal.flush()
        self.round += count

    def _lease_rounds(self, decision: Decision, everyone_runs: bool) -> int:
        """How many rounds the decision holds for; more than one only in virtual time."""
        if not (decision.stable or everyone_runs):
            return 1
        quiet = self._next_change()
        return 1 if math.isinf(quiet) else max(1, self.rounds.boundary(quiet) - self.round)

    def _next_change(self) -> float:
        return min(
            self.executor.quiet_until(),
            self.intake.arrivals.next_arrival(),
            self.state.next_eligible(self.now),
        )

    def _stuck_message(self) -> str:
        table = self.state.table
        waiting = [table.specs[handle] for handle in table.active[:3].tolist()]
        names = ", ".join(f"{spec.id} ({spec.gpus} GPUs)" for spec in waiting)
        more = " ..." if len(table.active) > 3 else ""
        return (
            f"{len(table.active)} jobs wait at {self.now:.0f} s and nothing can start them: "
            f"{names}{more}; {self.state.placer.gpus} GPUs are up"
        )
