"""Selling the GPUs of one round: prices, whole gangs, and how good that is at least."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Floats, Ints
from shockwave.plan.elastic.exact import better
from shockwave.plan.elastic.market import Market
from shockwave.plan.elastic.prices import clearing_prices, lower_bound
from shockwave.plan.elastic.rounding import Rounding

_TRADES = 24


@dataclass(frozen=True)
class Sale:
    """Who gets what, at which prices. No allocation is worth more than ``bound``."""

    choice: Ints  # [job] the option that it gets, -1 for none
    prices: Floats  # [type] per GPU
    value: float
    bound: float

    @property
    def gap(self) -> float:
        """How far from the best the allocation can be at most, relative to the bound."""
        return max(self.bound - self.value, 0.0) / self.bound if self.bound > 0.0 else 0.0


def sell(market: Market, start: Floats | None = None, target_gap: float = 1e-3) -> Sale:
    """Sells a market; ``start`` are prices of an earlier round.

    Where rounding misses ``target_gap``, a small market is solved exactly, and then the value is
    the bound; in a large one the prices are made better and GPUs are traded first.

    >>> import numpy as np
    >>> values = np.array([[3.0, 4.0], [2.0, 2.5]])  # two jobs, 1 GPU or 2 of them
    >>> market = Market(values, np.array([1, 2]), np.array([0, 0]), np.array([3]))
    >>> sale = sell(market)
    >>> sale.choice.tolist(), sale.value
    ([1, 0], 6.0)
    """
    prices = clearing_prices(market, start)
    if not market.values.size:
        return Sale(np.full(len(market), -1, dtype=np.int64), prices, 0.0, 0.0)
    sale = _rounded(market, prices)
    if sale.gap <= target_gap:
        return sale
    solved = _solved(market, sale)
    if solved is not None:
        return solved
    finer = _rounded(market, lower_bound(market, prices))
    choice = finer.choice if finer.value >= sale.value else sale.choice
    rounding = Rounding(market, finer.prices, choice)
    rounding.trade(_TRADES, enough=finer.bound * (1.0 - 0.5 * target_gap) - market.worth(choice))
    rounding.fill()
    traded = Sale(rounding.choice, finer.prices, market.worth(rounding.choice), finer.bound)
    return traded if traded.gap <= target_gap else _solved(market, traded) or traded


def _solved(market: Market, sale: Sale) -> Sale | None:
    choice = better(market, sale.prices, sale.choice)
    if choice is None:
        return None
    value = market.worth(choice)
    return Sale(choice, sale.prices, value, value)


def _rounded(market: Market, prices: Floats) -> Sale:
    rounding = Rounding(market, prices)
    rounding.drop_to_fit()
    rounding.fill()
    bound = market.bound(prices)
    return Sale(rounding.choice, prices, market.worth(rounding.choice), bound)
