"""Shockwave, the default: every round an auction, bids from sampled joint futures.

A job bids what a GPU-round of its own is worth: the shorter its remaining work, the more,
because that brings an end closer; and more still where its fair finish or the end of the whole
workload is at stake. How much those count is decided by looking ahead: several stances are
rolled forward through sampled futures of all jobs, expected arrivals included, and the one
whose futures are best decides this round. docs/planner.md has the equations, and what each
ingredient is worth.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from shockwave.model.view import Bools, Floats, Ints, View
from shockwave.plan.explain import Explanation
from shockwave.plan.futures import Futures
from shockwave.plan.outcome import Prices, costs
from shockwave.plan.outlook import Outlook, OutlookSettings, rough_seconds
from shockwave.plan.promises import TAIL, Intervals, Promises, Told
from shockwave.plan.reservation import ReservationRules
from shockwave.plan.rollout import OVERHEAD_ROUNDS, Outcome, roll
from shockwave.plan.stance import STANCES, Index, IndexSettings, Singles, Stance, Worth
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import fill, largest_first
from shockwave.policies.option_market import MarketSettings, OptionMarket
from shockwave.predict.base import Forecast


@dataclass(frozen=True)
class Settings:
    """One set for every workload. Limits aim a little below the fairness of 1.05 reported."""

    outlook: OutlookSettings = field(default_factory=OutlookSettings)
    samples: int = 6  # joint futures, fewer where jobs are so many that each is an average
    most_cells: int = 60_000  # samples x jobs x stances that are rolled forward at once
    first_samples: int = 2  # on which all stances are tried
    finalists: int = 4  # that are tried on the others
    steps: int = 48
    choose_every: int = 2  # decisions; the index itself follows every round
    look_every: int = 16  # decisions while there is room for everybody and nothing to choose
    tell_every: int = 8  # decisions; so often what would be told is checked against the truth
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
        self._promises = Promises()
        self._decisions = 0
        self._rounds = 0
        self._present = np.empty(0, dtype=np.int64)  # handles at the last round
        self._ends = np.empty(0)  # of these, when each would end if it ran from there on
        self._chosen = self._present  # of these, those that ran

    def decide(self, view: View, forecast: Forecast) -> Decision:
        if view.options is not None:
            return self._market.decide(view, view.options)
        calm = int(view.gpus.sum()) <= view.gpus_total
        self._decisions += 1
        if calm and self._decisions % self.settings.look_every:
            return self._let_all_run(view, forecast)
        futures = self._outlook.futures(view, forecast, self._samples(view))
        worth = self._worth(futures)
        if not calm and self._is_time_to_choose(view):
            self._stance = self._choose(view, futures, worth.total[:, 0, : len(view)])
            earlier = self._reserve_earlier(futures)
            if earlier is not futures:
                futures, worth = earlier, self._worth(earlier)
        stance = self._stance
        bid = worth.total[stance, 0, : len(view)].astype(np.float64)
        run = fill(largest_first(bid), view)
        price = float(np.delete(bid, run).max(initial=0.0))
        if not view.between_rounds:  # then not all that are chosen start
            starting = np.where(view.running, 0.0, futures.restart[: len(view)])
            self._check_promises(view, run, view.now + starting + futures.mean[: len(view)])
            self._promise(view, futures, run)
        return Decision(
            run,
            price=price * view.round_seconds,
            priority=bid,
            explain=lambda: self._explain(view, futures, worth, stance, run),
        )

    def _let_all_run(self, view: View, forecast: Forecast) -> Decision:
        """There is room for everybody: nothing to choose, and nothing to foresee."""
        run = np.arange(len(view))
        self._outlook.pass_over(view)
        if not view.between_rounds:
            self._check_promises(view, run, view.now + rough_seconds(view))

        def explain() -> Explanation:
            futures = deepcopy(self._outlook).futures(view, forecast, self._samples(view))
            return self._explain(view, futures, self._worth(futures), self._stance, run)

        return Decision(run, stable=True, price=0.0, explain=explain)

    def _is_time_to_choose(self, view: View) -> bool:
        return view.changed and self._decisions % self.settings.choose_every == 0

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

    def _choose(self, view: View, futures: Futures, bids: Singles) -> int:
        """The stance whose sampled futures cost least.

        All stances are tried on a few samples, the best of them on the others.
        """
        s = self.settings
        choices = {fill(largest_first(bid), view).tobytes() for bid in bids}
        if len(choices) == 1:
            return self._stance
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

    def _foretell(
        self, view: View, futures: Futures, stance: int, run: Ints
    ) -> tuple[Floats, Floats]:
        """[sample, job] starts and finishes if the stance is kept, in rounds from now."""
        here = len(view)
        outcome = self._roll(futures, self.settings.stances[stance : stance + 1])
        waits = _waits(view, run)
        # Whoever is not chosen now starts with the next round at the earliest.
        start = np.maximum(outcome.start[0, :, :here], 1.0) * waits
        # The rest of its last round is lost to the others, not to the job.
        return start, np.maximum(outcome.finish[0, :, :here] - OVERHEAD_ROUNDS, start)

    def _check_promises(self, view: View, run: Ints, ends: Floats) -> None:
        """Compare what was foretold with what happened; ``ends`` is to be expected from now on."""
        promises, unit = self._promises, view.round_seconds
        gone = ~np.isin(self._present, view.handle, assume_unique=True)
        # Nobody tells a policy when within the round: as was to be expected, as far as it can be.
        ended = np.clip(self._ends[gone], view.now - unit, view.now)
        promises.finished(self._present[gone], ended, unit)
        between = np.setdiff1d(view.handle[view.running], self._chosen, assume_unique=True)
        promises.started(between, np.full(len(between), view.now - 0.5 * unit), unit)
        new = view.handle[run][~view.running[run]]
        promises.started(new, np.full(len(new), view.now), unit)
        self._present, self._chosen, self._ends = view.handle, view.handle[run], ends

    def _promise(self, view: View, futures: Futures, run: Ints) -> None:
        """Foretell anew now and then, to be compared with what happens."""
        promises, unit = self._promises, view.round_seconds
        self._rounds += 1
        if self._rounds % self.settings.tell_every == 0:
            start, finish = (
                _intervals(when, unit) for when in self._foretell(view, futures, self._stance, run)
            )
            waits = _waits(view, run)
            promises.remember(Told.START, view.handle[waits], view.now, start.of(waits))
            promises.remember(Told.FINISH_WAITING, view.handle[waits], view.now, finish.of(waits))
            promises.remember(Told.FINISH_RUNNING, view.handle[~waits], view.now, finish.of(~waits))

    def _explain(
        self, view: View, futures: Futures, worth: Worth, stance: int, run: Ints
    ) -> Explanation:
        """The numbers behind the decision, times corrected by how earlier ones came out."""
        now, unit, here = view.now, view.round_seconds, len(view)
        starts, finishes = self._foretell(view, futures, stance, run)
        start, finish = (_intervals(when, unit) for when in (starts, finishes))
        waits, promises = _waits(view, run), self._promises
        start = promises.corrected(Told.START, start, now, unit).where(waits, start)
        finish = promises.corrected(Told.FINISH_WAITING, finish, now, unit).where(
            waits, promises.corrected(Told.FINISH_RUNNING, finish, now, unit)
        )
        bid, fairness, end = (
            unit * part[stance, 0, :here].astype(np.float64)
            for part in (worth.total, worth.fairness, worth.end)
        )
        return Explanation(
            price=float(np.delete(bid, run).max(initial=0.0)),
            bid=bid,
            bid_fairness=fairness,
            bid_end=end,
            start_low=now + start.low,
            expected_start=now + start.middle,
            start_high=now + start.high,
            finish_low=now + finish.low,
            finish=now + finish.middle,
            finish_high=now + finish.high,
            fair_finish=view.arrival + futures.fair_jct[:here],
            starts=now + unit * starts.astype(np.float64),
            finishes=now + unit * finishes.astype(np.float64),
        )


def _intervals(when: Floats, unit: float) -> Intervals:
    """Of ``when[sample, job]``, times ``unit``."""
    return Intervals(*(unit * np.quantile(when, (TAIL, 0.5, 1.0 - TAIL), axis=0)))


def _waits(view: View, run: Ints) -> Bools:
    waits = np.ones(len(view), dtype=np.bool_)
    waits[run] = False
    return waits
