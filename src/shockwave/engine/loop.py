"""The round loop. One for simulated and live scheduling.

Every round: collect, observe, predict, decide, place, record, act. Where jobs may start at
once, free GPUs are also filled between rounds, whenever something happened. The loop itself
does nothing else: time comes from a clock, choices from a policy, running is an executor's,
and all that happens goes through the log.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from shockwave.engine.accounts import Endowed
from shockwave.engine.assign import Assigner
from shockwave.engine.chosen import Chosen, chosen
from shockwave.engine.clock import Clock, VirtualClock
from shockwave.engine.doubtful import are_doubtful, next_fair_turn
from shockwave.engine.executor import Executor
from shockwave.engine.feed import Feed
from shockwave.engine.handing import handed_out
from shockwave.engine.intake import Intake
from shockwave.engine.launches import launches_of
from shockwave.engine.log import Log
from shockwave.engine.orders import Orders
from shockwave.engine.retry import Retries
from shockwave.engine.rounds import Rounds
from shockwave.engine.state import SchedulerState
from shockwave.engine.table import Profiles
from shockwave.engine.watch import Silence
from shockwave.model.errors import StuckError
from shockwave.model.events import JobStarted, RoundDecided, Starts
from shockwave.model.view import Ints, View
from shockwave.model.words import count_of
from shockwave.policies.base import Decision, Policy
from shockwave.predict.base import Forecast, Predictor

# Called with every decision, e.g. to explain or to show progress.
Observer = Callable[[View, Forecast, Decision], None]


class RoundLoop:
    """Schedules until no job is left, or for ever where jobs may always come.

    ``log.state`` must know the run's settings: its first event has been applied.
    """

    def __init__(
        self,
        *,
        policy: Policy,
        predictor: Predictor,
        executor: Executor,
        feed: Feed,
        log: Log,
        clock: Clock | None = None,
        retries: Retries | None = None,
        silence: Silence | None = None,
        observers: Sequence[Observer] = (),
        most_without_gpus: int = 1_000_000,
        profiles: Profiles | None = None,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.policy = policy
        self.predictor = predictor
        self.executor = executor
        self.log = log
        self.clock = clock or VirtualClock()
        self.observers = observers
        self.most_without_gpus = most_without_gpus
        self.timer = timer
        self.now = 0.0
        self.round = 0  # the next one to decide on
        self.overrun_seconds = 0.0  # by how much the last decision came too late
        self._feed = feed
        self._profiles = profiles if policy.wants_profiles else None
        self._began = 0.0  # the work on this round, by the timer
        self._assigner = Assigner(log.state, executor)
        retries = retries or Retries()
        self._patience_seconds = retries.longest_back_off_seconds  # of jobs that are doubtful
        self._intake = Intake(log, executor, feed, predictor, retries, silence)
        self._eligible = (0, 0)  # how many of them were doubtful
        self._decided_version = -1  # of the state, when the last decision was taken
        self._seen = (-1, 0.0)  # version and time of the last look at all jobs
        self._last: tuple[Chosen, Decision] | None = None  # who was chosen, and why

    @property
    def state(self) -> SchedulerState:
        return self.log.state

    @property
    def rounds(self) -> Rounds:
        return self.state.rounds

    @property
    def _starts_at_once(self) -> bool:
        return self.state.run is not None and self.state.run.starts is Starts.IMMEDIATE

    def run(self) -> None:
        """Run rounds until every job has ended."""
        while self.step():
            pass

    def resume(self, now: float) -> None:
        """Go on with a state that was restored: find again what was running, and its nodes."""
        self.now = now
        self.round = self.rounds.boundary(now)
        self.predictor.learn(list(self.state.experience))
        running = self.state.running().tolist()
        placements = {handle: self.state.placer.placement(handle) for handle in running}
        self.executor.adopt(launches_of(self.state.table, placements))
        self._intake.fit_nodes(now)
        self.log.flush()

    def stop_all(self, now: float) -> None:
        """Every running job saves and gives up its GPUs."""
        self._intake.preempt(self.state.running(), now)

    def step(self) -> bool:
        """One look at the world, and a round if one is due. False when all work is done."""
        self._wait()
        self._began = self.timer()
        round_starts = self.now >= self.rounds.start(self.round)
        self._intake.collect(self.now, round_starts=round_starts)
        if self.executor.away() is not None:
            return self._ride_out()
        self._start_without_gpus()
        if not round_starts and not (self._starts_at_once and self._may_fill_gaps()):
            return True
        goes_on = True
        with self.log.deciding():
            if round_starts:
                goes_on = self._hold_round()
            else:
                self._fill_gaps()
        self.policy.settle()
        return goes_on

    # 0. Wait: for a round, and where jobs start at once, for anything that may free GPUs.

    def _wait(self) -> None:
        start = look = self.rounds.start(self.round)
        if self._starts_at_once and not self.clock.is_real:  # a real clock can be woken
            look = min(start, self._next_news())
        actual = self.clock.wait_until(max(look, self.now))
        self.overrun_seconds = 0.0
        if actual >= start:  # real time may have left a round or more behind
            self.overrun_seconds = actual - start
            self.round = max(self.round, self.rounds.at(actual))
            self.now = self.rounds.start(self.round)
        else:
            self.now = actual

    def _next_news(self) -> float:
        waiting = len(self.state.table.active) > len(self.state.placer.held())
        news = self.executor.quiet_until() if waiting else math.inf
        return min(
            news,
            self._feed.next_arrival(),
            self.state.next_eligible(self.now),
            self.state.next_time_limit(),
        )

    # 1. Collect (:mod:`shockwave.engine.intake`), and what to do when there is nothing to decide.

    def _ride_out(self) -> bool:
        """Nothing can be ordered: what runs goes on, and the next look sees again."""
        if self.now >= self.rounds.start(self.round):
            self.round += 1
        self._last = None
        return True

    def _skip_idle(self) -> bool:
        """Nothing to decide: go to the round in which that may change.

        Gangs run then only if others say that they hold all GPUs; they are left alone.
        """
        jobs_wait = len(self.state.table.active) > 0
        # Without jobs only an arrival matters: a run ends with its jobs, not with its nodes.
        change = self._next_change() if jobs_wait else self._feed.next_arrival()
        if math.isinf(change):
            if jobs_wait:
                raise StuckError(self._stuck_message())
            return False
        self.round = max(self.round + 1, self.rounds.boundary(change))
        self._last = None
        return True

    def _hold_round(self) -> bool:
        eligible, doubtful = self._eligible_jobs()
        if len(eligible) == 0 or self.state.placer.gpus == 0:
            return self._skip_idle()
        view, endowed = self._observe(eligible)
        forecast = self.predictor.forecast(view)
        decision, choice, seconds = self._decide(view, forecast, endowed)
        orders = self._assigner.assign(choice, view, decision, doubtful)
        if not orders.complete:
            self._last = None  # whoever found no room is decided on again
        spanning = self._record_orders(orders)
        self._act(orders)
        self._record_round(view, decision, orders.running, spanning, seconds)
        return True

    def _start_without_gpus(self) -> None:
        """Jobs that need no GPU run beside the others, and no policy is asked about them."""
        if not self.state.table.any_without_gpus:
            return
        with self.log.deciding():
            found = self.state.startable_without_gpus(self.now, self.most_without_gpus)
            if len(found):
                orders = Orders(placements=dict.fromkeys(found.tolist(), ()))
                self._record_orders(orders)
                self._act(orders)

    def _may_fill_gaps(self) -> bool:
        """Whether something happened, or a back-off ended, since the last look at all jobs."""
        seen_version, seen_at = self._seen
        return self.state.version != seen_version or self.state.next_eligible(seen_at) <= self.now

    def _fill_gaps(self) -> None:
        """Between rounds: free GPUs go to waiting jobs in the policy's order of preference."""
        eligible, doubtful = self._eligible_jobs()
        room, table = self.state.placer.room(), self.state.table
        either = np.concatenate([eligible, doubtful])
        waiting = either[~np.isin(either, list(self.state.placer.held()))]
        if len(waiting) == 0 or table.least_gpus(waiting) > room:
            return
        view, endowed = self._observe(eligible)
        forecast = self.predictor.forecast(view)
        decision, choice, _ = self._decide(view, forecast, endowed)
        self._last = None  # the next round is decided on its own
        orders = self._assigner.fill(choice, view, decision, doubtful)
        self._record_orders(orders)
        self._act(orders)

    # 2. Observe: freeze what a policy may see.

    def _eligible_jobs(self) -> tuple[Ints, Ints]:
        """Jobs to decide on, and those that may have what these leave.

        The latter could not be started the last time, and are not to keep a GPU from a job that
        can. Where there is nobody else, or when they have waited for long, they are decided on
        like any other.
        """
        self._seen = (self.state.version, self.now)
        eligible = self.state.table.needing_gpus(self.state.eligible(self.now))
        eligible = self._assigner.that_could_fit(eligible)
        doubtful = are_doubtful(self.state.table, eligible, self.now, self._patience_seconds)
        if self.state.accounts.tenants:  # limits hold for whoever is decided on
            doubtful &= ~self.state.accounts.limited(self.state.table, eligible)
        split = len(eligible), int(doubtful.sum())
        if split != self._eligible:  # a wait ended: news that no event tells
            self._eligible = split
            self._decided_version = -1
        if split[1] in (0, len(eligible)):
            return eligible, eligible[:0]
        return eligible[~doubtful], eligible[doubtful]

    def _observe(self, eligible: Ints) -> tuple[View, Endowed | None]:
        """What a policy may see, and what tenants may have where there are several."""
        view = self.state.table.view(
            eligible,
            now=self.now,
            round_index=self.round,  # between rounds the coming one
            gpus_total=self.state.placer.gpus,
            round_seconds=self.rounds.round_seconds,
            restart_seconds=self.rounds.restart_seconds,
            changed=self._changed,
            between_rounds=self.now < self.rounds.start(self.round),
            profiles=self._profiles,
        )
        endowed = self.state.accounts.endow(view, self.state.table, self.state.placer.types())
        return (view if endowed is None else endowed.view), endowed

    @property
    def _changed(self) -> bool:
        """Whether anything happened since the last decision that may change it."""
        return self.state.version != self._decided_version

    # 3. and 4. Predict and decide.

    def _decide(
        self, view: View, forecast: Forecast, endowed: Endowed | None
    ) -> tuple[Decision, Chosen, float]:
        if self._last is not None and not self._changed and self._last[1].stable:
            return self._last[1], self._last[0], 0.0
        staying = np.flatnonzero(view.must_stay)  # a policy might write into its view
        start = self.timer()
        decision = self.policy.decide(view, forecast)
        seconds = self.timer() - start
        choice = chosen(self.policy.name, view, decision, staying)
        if endowed is not None:
            decision, choice = handed_out(view, decision, choice, staying, endowed, self._types_for)
        for observer in self.observers:
            observer(view, forecast, decision)
        self._last = (choice, decision)
        self._decided_version = self.state.version
        return decision, choice, seconds

    def _types_for(self, handle: int) -> frozenset[str] | None:
        """The types of GPUs on the nodes that a job is bound to; None if it may use all."""
        names, nodes = self.executor.nodes_for(self.state.table.spec(handle)), self.state.nodes
        if names is None:
            return None
        return frozenset(nodes[name].node.gpu_type for name in names if name in nodes)

    # 5. Place (:mod:`shockwave.engine.assign`). 6. Record: orders before they are carried out.

    def _record_orders(self, orders: Orders) -> int:
        """Returns how many gangs span nodes although one node could hold them."""
        table = self.state.table
        handles = np.fromiter(orders.placements, np.int64, len(orders.placements))
        attempts = (table.starts[table.rows(handles)] + 1).tolist()
        largest_node, spanning, events = self.state.placer.largest_node, 0, []
        if orders.options:
            largest = {kind.name: kind.largest_node for kind in self.state.placer.types()}
        for (handle, placement), attempt in zip(orders.placements.items(), attempts, strict=True):
            spec = table.spec(handle)
            option = orders.options.get(handle)
            if option is None:
                spanning += len(placement) > 1 and spec.gpus <= largest_node
            else:
                spanning += len(placement) > 1 and option.gpus <= largest[option.gpu_type]
            # A round has the time that it was due at; who came since then starts when it came.
            time = max(self.now, spec.arrival_seconds)
            events.append(JobStarted(time, spec.id, placement, attempt, option))
        self._intake.record_stops(orders.stopped, self.now, resized=orders.placements)
        self.log.emit(*events)
        self.log.flush()
        return spanning

    # 7. Act: through the executor's verbs only.

    def _act(self, orders: Orders) -> None:
        if len(orders.stopped):
            self.executor.stop(orders.stopped)
        if orders.placements:
            self.executor.launch(launches_of(self.state.table, orders.placements))

    def _record_round(
        self, view: View, decision: Decision, running: Ints, spanning: int, seconds: float
    ) -> None:
        table = self.state.table
        all_placed = self._last is not None
        if len(running) == 0 and all_placed and math.isinf(self._next_change()):
            raise StuckError(self._stuck_message())
        # Who has all that it can use wants nothing else; with options more may be better.
        satisfied = len(running) == len(view) and view.options is None
        count = self._lease_rounds(decision, satisfied) if all_placed else 1
        self.log.emit(
            RoundDecided(
                self.now,
                round=self.round,
                rounds=count,
                active=len(table.needing_gpus()),
                running=len(running),
                gpus_up=self.state.placer.gpus,
                gpus_busy=int(table.held_gpus(running).sum()),
                spanning=spanning,
                plan_seconds=seconds,
                welfare=decision.welfare,
                gap=decision.gap,
                price=decision.price,
                overrun_seconds=self.overrun_seconds,
                work_seconds=self.timer() - self._began if self.clock.is_real else None,
            )
        )
        self.log.flush()
        self.round += count

    def _lease_rounds(self, decision: Decision, everyone_satisfied: bool) -> int:
        """How many rounds the decision holds for; more than one only in virtual time."""
        if not (decision.stable or everyone_satisfied):
            return 1
        quiet = self._next_change()
        return 1 if math.isinf(quiet) else max(1, self.rounds.boundary(quiet) - self.round)

    def _next_change(self) -> float:
        return min(
            self.executor.quiet_until(),
            self._feed.next_arrival(),
            self.state.next_eligible(self.now),
            next_fair_turn(self.state.table, self.now, self._patience_seconds),
            self.state.next_time_limit(),
        )

    def _stuck_message(self) -> str:
        table = self.state.table
        waiting = [table.spec(handle) for handle in table.active[:3].tolist()]
        names = ", ".join(f"{spec.id} ({count_of(spec.gpus, 'GPU')})" for spec in waiting)
        more = " ..." if len(table.active) > 3 else ""
        return (
            f"{count_of(len(table.active), 'job')} waiting at {self.now:.0f} s that nothing can "
            f"start: {names}{more}; "
            f"{count_of(self.state.placer.gpus, 'GPU')} up"
        )
