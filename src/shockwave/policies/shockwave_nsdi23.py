"""Shockwave as published (NSDI '23): Nash social welfare over a window of rounds.

The faithful formulation, solved by prices instead of a commercial solver: the piecewise
log of predicted progress, weights that grow with the projected unfairness, a makespan term,
and a plan that is followed until the set of jobs changes.

The original sets the weight of the makespan anew for every trace, over eight orders of
magnitude. Here it follows from the market: a second of makespan costs what all GPUs cost for a
second, at the price that would clear the window if only progress counted. Prices grow and fall
with the number of jobs, with their weights and with what they are about to lose, and so does
what the end of everybody is worth beside it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import ClassVar, Self

import numpy as np

from shockwave.model.view import Bools, Floats, Ints, View
from shockwave.plan.explain import Explanation, expected_starts, first_bids
from shockwave.plan.promises import TAIL, Intervals
from shockwave.plan.restarts import start_seconds
from shockwave.plan.telling import Foretold, Teller, waiting
from shockwave.plan.window.market import (
    PiecewiseLog,
    budgets,
    fairness_weights,
    productive_seconds,
    progress_fractions,
    window_values,
)
from shockwave.plan.window.planner import Solver, clearing_price, solve
from shockwave.plan.window.program import Program
from shockwave.plan.window.schedule import WindowPlan
from shockwave.policies.base import Decision, Policy, PolicyOptions
from shockwave.policies.fill import fill, largest_first
from shockwave.policies.memory import PerJob
from shockwave.predict.base import Forecast

WINDOW_ROUNDS = 20
FUTURES = 16  # sampled trajectories that utilities are the expectation over
UNFAIRNESS_EXPONENT = 12.0
LAST_ROUND_EXPONENT = 100.0  # for jobs with less than a round to go
HIGHEST_WEIGHT = 1e12
LATEST_TARGET_SHARE = 0.1  # the rest is the mean over the job's life so far


class FairFinish:
    """How long each job may take to be treated fairly, averaged over its life.

    ``X * contention`` seconds from its arrival, re-estimated whenever the set of jobs changed:
    0.9 of the time-weighted mean of all estimates plus 0.1 of the latest one.
    """

    def __init__(self) -> None:
        self._latest = PerJob()
        self._since = PerJob()
        self._first = PerJob()
        self._sum = PerJob()

    def update(self, view: View, forecast: Forecast) -> None:
        handle = view.handle
        contention = max(1.0, len(view) / view.gpus_total)
        total = view.productive_seconds + forecast.remaining_seconds
        first = self._first.get(handle)
        self._first.set(handle, np.where(np.isnan(first), view.now, first))
        self._sum.set(handle, self._integral(view))
        self._latest.set(handle, total * contention)
        self._since.set(handle, np.full(len(view), view.now))

    def allowed_seconds(self, view: View) -> Floats:
        """[job] the fair completion time, counted from the arrival."""
        latest = self._latest.get(view.handle)
        seen = view.now - self._first.get(view.handle)
        mean = np.where(seen > 0, self._integral(view) / np.maximum(seen, 1e-9), latest)
        return (1 - LATEST_TARGET_SHARE) * mean + LATEST_TARGET_SHARE * latest

    def _integral(self, view: View) -> Floats:
        handle = view.handle
        held = self._latest.get(handle) * (view.now - self._since.get(handle))
        return np.nan_to_num(self._sum.get(handle)) + np.nan_to_num(held)


class ShockwaveNsdi23(Policy):
    """Plans 20 rounds, follows the plan until the set of jobs changes, then plans anew."""

    name: ClassVar[str] = "shockwave-nsdi23"
    predictor: ClassVar[str] = "equal-shares"  # the prior of the paper

    def __init__(self, *, solver: Solver = "prices", seed: int = 0) -> None:
        self._solver: Solver = solver
        self._seed = seed
        self._fair_finish = FairFinish()
        self._planned: Ints = np.empty(0, dtype=np.int64)  # handles, in the plan's order
        self._plan: WindowPlan | None = None
        self._values: Floats = np.empty((0, 0))
        self._first_round = 0
        self._plans = 0
        self._teller = Teller()

    @classmethod
    def configured(cls, options: PolicyOptions) -> Self:
        return cls(solver=options.solver, seed=options.seed)

    def decide(self, view: View, forecast: Forecast) -> Decision:
        if not np.array_equal(self._planned, view.handle):
            self._fair_finish.update(view, forecast)
            self._make_plan(view, forecast)
        elif view.round - self._first_round >= WINDOW_ROUNDS:
            self._make_plan(view, forecast)
        assert self._plan is not None
        plan, offset = self._plan, view.round - self._first_round
        planned = np.flatnonzero(plan.schedule[:, offset])
        run = fill(self._order(planned, forecast), view)
        foretold = cache(lambda: _foretell(view, forecast, plan.schedule[:, offset:], run))
        if not view.between_rounds:
            starting = np.where(view.running, 0.0, start_seconds(view))
            self._teller.follow(view, run, view.now + starting + forecast.remaining_seconds)
            self._teller.remember(view, run, foretold)
        return Decision(
            run,
            welfare=plan.welfare,
            gap=plan.gap,
            price=float(plan.price[0]),
            explain=lambda: self._explain(view, run, plan, foretold()),
        )

    def _order(self, planned: Ints, forecast: Forecast) -> Ints:
        """The plan first; GPUs that it leaves idle go to the longest remaining jobs."""
        longest = largest_first(forecast.remaining_seconds)
        return np.concatenate([planned, longest[~np.isin(longest, planned)]])

    def _make_plan(self, view: View, forecast: Forecast) -> None:
        remaining = forecast.remaining_seconds
        seconds = productive_seconds(
            WINDOW_ROUNDS, view.round_seconds, start_seconds(view), view.running
        )
        futures = forecast.sample(FUTURES, np.random.default_rng([self._seed, self._plans]))
        fractions = progress_fractions(futures, view.epochs_done, view.epochs, seconds)
        bid = budgets(view.weight) * self._weights(view, remaining)
        self._values = window_values(fractions, bid, log=PiecewiseLog.nsdi23())
        progress = Program.from_values(
            self._values,
            view.gpus,
            view.gpus_total,
            remaining_seconds=remaining,
            round_seconds=view.round_seconds,
            horizon_floor_seconds=float((view.gpus * remaining).sum()) / view.gpus_total
            - WINDOW_ROUNDS * view.round_seconds,
        )
        gpu_second = float(clearing_price(progress)[0]) / view.round_seconds
        program = replace(progress, makespan_weight=gpu_second * view.gpus_total)
        self._plan = solve(program, solver=self._solver, running=view.running)
        self._planned = view.handle
        self._first_round = view.round
        self._plans += 1

    def _weights(self, view: View, remaining: Floats) -> Floats:
        share = min(1.0, view.gpus_total / len(view))
        allowed = self._fair_finish.allowed_seconds(view)
        # By the microsecond: the powers below would make much of the digits that a date costs.
        elapsed = np.round(view.elapsed, 6)
        rho_themis = (elapsed + remaining / share) / np.maximum(allowed, 1e-9)
        nearly_done = remaining < view.round_seconds
        exponent = np.where(nearly_done, LAST_ROUND_EXPONENT, UNFAIRNESS_EXPONENT)
        return fairness_weights(rho_themis, exponent, lowest=1.0, highest=HIGHEST_WEIGHT)

    def _explain(self, view: View, run: Ints, plan: WindowPlan, foretold: Foretold) -> Explanation:
        now, told = view.now, self._teller.corrected(view, run, foretold)
        return Explanation(
            price=float(plan.price[0]),
            bid=first_bids(self._values, view.gpus),
            start_low=now + told.start.low,
            expected_start=now + told.start.middle,
            start_high=now + told.start.high,
            finish_low=now + told.finish.low,
            finish=now + told.finish.middle,
            finish_high=now + told.finish.high,
            fair_finish=view.arrival + self._fair_finish.allowed_seconds(view),
        )


def _foretell(view: View, forecast: Forecast, schedule: Bools, run: Ints) -> Foretold:
    """By the plan, and beyond it by an equal share; errors of the past give starts their spread."""
    planned = expected_starts(schedule, 0.0, view.round_seconds)
    start = np.maximum(planned, view.round_seconds) * waiting(view, run)
    share = min(1.0, view.gpus_total / len(view))
    finish = Intervals(
        *(
            np.maximum(start + seconds, seconds / share)
            for seconds in (
                forecast.quantile(TAIL),
                forecast.remaining_seconds,
                forecast.quantile(1.0 - TAIL),
            )
        )
    )
    return Foretold(Intervals.exactly(start), finish)
