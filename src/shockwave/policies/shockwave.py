"""Shockwave, the default: every round an auction, bids from sampled joint futures.

A job bids what a GPU-round of its own is worth: the shorter its remaining work, the more,
because that brings an end closer; and more still where its fair finish or the end of the whole
workload is at stake. How much those count is decided by looking ahead: several stances are
rolled forward through sampled futures of all jobs, expected arrivals included, and the one
whose futures are best decides this round. docs/planner.md has the equations, and what each
ingredient is worth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from shockwave.model.view import Floats, Ints, View
from shockwave.plan.arrivals import ArrivalHabits, ExpectedArrivals
from shockwave.plan.contention import Crowd, fair_by_crowd, fluid_finishes
from shockwave.plan.explain import Explanation
from shockwave.plan.futures import Futures, gittins_seconds, joint_samples
from shockwave.plan.outcome import Prices, costs
from shockwave.plan.reservation import ReservationRules, reserve
from shockwave.plan.rollout import Outcome, roll
from shockwave.plan.sharing import FairCluster
from shockwave.plan.stance import STANCES, Index, IndexSettings, Singles, Stance, Worth
from shockwave.plan.targets import Workload
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import fill, largest_first
from shockwave.predict.base import Forecast

TOLD = (0.1, 0.5, 0.9)  # quantiles of starts and finishes that people are told


@dataclass(frozen=True)
class Settings:
    """One set for every workload. Limits aim a little below the fairness of 1.05 reported."""

    static_limit: float = 1.0  # of X * jobs / M
    crowd_limit: float = 1.045  # of X * mean active jobs / M
    egalitarian_limit: float = 1.4  # of the completion time in an equally shared cluster
    makespan_slack: float = 0.02  # over the lower bound of the jobs seen so far
    overhead_rounds: float = 0.5  # that a job takes on top of its work: its last, half used
    arrivals_share: float = 0.5  # arrivals go on for this part of the time they have lasted
    expected_jobs: int = 64  # at most so many stand for all that are expected
    samples: int = 6
    first_samples: int = 2  # on which all stances are tried
    finalists: int = 4  # that are tried on the others
    steps: int = 40
    late: float = 0.95
    index: IndexSettings = field(default_factory=IndexSettings)
    prices: Prices = field(default_factory=Prices)
    reservations: ReservationRules = field(default_factory=ReservationRules)
    stances: tuple[Stance, ...] = STANCES


class Shockwave(Policy):
    """Sells each round to the jobs whose sampled futures gain most by it."""

    name: ClassVar[str] = "shockwave"
    predictor: ClassVar[str] = "restatement"

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._workload = Workload()
        self._fair_cluster = FairCluster()
        self._habits = ArrivalHabits(self.settings.arrivals_share)
        self._stance = 0

    def decide(self, view: View, forecast: Forecast) -> Decision:
        futures = self._imagine(view, forecast)
        worth = self._worth(futures)
        if int(view.gpus.sum()) > view.gpus_total:
            self._stance = self._choose(view, futures, worth.total[:, 0, : len(view)])
            earlier = self._reserve_earlier(futures)
            if earlier is not futures:
                futures, worth = earlier, self._worth(earlier)
        stance = self._stance
        bid = worth.total[stance, 0, : len(view)].astype(np.float64)
        run = fill(largest_first(bid), view.gpus, view.gpus_total)
        price = float(np.delete(bid, run).max(initial=0.0))
        return Decision(
            run,
            price=price * view.round_seconds,
            priority=bid,
            explain=lambda: self._explain(view, futures, worth, stance, run),
        )

    def _worth(self, futures: Futures) -> Worth:
        """[stance, 1, job] what the coming round is worth."""
        index = Index(futures, self.settings.stances, self.settings.index)
        return index.at(0.0, np.zeros((1, 1, 1), dtype=np.float32), futures.running[None, None])

    def _reserve_earlier(self, futures: Futures) -> Futures:
        """Lets a wide gang start now instead of when it must, if the samples are better so."""
        waiting = np.flatnonzero(futures.may_start)
        if not len(waiting):
            return futures
        gang = int(waiting[np.argmin(futures.reserved[waiting])])
        sooner = futures.reserving(gang)
        stance = (self.settings.stances[self._stance],)
        now, later = (self._roll(future, stance) for future in (sooner, futures))
        better = costs(futures, now.beside(later), self.settings.prices, self.settings.crowd_limit)
        return sooner if better[0] < better[1] else futures

    def _choose(self, view: View, futures: Futures, bids: Singles) -> int:
        """The stance whose sampled futures cost least.

        All stances are tried on a few samples, the best of them on the others.
        """
        s = self.settings
        choices = {fill(largest_first(bid), view.gpus, view.gpus_total).tobytes() for bid in bids}
        if len(choices) == 1:
            return self._stance
        few = s.first_samples
        total = few * self._costs(futures.only(slice(0, few)), s.stances)
        best = np.argsort(total, kind="stable")[: s.finalists]
        finalists = tuple(s.stances[position] for position in best.tolist())
        rest = futures.only(slice(few, None))
        final = total[best] + rest.samples * self._costs(rest, finalists)
        return int(best[np.argmin(final)])

    def _costs(self, futures: Futures, stances: tuple[Stance, ...]) -> Floats:
        s = self.settings
        return costs(futures, self._roll(futures, stances), s.prices, s.crowd_limit)

    def _roll(self, futures: Futures, stances: tuple[Stance, ...]) -> Outcome:
        return roll(futures, Index(futures, stances, self.settings.index), self.settings.steps)

    def _imagine(self, view: View, forecast: Forecast) -> Futures:
        s, now, gpus_total = self.settings, view.now, view.gpus_total
        mean = np.maximum(forecast.remaining_seconds, 1.0)
        levels = (np.arange(s.samples) + 0.5) / s.samples
        quantiles = np.maximum(np.stack([forecast.quantile(q) for q in levels]), 1e-3)
        late = np.maximum(forecast.quantile(s.late), mean)
        total = view.productive_seconds + mean
        self._workload.update(view, total)
        horizon = self._horizon(view, mean)
        coming = self._habits.expect(
            now,
            self._workload.arrival,
            self._workload.gpus,
            self._workload.total_seconds,
            gpus_total=gpus_total,
            round_seconds=view.round_seconds,
            horizon_seconds=horizon,
        )
        contention = max(1.0, (self._workload.jobs + len(coming)) / gpus_total)
        on_time = self._on_time(view, mean, total, coming, horizon)
        fair_jct = self._fair_cluster.finish_times(view, total) - view.arrival
        stretch = np.minimum(s.static_limit * contention, s.egalitarian_limit * fair_jct / total)
        reserved = reserve(view, mean, fair_jct, s.reservations)
        few = _thinned(coming, s.expected_jobs)
        count = len(few)
        copies = len(coming) / max(count, 1)
        none, never = np.zeros(count), np.full(count, np.inf)
        samples = joint_samples(quantiles, view.handle)
        also = few.total_seconds

        def both(here: Floats, there: Floats) -> Floats:
            return np.concatenate([here, there])

        return Futures(
            remaining=np.concatenate([samples, np.broadcast_to(also, (s.samples, count))], axis=1),
            release=both(np.zeros(len(view)), few.after_seconds),
            elapsed=both(view.elapsed, -few.after_seconds),
            gpus=both(view.gpus.astype(np.float64), few.gpus),
            copies=both(np.ones(len(view)), np.full(count, copies)),
            weight=both(view.weight, np.ones(count)),
            running=np.concatenate([view.running, np.zeros(count, dtype=np.bool_)]),
            mean=both(mean, also),
            early=both(np.minimum(quantiles[0], mean), also),
            late=both(late, also),
            size=both(np.maximum(gittins_seconds(quantiles), 1.0), also),
            worked=both(view.productive_seconds, none),
            restart=np.full(len(view) + count, view.restart_seconds),
            fair_stretch=both(stretch, never),
            fair_jct=both(fair_jct, never),
            claim=both((view.epochs_done < view.epochs).astype(np.float64), np.ones(count)),
            reserved=both(reserved.start, never),
            may_start=np.concatenate([reserved.may_start, np.zeros(count, dtype=np.bool_)]),
            on_time=both(on_time, never),
            active_integral=both(view.active_integral, none),
            rounds_active=both(view.rounds_active.astype(np.float64), none),
            horizon=horizon,
            round_seconds=view.round_seconds,
            gpus_total=gpus_total,
            present=len(view),
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

    # Why.

    def _explain(
        self, view: View, futures: Futures, worth: Worth, stance: int, run: Ints
    ) -> Explanation:
        """The chosen stance rolled forward: when jobs start and finish in the samples."""
        s, unit, here = self.settings, view.round_seconds, len(view)
        outcome = self._roll(futures, s.stances[stance : stance + 1])
        starts = np.ones(here, dtype=np.bool_)
        starts[run] = False
        start = np.maximum(outcome.start[0, :, :here], 1.0) * starts
        finish = np.maximum(outcome.finish[0, :, :here], start)
        start_low, start_mid, start_high = np.quantile(start, TOLD, axis=0)
        low, middle, high = np.quantile(finish, TOLD, axis=0)
        bid, fairness, end = (
            unit * part[stance, 0, :here].astype(np.float64)
            for part in (worth.total, worth.fairness, worth.end)
        )
        return Explanation(
            price=float(np.delete(bid, run).max(initial=0.0)),
            bid=bid,
            bid_fairness=fairness,
            bid_end=end,
            expected_start=view.now + unit * start_mid,
            start_low=view.now + unit * start_low,
            start_high=view.now + unit * start_high,
            finish_low=view.now + unit * low,
            finish=view.now + unit * middle,
            finish_high=view.now + unit * high,
            fair_finish=view.arrival + futures.fair_jct[:here],
        )


def _thinned(coming: ExpectedArrivals, most: int) -> ExpectedArrivals:
    """Every so many-th of the expected jobs, ``most`` at most."""
    every = math.ceil(len(coming) / most) if len(coming) else 1
    chosen = slice(every - 1, None, every)
    return ExpectedArrivals(
        coming.after_seconds[chosen], coming.gpus[chosen], coming.total_seconds[chosen]
    )
