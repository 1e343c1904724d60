"""Shockwave, the default: every round an auction, bids from sampled joint futures.

A job bids what a GPU-round of its own is worth: the shorter its remaining work, the more,
because that brings an end closer; and more still where its fair finish or the end of the whole
workload is at stake. How much those count is decided by looking ahead: several stances are
rolled forward through sampled futures of all jobs, expected arrivals included, and the one
whose futures are best decides this round. docs/planner.md has the equations, and what each
ingredient is worth.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

import numpy as np

from shockwave.model.view import Floats, Ints, View
from shockwave.plan.ahead import roll_rounds
from shockwave.plan.explain import Explanation
from shockwave.plan.futures import Futures
from shockwave.plan.outcome import Prices, costs
from shockwave.plan.outlook import Outlook, OutlookSettings, rough_seconds
from shockwave.plan.reservation import ReservationRules
from shockwave.plan.rollout import OVERHEAD_ROUNDS, Outcome, roll
from shockwave.plan.stance import STANCES, Index, IndexSettings, Singles, Stance, Worth
from shockwave.plan.telling import Foretold, Teller, waiting
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import fill, largest_first
from shockwave.policies.option_market import MarketSettings, OptionMarket
from shockwave.predict.base import Forecast

_Samples = tuple[Floats, Floats]  # [sample, job] starts and finishes, in seconds from now


@dataclass(frozen=True)
class Settings:
    """One set for every workload. Limits aim a little below the fairness of 1.05 reported."""

    outlook: OutlookSettings = field(default_factory=OutlookSettings)
    samples: int = 6  # joint futures, fewer where jobs are so many that each is an average
    most_cells: int = 60_000  # samples x jobs x stances that are rolled forward at once
    first_samples: int = 2  # on which all stances are tried
    finalists: int = 4  # that are tried on the others
    steps: int = 24
    choose_every: int = 2  # decisions at least; the index itself follows every round
    look_every: int = 16  # decisions while there is room for everybody and nothing to choose
    exact_rounds: int = 64  # of what people are told, before steps become longer
    tell_steps: int = 120
    tell_samples: int = 12  # futures that people are told of
    most_exact_cells: int = 8_000  # samples x jobs that are gone through round by round
    stances_kept: int = 200  # rounds like which stances may follow each other
    index: IndexSettings = field(default_factory=IndexSettings)
    prices: Prices = field(default_factory=Prices)
    reservations: ReservationRules = field(default_factory=ReservationRules)
    stances: tuple[Stance, ...] = STANCES
    market: MarketSettings = field(default_factory=MarketSettings)  # where jobs have a choice


class Shockwave(Policy):
    """Sells each round to the jobs whose sampled futures gain most by it."""

    name: ClassVar[str] = "shockwave"
    predictor: ClassVar[str] = "restatement"

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._outlook = Outlook(self.settings.outlook, self.settings.reservations)
        self._market = OptionMarket(self.settings.market)
        self._stance = 0
        self._stances = deque([0], maxlen=self.settings.stances_kept)
        self._teller = Teller()
        self._decisions = 0
        self._chose_at = 0
        self._unsettled: Callable[[], None] | None = None

    def decide(self, view: View, forecast: Forecast) -> Decision:
        self.settle()  # whoever asks may not do it
        if view.options is not None:
            return self._market.decide(view, view.options)
        calm = int(view.gpus.sum()) <= view.gpus_total
        self._decisions += 1
        if calm and self._decisions % self.settings.look_every:
            return self._let_all_run(view, forecast)
        futures = self._outlook.futures(view, forecast, self._samples(view))
        worth = self._worth(futures)
        if not calm and self._is_time_to_choose(view):
            if self._makes_a_difference(view, worth.total[:, 0, : len(view)]):
                self._stance, self._chose_at = self._choose(futures), self._decisions
            earlier = self._reserve_earlier(futures)
            if earlier is not futures:
                futures, worth = earlier, self._worth(earlier)
        stance = self._stance
        self._stances.append(stance)
        bid = worth.total[stance, 0, : len(view)].astype(np.float64)
        run = fill(largest_first(bid), view)
        price = float(np.delete(bid, run).max(initial=0.0))
        foretold = cache(lambda: self._foretell(view, forecast, futures, run))
        if not view.between_rounds:  # then not all that are chosen start
            starting = np.where(view.running, 0.0, futures.restart[: len(view)])
            self._teller.follow(view, run, view.now + starting + futures.mean[: len(view)])
            self._unsettled = lambda: self._teller.remember(
                view, run, lambda: Foretold.of_samples(*foretold())
            )
        return Decision(
            run,
            price=price * view.round_seconds,
            priority=bid,
            explain=lambda: self._explain(view, futures, worth, stance, run, foretold()),
        )

    def settle(self) -> None:
        """What would be told is kept now and then; that is looked ahead for when orders are out."""
        unsettled, self._unsettled = self._unsettled, None
        if unsettled is not None:
            unsettled()

    def _let_all_run(self, view: View, forecast: Forecast) -> Decision:
        """There is room for everybody: nothing to choose, and nothing to foresee."""
        run = np.arange(len(view))
        self._outlook.pass_over(view)
        if not view.between_rounds:
            self._teller.follow(view, run, view.now + rough_seconds(view))

        def explain() -> Explanation:
            futures = deepcopy(self._outlook).futures(view, forecast, self._samples(view))
            worth, stance = self._worth(futures), self._stance
            foretold = self._foretell(view, forecast, futures, run)
            return self._explain(view, futures, worth, stance, run, foretold)

        return Decision(run, stable=True, price=0.0, explain=explain)

    def _is_time_to_choose(self, view: View) -> bool:
        return view.changed and self._decisions - self._chose_at >= self.settings.choose_every

    def _makes_a_difference(self, view: View, bids: Singles) -> bool:
        """Whether ``bids[stance, job]`` differ in who runs now."""
        return len({np.sort(fill(largest_first(bid), view)).tobytes() for bid in bids}) > 1

    def _samples(self, view: View) -> int:
        """Work is counted, not seconds: the same view always gets the same samples."""
        s = self.settings
        return min(s.samples, max(s.most_cells // (s.finalists * len(view)), 2))

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
        better = costs(
            futures, now.beside(later), self.settings.prices, self.settings.outlook.crowd_limit
        )
        return sooner if better[0] < better[1] else futures

    def _choose(self, futures: Futures) -> int:
        """The stance whose sampled futures cost least.

        All stances are tried on a few samples, the best of them on the others.
        """
        s = self.settings
        few = max(min(s.first_samples, futures.samples - 1), 1)
        first = futures.only(slice(0, few))
        total = few * self._costs(first, self._roll(first, s.stances))
        best = np.argsort(total, kind="stable")[: s.finalists]
        finalists = tuple(s.stances[position] for position in best.tolist())
        rest = futures.only(slice(few, None))
        final = total[best] + rest.samples * self._costs(rest, self._roll(rest, finalists))
        return int(best[np.argmin(final)])

    def _costs(self, futures: Futures, outcome: Outcome) -> Floats:
        return costs(futures, outcome, self.settings.prices, self.settings.outlook.crowd_limit)

    def _roll(self, futures: Futures, stances: tuple[Stance, ...]) -> Outcome:
        return roll(futures, Index(futures, stances, self.settings.index), self.settings.steps)

    # What people are told.

    def _foretell(self, view: View, forecast: Forecast, futures: Futures, run: Ints) -> _Samples:
        """[sample, job] starts and finishes, in seconds from now.

        In every sample others come, and stances follow each other as in some stretch of the
        latest rounds: nobody knows either.
        """
        here, s = len(view), self.settings
        if s.tell_samples * futures.jobs <= s.most_exact_cells:
            varied = self._outlook.varied(view, forecast, futures, s.tell_samples)
            used, latest = np.unique(self._stances, return_inverse=True)
            rounds = np.arange(len(latest))
            begins = len(latest) * np.arange(varied.samples) // varied.samples
            stances = latest[(begins[:, None] + rounds) % len(latest)]
            stances[:, 0] = latest[-1]
            index = Index(varied, tuple(s.stances[stance] for stance in used), s.index)
            outcome = roll_rounds(varied, index, s.exact_rounds, s.tell_steps, stances)
            start, finish = outcome.start[0, :, :here], outcome.finish[0, :, :here]
        else:  # gangs are small beside so many: the cluster is as good as fluid
            outcome = self._roll(futures, s.stances[self._stance : self._stance + 1])
            # The rest of its last round is lost to the others, not to the job.
            start, finish = (
                outcome.start[0, :, :here],
                outcome.finish[0, :, :here] - OVERHEAD_ROUNDS,
            )
        # Whoever is not chosen now starts with the next round at the earliest.
        start = np.maximum(start, 1.0) * waiting(view, run)
        unit = view.round_seconds
        return unit * start.astype(np.float64), unit * np.maximum(finish, start).astype(np.float64)

    def _explain(
        self,
        view: View,
        futures: Futures,
        worth: Worth,
        stance: int,
        run: Ints,
        foretold: _Samples,
    ) -> Explanation:
        """The numbers behind the decision, times corrected by how earlier ones came out."""
        now, unit, here = view.now, view.round_seconds, len(view)
        told = self._teller.corrected(view, run, Foretold.of_samples(*foretold))
        bid, fairness, end = (
            unit * part[stance, 0, :here].astype(np.float64)
            for part in (worth.total, worth.fairness, worth.end)
        )
        return Explanation(
            price=float(np.delete(bid, run).max(initial=0.0)),
            bid=bid,
            bid_fairness=fairness,
            bid_end=end,
            start_low=now + told.start.low,
            expected_start=now + told.start.middle,
            start_high=now + told.start.high,
            finish_low=now + told.finish.low,
            finish=now + told.finish.middle,
            finish_high=now + told.finish.high,
            fair_finish=view.arrival + futures.fair_jct[:here],
            starts=now + foretold[0],
            finishes=now + foretold[1],
        )
