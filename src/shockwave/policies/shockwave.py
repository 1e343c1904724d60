"""Shockwave, the default: every round an auction, bids from predicted futures.

A job bids what a GPU-round of its own is worth: the shorter its remaining work, the more,
because that brings an end closer. Three needs raise a bid above all such differences: a job
must run because it is about to delay the end of the whole workload or to miss its fair
finish; it is urgent because it can still be on time but not for long; or its deadline
collides with others' and it has to start early. docs/planner.md has the equations, and what
each ingredient is worth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shockwave.model.view import Floats, Ints, View
from shockwave.plan.arrivals import ArrivalHabits, ExpectedArrivals
from shockwave.plan.bids import WORDS, Need, auction_gap, bids, price_of_round
from shockwave.plan.booking import overbooked
from shockwave.plan.contention import Crowd, fair_by_crowd, fluid_finishes
from shockwave.plan.explain import Explanation
from shockwave.plan.rundown import expected_waits
from shockwave.plan.sharing import FairCluster
from shockwave.plan.targets import Workload
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import fill, largest_first
from shockwave.predict.base import Forecast


@dataclass(frozen=True)
class Settings:
    """One set for every workload. Limits aim a little below the fairness of 1.05 reported."""

    static_limit: float = 1.0  # of arrival + X * jobs / M
    crowd_limit: float = 1.045  # of X * mean active jobs / M
    egalitarian_limit: float = 1.4  # of the finish in an equally shared cluster
    makespan_slack: float = 0.02  # over the lower bound of the jobs seen so far
    overhead_rounds: float = 0.5  # that a job takes on top of its work: its last, half used
    must_run_rounds: float = 2.0  # slack below which a job must run
    urgent_rounds: float = 12.0  # slack below which a job that can be on time is urgent
    urgent_share: float = 0.4  # longer jobs than this share of the horizon are not
    booked_share: float = 0.6  # of the horizon is watched for colliding deadlines
    keep_rounds: float = 2.0  # slack by which a running job goes before a waiting one
    keep_share: float = 0.5  # ... and the part of its remaining work that it is held to have
    arrivals_share: float = 0.5  # arrivals go on for this part of the time they have lasted
    gang_exponent: float = 0.5  # 0: shortest time first, 1: least GPU-work first
    quantiles: tuple[float, float] = (0.05, 0.95)  # of the remaining time: best and worst case
    makespan_caution: float = 1.0  # where between mean and worst case: for the common end
    deadline_caution: float = 0.5  # ... for fair deadlines
    share_caution: float = 0.5  # ... between mean and best case: for the fair share itself


@dataclass(frozen=True)
class Outlook:
    """What is predicted of every job, and what it is held against. Seconds from now."""

    remaining: Floats
    best: Floats
    worst: Floats
    total: Floats  # exclusive runtime X
    horizon: float  # when all jobs should have ended
    fair_finish: Floats  # in an equally shared cluster
    deadline: Floats  # the strictest of the hard ones, the horizon included
    on_time: Floats  # latest finish that is fair given how crowded the cluster is


class Shockwave(Policy):
    """Sells each round to the jobs whose predicted future needs it most."""

    name: ClassVar[str] = "shockwave"
    predictor: ClassVar[str] = "restatement"

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._workload = Workload()
        self._fair_cluster = FairCluster()
        self._habits = ArrivalHabits(self.settings.arrivals_share)

    def decide(self, view: View, forecast: Forecast) -> Decision:
        outlook = self._look_ahead(view, forecast)
        slack = self._slack(outlook)
        need = self._needs(view, outlook, slack)
        bid = bids(need, self._worth(view, outlook, slack, need))
        run = fill(largest_first(bid), view.gpus, view.gpus_total)
        sold = np.zeros(len(view), dtype=np.bool_)
        sold[run] = True
        price = price_of_round(bid, sold)
        return Decision(
            run,
            welfare=float((bid * view.gpus)[sold].sum()),
            gap=auction_gap(bid, view.gpus, sold, view.gpus_total),
            price=price,
            priority=bid,
            explain=lambda: self._explain(view, outlook, slack, need, bid, price),
        )

    # What to expect.

    def _look_ahead(self, view: View, forecast: Forecast) -> Outlook:
        s, now = self.settings, view.now
        remaining = forecast.remaining_seconds
        best, worst = (forecast.quantile(q) for q in s.quantiles)
        best, worst = np.minimum(best, remaining), np.maximum(worst, remaining)
        total = view.productive_seconds + remaining
        self._workload.update(view, total)
        horizon = self._horizon(view, remaining)
        coming = self._habits.expect(
            now,
            self._workload.arrival,
            self._workload.gpus,
            self._workload.total_seconds,
            gpus_total=view.gpus_total,
            round_seconds=view.round_seconds,
            horizon_seconds=horizon,
        )
        fair = self._fair_cluster.finish_times(view, total)
        share = total - s.share_caution * (remaining - best)
        static = self._static_finish(view, share, coming)
        egalitarian = view.arrival + s.egalitarian_limit * (fair - view.arrival)
        return Outlook(
            remaining=remaining,
            best=best,
            worst=worst,
            total=total,
            horizon=horizon,
            fair_finish=fair - now,
            deadline=np.minimum(np.minimum(static, egalitarian) - now, horizon),
            on_time=self._on_time(view, remaining, total, coming, horizon),
        )

    def _horizon(self, view: View, remaining: Floats) -> float:
        """When all should have ended: what the lower bound allows or the work left needs.

        Never the longest job: whenever that one slips, it would relax the end for all. The
        bound's slack counts from the oldest job that is there: clocks have no zero.
        """
        oldest = float(view.arrival.min())
        bound = self._workload.makespan_bound(view.gpus_total)
        bound += self.settings.makespan_slack * (bound - oldest)
        work = view.gpus * (remaining + self._overhead(view))
        return max(bound - view.now, float(work.sum()) / view.gpus_total)

    def _overhead(self, view: View) -> float:
        return self.settings.overhead_rounds * view.round_seconds

    def _static_finish(self, view: View, total: Floats, coming: ExpectedArrivals) -> Floats:
        jobs = self._workload.jobs + len(coming)
        contention = max(1.0, jobs / view.gpus_total)
        return view.arrival + self.settings.static_limit * total * contention

    def _on_time(
        self,
        view: View,
        remaining: Floats,
        total: Floats,
        coming: ExpectedArrivals,
        horizon: float,
    ) -> Floats:
        overhead = self._overhead(view)
        crowd = Crowd.of(
            view.elapsed,
            view.gpus.astype(np.float64),
            remaining,
            total,
            view.active_integral,
            view.rounds_active.astype(np.float64),
            coming,
        )
        work = float((crowd.gpus * (crowd.remaining + overhead)).sum())
        latest = fair_by_crowd(
            crowd,
            fluid_finishes(crowd, overhead, view.gpus_total),
            slack=self.settings.crowd_limit,
            gpus_total=view.gpus_total,
            round_seconds=view.round_seconds,
            horizon_seconds=max(work / view.gpus_total, horizon),
        )
        return latest[: len(view)]

    # What to bid.

    def _slack(self, outlook: Outlook) -> Floats:
        """Seconds that a job can wait before it misses a hard deadline, being careful."""
        s, spread = self.settings, outlook.worst - outlook.remaining
        fair = outlook.deadline - outlook.remaining - s.deadline_caution * spread
        common = outlook.horizon - outlook.remaining - s.makespan_caution * spread
        return np.minimum(fair, common)

    def _needs(self, view: View, outlook: Outlook, slack: Floats) -> Ints:
        s, round_seconds = self.settings, view.round_seconds
        restart = np.where(view.running, 0.0, view.restart_seconds)
        laxity = outlook.on_time - outlook.remaining - restart
        urgent = (
            (outlook.on_time >= outlook.remaining)
            & (outlook.remaining < s.urgent_share * outlook.horizon)
            & (laxity < s.urgent_rounds * round_seconds)
        )
        spread = outlook.worst - outlook.remaining
        booked = overbooked(
            view.gpus.astype(np.float64),
            outlook.remaining + s.makespan_caution * spread,
            outlook.deadline,
            gpus_total=view.gpus_total,
            horizon_seconds=s.booked_share * outlook.horizon,
        )
        must_run = slack < s.must_run_rounds * round_seconds
        needs = [int(Need.MUST_RUN), int(Need.URGENT), int(Need.BOOKED)]
        return np.select([must_run, urgent, booked], needs, default=int(Need.PROGRESS))

    def _worth(self, view: View, outlook: Outlook, slack: Floats, need: Ints) -> Floats:
        """What the round is worth within the class of need; only the order matters.

        Short work first, as that ends most jobs soonest; for must-run jobs the least slack;
        for booked ones the earliest deadline. In units of 30 rounds, so that bids are readable.
        """
        s, unit = self.settings, 30.0 * view.round_seconds
        kept = np.where(view.running, 1.0 - s.keep_share, 1.0)
        work = np.maximum(outlook.remaining, 1.0) * kept
        exponent = np.where(need == Need.URGENT, 1.0, s.gang_exponent)
        progress = view.weight * unit / (work * view.gpus**exponent)
        held = slack - s.keep_rounds * view.round_seconds * view.running
        pressing = np.exp(-np.clip(held / unit, -50.0, 50.0))
        early = unit / np.maximum(outlook.deadline * kept, 1.0)
        return np.select(
            [need == Need.MUST_RUN, need == Need.BOOKED], [pressing, early], default=progress
        )

    # Why.

    def _explain(
        self, view: View, outlook: Outlook, slack: Floats, need: Ints, bid: Floats, price: float
    ) -> Explanation:
        """The queue run down in the order of bids, but nobody waits until it is too late."""
        order = largest_first(bid)
        run = fill(order, view.gpus, view.gpus_total)
        order = np.concatenate([run, order[~np.isin(order, run)]])
        wait = expected_waits(order, view.gpus, outlook.remaining, view.gpus_total)
        at_latest = slack - self.settings.must_run_rounds * view.round_seconds
        wait = np.maximum(np.minimum(wait, at_latest), view.round_seconds)
        wait[run] = 0.0
        start = view.now + wait
        return Explanation(
            price=price,
            bid=bid,
            expected_start=start,
            finish_low=start + outlook.best,
            finish=start + outlook.remaining,
            finish_high=start + outlook.worst,
            fair_finish=view.now + outlook.fair_finish,
            note=tuple(WORDS[Need(level)] for level in need.tolist()),
        )
