"""Shockwave, the default: every round an auction, bids from predicted futures.

A job bids what a GPU-round of its is worth: its budget over its remaining GPU-work, the
marginal welfare of bringing its end closer. Two things raise a bid by more than any
difference in length: a job that is about to miss its fair finish, and a job that is about
to delay the end of all. The round's GPUs go to the highest bids, and the price is the bid
at which they are sold out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shockwave.model.view import Bools, Floats, View
from shockwave.plan.arrivals import ArrivalHabits, ExpectedArrivals
from shockwave.plan.contention import Crowd, fair_by_crowd, fluid_finishes
from shockwave.plan.sharing import FairCluster
from shockwave.plan.targets import Workload
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import fill
from shockwave.predict.base import Forecast


@dataclass(frozen=True)
class Settings:
    """One set for every workload. Lengths are in rounds, deadlines relative to fair."""

    makespan_slack: float = 0.02  # over the lower bound of the jobs seen so far
    margin_seconds: float = 60.0
    overhead_seconds: float = 60.0  # of a job on top of its work: restarts, the last round
    static_limit: float = 1.03
    crowd_limit: float = 1.04
    egalitarian_limit: float = 1.40
    forced_rounds: float = 2.0  # slack below which a job must run
    urgent_rounds: float = 10.0  # slack below which a job that can be on time comes first
    keep_rounds: float = 2.0  # slack by which a running job is preferred to a waiting one
    critical_caution: float = 1.0  # remaining time for the makespan: mean .. high quantile
    deadline_caution: float = 0.5
    static_caution: float = 0.5
    quantiles: tuple[float, float] = (0.05, 0.95)


class Shockwave(Policy):
    """Sells each round to the jobs whose predicted future needs it most."""

    name: ClassVar[str] = "shockwave"
    predictor: ClassVar[str] = "restatement"

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._workload = Workload()
        self._fair_cluster = FairCluster()
        self._habits = ArrivalHabits()

    def decide(self, view: View, forecast: Forecast) -> Decision:
        s = self.settings
        now, gpus = view.now, view.gpus.astype(np.float64)
        R = forecast.remaining_seconds
        low, high = (forecast.quantile(q) for q in s.quantiles)
        low, high = np.minimum(low, R), np.maximum(high, R)
        X = view.productive_seconds + R
        self._workload.update(view, X)
        ends_in = self._ends_in(view, R)
        coming = self._habits.expect(
            now, self._workload.arrival, self._workload.gpus, self._workload.total_seconds,
            gpus_total=view.gpus_total, round_seconds=view.round_seconds, horizon_seconds=ends_in,
        )
        critical = R + s.critical_caution * (high - R)
        careful = R + s.deadline_caution * (high - R)
        static = self._static_finish(view, X - s.static_caution * (R - low), coming) - now
        egal = self._fair_cluster.finish_times(view, X)
        egal = view.arrival + s.egalitarian_limit * (egal - view.arrival) - now
        slack = np.minimum(np.minimum(static, egal) - careful, ends_in - critical)
        forced = slack < s.forced_rounds * view.round_seconds
        crowd_deadline = self._crowd_finish(view, R, X, coming, ends_in)
        laxity = crowd_deadline - R - np.where(view.running, 0.0, view.restart_seconds)
        reachable = (crowd_deadline >= R + s.margin_seconds) | (crowd_deadline >= np.minimum(np.minimum(static, egal), ends_in))
        urgent = ~forced & reachable & (laxity < s.urgent_rounds * view.round_seconds)
        work = gpus * np.maximum(R, 1.0)
        tier = np.where(forced, 0, np.where(urgent, 1, 2))
        key = np.where(forced, slack - s.keep_rounds * view.round_seconds * view.running, work)
        order = np.lexsort((view.handle, key, tier))
        return Decision(fill(order, view.gpus, view.gpus_total))

    def _ends_in(self, view: View, remaining: Floats) -> float:
        s = self.settings
        bound = self._workload.makespan_bound(view.gpus_total) * (1 + s.makespan_slack) - view.now
        work = float((view.gpus * (remaining + s.overhead_seconds)).sum()) / view.gpus_total
        return max(bound, work + s.margin_seconds)

    def _static_finish(self, view: View, total: Floats, coming: ExpectedArrivals) -> Floats:
        jobs = len(self._workload.handle) + len(coming)
        contention = max(1.0, jobs / view.gpus_total)
        return view.arrival + self.settings.static_limit * total * contention

    def _crowd_finish(self, view: View, R: Floats, X: Floats, coming: ExpectedArrivals, ends_in: float) -> Floats:
        s = self.settings
        crowd = Crowd.of(view.elapsed, view.gpus.astype(np.float64), R, X, view.active_integral, view.rounds_active.astype(np.float64), coming)
        work = float((crowd.gpus * (crowd.remaining + s.overhead_seconds)).sum()) / view.gpus_total
        finish = fluid_finishes(crowd, s.overhead_seconds, view.gpus_total)
        return fair_by_crowd(crowd, finish, slack=s.crowd_limit, gpus_total=view.gpus_total, round_seconds=view.round_seconds, horizon_seconds=max(work, ends_in))[: len(view)]
