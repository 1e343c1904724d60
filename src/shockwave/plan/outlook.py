"""What to expect: the joint futures of the jobs that are there and of those that will come.

Holds what has to be remembered from round to round: the jobs of the present busy period, and a
fair cluster that runs alongside the real one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from shockwave.model.view import Bools, Floats, View
from shockwave.plan.arrivals import ArrivalHabits, ExpectedArrivals, SampledArrivals
from shockwave.plan.contention import Crowd, fair_by_crowd, fluid_finishes
from shockwave.plan.futures import Futures, gittins_seconds, joint_samples
from shockwave.plan.newcomers import Newcomers
from shockwave.plan.reservation import ReservationRules, reserve
from shockwave.plan.restarts import start_seconds, stop_seconds
from shockwave.plan.sharing import FairCluster
from shockwave.plan.targets import Workload
from shockwave.predict.base import Forecast
from shockwave.predict.claims import broken

_MOST_PLACES = 40  # of a sample for those who come in it: the first ones are there by themselves
_LEAST_LEFT = 0.1  # of the GPUs, by a stream that takes all of them


@dataclass(frozen=True)
class OutlookSettings:
    """Limits aim a little below the fairness of 1.05 that is reported."""

    static_limit: float = 1.0  # of X * jobs / M
    crowd_limit: float = 1.045  # of X * mean active jobs / M
    egalitarian_limit: float = 1.4  # of the completion time in an equally shared cluster
    overhead_rounds: float = 0.5  # that a job takes on top of its work: its last, half used
    arrivals_share: float = 0.5  # arrivals go on for this part of the time they have lasted
    expected_jobs: int = 64  # at most so many stand for all that are expected
    late: float = 0.95  # quantile of the remaining time that counts as the late case


class Outlook:
    """Makes futures, one round after the other."""

    def __init__(self, settings: OutlookSettings, rules: ReservationRules) -> None:
        self.settings = settings
        self._rules = rules
        self._workload = Workload()
        self._fair_cluster = FairCluster()
        self._habits = ArrivalHabits(settings.arrivals_share)
        self._had_room: float | None = None  # when there last was room for everybody

    def pass_over(self, view: View) -> None:
        """A round in which nothing has to be foreseen: only who came is remembered."""
        self._workload.admit(view, view.productive_seconds + rough_seconds(view))
        self._had_room = view.now

    def futures(self, view: View, forecast: Forecast, samples: int) -> Futures:
        """``samples`` joint futures from now on."""
        s, now, gpus_total = self.settings, view.now, view.gpus_total
        mean = np.maximum(forecast.remaining_seconds, 1.0)
        quantiles = _quantiles(forecast, samples)
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
        reserved = reserve(view, mean, fair_jct, self._usual(view), self._rules)
        # A wide gang is promised a start instead: everybody else would pay for its deadline.
        static = np.where(reserved.wide, np.inf, s.static_limit * contention)
        stretch = np.minimum(static, s.egalitarian_limit * fair_jct / total)
        few = _thinned(coming, s.expected_jobs)
        count = len(few)
        copies = len(coming) / max(count, 1)
        none, never = np.zeros(count), np.full(count, np.inf)
        drawn = joint_samples(quantiles, view.handle)
        also = few.total_seconds

        def both(here: Floats, there: Floats) -> Floats:
            return np.concatenate([here, there])

        return Futures(
            remaining=np.concatenate([drawn, np.broadcast_to(also, (samples, count))], axis=1),
            release=both(np.zeros(len(view)), few.after_seconds),
            elapsed=both(view.elapsed, -few.after_seconds),
            gpus=both(view.gpus.astype(np.float64), few.gpus),
            copies=both(np.ones(len(view)), np.full(count, copies)),
            weight=both(view.weight / view.weight.mean(), np.ones(count)),
            running=np.concatenate([view.running, np.zeros(count, dtype=np.bool_)]),
            mean=both(mean, also),
            early=both(np.minimum(quantiles[0], mean), also),
            late=both(late, also),
            size=both(np.maximum(gittins_seconds(quantiles), 1.0), also),
            worked=both(view.productive_seconds, none),
            restart=both(start_seconds(view), np.full(count, view.restart_seconds)),
            stop=both(stop_seconds(view), np.full(count, view.restart_seconds)),
            stays=np.concatenate([view.must_stay, np.zeros(count, dtype=np.bool_)]),
            fair_stretch=both(stretch, never),
            fair_jct=both(fair_jct, never),
            claim=both((~broken(view)).astype(np.float64), np.ones(count)),
            reserved=both(reserved.start, never),
            may_start=np.concatenate([reserved.may_start, np.zeros(count, dtype=np.bool_)]),
            on_time=both(on_time, never),
            active_integral=both(view.active_integral, none),
            rounds_active=both(view.rounds_active.astype(np.float64), none),
            horizon=horizon,
            since=self._crowded_for(view),
            round_seconds=view.round_seconds,
            gpus_total=gpus_total,
            present=len(view),
        )

    def varied(self, view: View, forecast: Forecast, futures: Futures, samples: int) -> Futures:
        """The same jobs in other samples, in each of which others come."""
        here = futures.present
        come = self._habits.sample(
            samples,
            view.now,
            self._workload.arrival,
            self._workload.gpus,
            self._workload.total_seconds,
            gpus_total=view.gpus_total,
            most=_MOST_PLACES,
        )
        drawn = joint_samples(_quantiles(forecast, samples), view.handle)
        also = np.maximum(come.total_seconds, 1.0)
        count = also.shape[1]
        never = np.full((samples, count), np.inf)

        def each(here_: Floats, there: Floats) -> Floats:
            alike = np.broadcast_to(here_[..., :here], (samples, here))
            return np.concatenate([alike, there], axis=1)

        def all_alike(here_: np.ndarray, there: float) -> np.ndarray:
            return np.concatenate([here_[:here], np.full(count, there, dtype=here_.dtype)])

        # Who stands for more than fit at once is there for longer.
        turns = np.maximum(come.copies * come.gpus / view.gpus_total, 1.0)
        f, comes = futures, np.isfinite(come.after_seconds)
        runtime = view.productive_seconds + f.mean[:here]
        fair_jct = f.fair_jct[:here] + self._fair_cluster.delays(
            view, come.after_seconds, come.total_seconds, come.gpus, come.copies
        )
        beside = np.maximum(f.fair_jct[:here], self._jct_beside_a_stream(view, f.mean[:here]))
        later = reserve(view, f.mean[:here], beside, self._usual(view), self._rules)
        reserved = f.reserved[:here]
        if comes.any():  # the fair wait, which reservations follow, grows while others come
            reserved = np.where(reserved > 0.0, np.maximum(reserved, later.start), 0.0)
        return replace(
            f,
            newcomers=self._newcomers(view, f, come, later.wide),
            remaining=np.concatenate([drawn, come.total_seconds * turns], axis=1),
            release=each(f.release, come.after_seconds),
            elapsed=each(f.elapsed, np.where(comes, -come.after_seconds, 0.0)),
            gpus=each(f.gpus, come.gpus),
            copies=each(f.copies, come.copies),
            mean=each(f.mean, also),
            early=each(f.early, also),
            late=each(f.late, also),
            size=each(f.size, also),
            weight=all_alike(f.weight, 1.0),
            running=all_alike(f.running, False),
            worked=all_alike(f.worked, 0.0),
            restart=all_alike(f.restart, view.restart_seconds),
            stop=all_alike(f.stop, view.restart_seconds),
            stays=all_alike(f.stays, False),
            fair_stretch=each(self.settings.egalitarian_limit * fair_jct / runtime, never),
            fair_jct=each(fair_jct, never),
            claim=all_alike(f.claim, 1.0),
            reserved=all_alike(reserved, np.inf),
            may_start=all_alike(f.may_start, False),
            on_time=all_alike(f.on_time, np.inf),
            active_integral=all_alike(f.active_integral, 0.0),
            rounds_active=all_alike(f.rounds_active, 0.0),
        )

    def _crowded_for(self, view: View) -> float:
        """For how long there has been no room for everybody.

        Not since the cluster was empty: some never are, and a year of calm is no busy period.
        """
        if self._had_room is None or int(view.gpus.sum()) <= view.gpus_total:
            self._had_room = view.now
        return view.now - self._had_room

    def _newcomers(self, view: View, f: Futures, come: SampledArrivals, wide: Bools) -> Newcomers:
        expected = f.copies[f.present :].sum()
        promised = np.where(wide, np.inf, self.settings.static_limit)
        return Newcomers(
            after=come.after_seconds,
            jobs=come.copies,
            work=come.copies * come.gpus * come.total_seconds / view.gpus_total,
            seen=self._workload.jobs,
            expected=float(expected) / self._workload.jobs,
            gpus_total=view.gpus_total,
            fair_stretch=np.concatenate([promised, np.full(come.gpus.shape[1], np.inf)]),
        )

    def _horizon(self, view: View, remaining: Floats) -> float:
        """When all should have ended: what the lower bound allows or the work left needs.

        Never the longest job: whenever that one slips, it would relax the end for all.
        """
        bound = self._workload.makespan_bound(view.gpus_total)
        work = view.gpus * (remaining + self._overhead(view))
        return max(bound - view.now, float(work.sum()) / view.gpus_total)

    def _jct_beside_a_stream(self, view: View, remaining: Floats) -> Floats:
        """[job] completion time on the GPUs that the others leave, if these go on as they came."""
        jobs = self._workload
        lasted = max(view.now - float(jobs.arrival.min()), view.round_seconds)
        total = view.productive_seconds + remaining
        others = float(jobs.gpus @ jobs.total_seconds) - view.gpus * total
        left = np.maximum(view.gpus_total - others / lasted, _LEAST_LEFT * view.gpus_total)
        return np.asarray(total * np.maximum(view.gpus / left, 1.0))

    def _usual(self, view: View) -> float:
        """Seconds that a job of the busy period takes, by the median."""
        return max(float(np.median(self._workload.total_seconds)), view.round_seconds)

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


def _quantiles(forecast: Forecast, samples: int) -> Floats:
    """[level, job] of the remaining time, at the middles of as many equal parts."""
    levels = (np.arange(samples) + 0.5) / samples
    return np.maximum(np.stack([forecast.quantile(q) for q in levels]), 1e-3)


def rough_seconds(view: View) -> Floats:
    """[job] what is left if the present speed lasts; where that is unknown, a round."""
    now = view.epoch_seconds[np.arange(len(view)), view.configuration]
    return np.where(now > 0, view.epochs_left * now, view.round_seconds)


def _thinned(coming: ExpectedArrivals, most: int) -> ExpectedArrivals:
    """Every so many-th of the expected jobs, ``most`` at most."""
    every = math.ceil(len(coming) / most) if len(coming) else 1
    chosen = slice(every - 1, None, every)
    return ExpectedArrivals(
        coming.after_seconds[chosen], coming.gpus[chosen], coming.total_seconds[chosen]
    )
