"""The default policy where jobs have a choice: types of GPUs, and how many of them.

Every round the speeds of all options are learned (:mod:`shockwave.predict.speeds`), turned into
what they are worth (:mod:`shockwave.plan.elastic.worth`), and sold at one price per type
(:mod:`shockwave.plan.elastic.sale`). docs/elastic.md has the equations and the figures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from shockwave.model.options import Options
from shockwave.model.view import Bools, Floats, Ints, View
from shockwave.plan.elastic.ahead import shared_finishes
from shockwave.plan.elastic.exploration import cost_of_a_try, hope
from shockwave.plan.elastic.market import Market
from shockwave.plan.elastic.sale import Sale, sell
from shockwave.plan.elastic.vacancy import Vacancy
from shockwave.plan.elastic.worth import Bidders, Shares, Worth, WorthSettings, worth
from shockwave.plan.explain import Explanation
from shockwave.plan.promises import Intervals
from shockwave.plan.telling import Foretold, Teller, waiting
from shockwave.policies.base import Decision
from shockwave.policies.memory import PerJob
from shockwave.predict.lengths import LengthLearner
from shockwave.predict.speed_law import SpeedSettings
from shockwave.predict.speeds import SpeedLearner, Speeds

_EIGHTY_PERCENT = 1.2816  # deviations on either side
_OTHERS = 0.3  # deviation of a waiting job's finish, of the logarithm, for what others will do


@dataclass(frozen=True)
class MarketSettings:
    """One set for every workload."""

    worth: WorthSettings = field(default_factory=WorthSettings)
    speeds: SpeedSettings = field(default_factory=SpeedSettings)
    curiosity: float = 0.5  # of the hope for a whole share: others wait for it; alone, all of it
    price_memory: float = 0.5  # of the round before, in the prices that jobs count with
    believe_epochs: bool = True  # False: as if no job had said how long it is


class OptionMarket:
    """Sells GPUs of every type to the jobs that gain most by them."""

    def __init__(self, settings: MarketSettings | None = None) -> None:
        self.settings = settings or MarketSettings()
        self._learner = SpeedLearner(self.settings.speeds)
        self._prices: Floats | None = None
        self._restart_of_kind = PerJob()
        self._began: float | None = None
        self._active_sum = 0.0
        self._rounds = 0
        self._teller = Teller()
        self._lengths = LengthLearner()
        self._vacancy = Vacancy()

    def decide(self, view: View, options: Options) -> Decision:
        speeds = self._learn(view, options)
        shares = Shares(options.type, options.gpus, options.type_gpus)
        bidders = self._bidders(view, options, speeds, shares)
        prices = self._expected_prices(view, options)
        began = view.now if self._began is None else self._began
        worths = worth(
            bidders, shares, prices, self._active_sum / self._rounds, view.now - began,
            self.settings.worth,
        )  # fmt: skip
        stays = view.must_stay | (view.between_rounds & view.running)
        sale = _sell(options, worths.values, stays, prices)
        memory = self.settings.price_memory
        self._prices = memory * prices + (1.0 - memory) * sale.prices
        run = np.flatnonzero(sale.choice >= 0)
        surplus = _surplus(options, worths.values, sale)
        run = run[np.argsort(-surplus[run], kind="stable")]
        gpus = float(options.type_gpus.sum())
        price = float(sale.prices @ options.type_gpus) / gpus if gpus else 0.0
        left = worths.values - sale.prices[options.type] * options.gpus
        option: Ints = np.where(sale.choice >= 0, sale.choice, left.argmax(axis=1))
        foretold = cache(lambda: _foretell(view, options, speeds, bidders, shares, option, run))
        if not view.between_rounds:
            ends = _begins(view, options, bidders, option, run) + _rest(bidders, option)
            self._teller.follow(view, run, view.now + ends)
            self._teller.remember(view, run, foretold)
        return Decision(
            run,
            welfare=sale.value,
            gap=sale.gap,
            price=price,
            priority=surplus,
            options=sale.choice[run],
            explain=lambda: _explain(
                view, options, bidders, worths, sale.prices, price, option,
                self._teller.corrected(view, run, foretold()),
            ),
        )  # fmt: skip

    # What is known.

    def _learn(self, view: View, options: Options) -> Speeds:
        if not view.between_rounds or not self._rounds:
            self._began = view.now if self._began is None else self._began
            self._active_sum += len(view)
            self._rounds += 1
        return self._learner.see(view, options)

    def _bidders(self, view: View, options: Options, speeds: Speeds, shares: Shares) -> Bidders:
        done = view.epochs_done
        if self.settings.believe_epochs:
            epochs = self._epochs(view, options, speeds)
        else:  # who has done much has much to do
            epochs = np.maximum(2.0 * done, done + 1.0)
        may = _usable(options)
        rest = np.where(may, np.maximum(speeds.remaining_seconds(done, epochs), 1.0), np.inf)
        whole = np.where(may, speeds.remaining_seconds(np.zeros(len(view)), epochs), np.inf)
        restart = self._restart(view)
        share = max(float(options.type_gpus.sum()), 1.0) / max(len(view), 1)
        a_try = cost_of_a_try(2.0 * restart + view.round_seconds, options.gpus, share)
        c = speeds.curves
        hoped = hope(c.likely, c.apart, c.deviation, rest.min(axis=1), a_try)
        hoped *= self.settings.curiosity ** np.minimum(options.gpus / share, 1.0)
        return Bidders(
            seconds=np.where(may, np.exp(speeds.log_mean - hoped), np.inf),
            rest=rest,
            whole=np.maximum(whole, rest),
            held=options.held,
            age=view.elapsed,
            restart=restart,
            weight=view.weight,
            mean_active=(view.active_integral + len(view)) / (view.rounds_active + 1.0),
            vacant=self._vacancy.see(view.now, options.held, shares),
        )

    def _epochs(self, view: View, options: Options, speeds: Speeds) -> Floats:
        """[job] epochs in all: what it says, as far as such claims have been right."""
        if not view.between_rounds:
            held = np.maximum(options.held, 0)
            seconds = speeds.median[np.arange(len(view)), held]
            per_round = np.where(options.held >= 0, view.round_seconds / seconds, 0.0)
            self._lengths.learn(view.handle, view.kind, view.epochs, view.epochs_done, per_round)
        return self._lengths.epochs(view.kind, view.epochs, view.epochs_done)

    def _restart(self, view: View) -> Floats:
        """[job] seconds that a start costs: measured, of the same model, or as set."""
        measured = view.measured_restart_seconds
        known = ~np.isnan(measured)
        self._restart_of_kind.set(view.kind[known], measured[known])
        of_kind = self._restart_of_kind.get(view.kind)
        learned = np.where(np.isnan(of_kind), view.restart_seconds, of_kind)
        return np.where(known, measured, learned)

    def _expected_prices(self, view: View, options: Options) -> Floats:
        """[type] of the rounds before; at first, a job for every GPU is the measure."""
        types = len(options.types)
        first = np.full(types, len(view) / max(int(options.type_gpus.sum()), 1))
        if self._prices is None:
            return first
        first[: len(self._prices)] = self._prices  # types only ever come to the end
        return first


def _usable(options: Options) -> Bools:
    """[job, option] what a job may take: what it can use, else its request; what it has, always."""
    elastic = np.asarray(options.allowed.any(axis=1))
    may = np.where(elastic[:, None], options.allowed, options.requested)
    runs = np.flatnonzero(options.held >= 0)
    may[runs, options.held[runs]] = True
    return may


def _sell(options: Options, values: Floats, stays: Bools, prices: Floats) -> Sale:
    """Sells what those who stay leave; they keep what they hold."""
    if not stays.any():
        return sell(Market(values, options.gpus, options.type, options.type_gpus), prices)
    held = options.held[stays]
    taken = np.bincount(
        options.type[held], weights=options.gpus[held], minlength=len(options.types)
    )
    room = np.maximum(options.type_gpus - taken.astype(np.int64), 0)
    sale = sell(Market(values[~stays], options.gpus, options.type, room), prices)
    choice = options.held.copy()
    choice[~stays] = sale.choice
    return Sale(choice, sale.prices, sale.value, sale.bound)


def _surplus(options: Options, values: Floats, sale: Sale) -> Floats:
    """[job] value less price of what it gets, else of what it would like best, per GPU."""
    left = (values - sale.prices[options.type] * options.gpus) / options.gpus
    best = left.argmax(axis=1)
    option = np.where(sale.choice >= 0, sale.choice, best)
    return np.asarray(left[np.arange(len(left)), option])


def _begins(view: View, options: Options, bidders: Bidders, option: Ints, run: Ints) -> Floats:
    """[job] seconds until it makes progress with ``option`` at the earliest."""
    starts = np.where(options.held == option, 0.0, bidders.restart)
    return np.asarray(starts + view.round_seconds * waiting(view, run))


def _rest(bidders: Bidders, option: Ints) -> Floats:
    """[job] seconds to the end with ``option``."""
    return np.asarray(bidders.rest[np.arange(len(bidders)), option])


def _foretell(
    view: View, options: Options, speeds: Speeds, bidders: Bidders, shares: Shares, option: Ints,
    run: Ints,
) -> Foretold:  # fmt: skip
    """Finishes with the option that a job likes, or earlier if sharing with all others is faster.

    Whoever waits starts between the next round and the last moment from which its fastest option
    still brings that finish: in the middle of these by their logarithms.
    """
    waits, unit = waiting(view, run), view.round_seconds
    shared = shared_finishes(bidders.rest, shares)
    shared = np.where(np.isfinite(shared), shared, _rest(bidders, option))  # its GPUs are away
    middle = _begins(view, options, bidders, option, run)
    middle += np.minimum(_rest(bidders, option), shared)
    deviation = np.minimum(speeds.deviation[np.arange(len(view)), option], 2.0)
    spread = np.exp(_EIGHTY_PERCENT * np.hypot(deviation, _OTHERS * waits))
    fastest = bidders.rest.min(axis=1)
    spare = shared - np.where(np.isfinite(fastest), fastest, 0.0)
    latest = np.where(waits, np.maximum(spare, unit), 0.0)
    start = Intervals(unit * waits.astype(np.float64), np.sqrt(unit * latest), latest)
    return Foretold(start, Intervals(middle / spread, middle, middle * spread))


def _explain(
    view: View, options: Options, bidders: Bidders, worths: Worth, prices: Floats,
    price: float, option: Ints, told: Foretold,
) -> Explanation:  # fmt: skip
    """The numbers behind the decision, for people."""
    now, jobs = view.now, np.arange(len(view))
    costs = ", ".join(
        f"{name} {cost:.3g}" for name, cost in zip(options.types, prices, strict=True)
    )
    names = options.keys
    notes = [
        f"{names[best]}, worth {worths.values[job, best]:.3g} job-seconds a second; a GPU costs "
        f"{costs}; a restart {bidders.restart[job]:.0f} s"
        for job, best in zip(jobs.tolist(), option.tolist(), strict=True)
    ]
    return Explanation(
        price=price,
        bid=worths.values[jobs, option] / options.gpus[option],
        bid_fairness=worths.values[jobs, option]
        / options.gpus[option]
        * worths.unfair
        / (1.0 + worths.unfair + worths.end),
        start_low=now + told.start.low,
        expected_start=now + told.start.middle,
        start_high=now + told.start.high,
        finish_low=now + told.finish.low,
        finish=now + told.finish.middle,
        finish_high=now + told.finish.high,
        fair_finish=view.arrival + worths.fair_seconds,
        note=tuple(notes),
    )
