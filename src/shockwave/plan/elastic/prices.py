"""What a GPU of each type costs: the prices that minimise the bound of the market.

``D`` is convex in the prices, and piecewise linear. One type at a time, the price at which the
demand for it falls to what there is minimises ``D`` along that axis (bisection: demand only falls
as the price rises). Going round the types ends near the minimum, not always at it, because ``D``
has edges; :func:`lower_bound` goes on from there, all types at once.
"""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Floats, Ints
from shockwave.plan.elastic.market import Market

_BISECTIONS = 40
_PRECISION = 1e-7  # relative, of a price
_SWEEPS = 6
_SETTLED = 1e-3  # relative change of all prices after which sweeps end
_STEPS_PER_TYPE = 50
_SURROUNDINGS = 0.5  # of the prices: how far from the start the minimum is looked for


def clearing_prices(market: Market, start: Floats | None = None) -> Floats:
    """[type] prices at which, one type at a time, demand fits; ``start`` from an earlier round."""
    types = len(market.capacity)
    if not market.values.size:
        return np.zeros(types)
    # Not from zero: where types are alike, nobody would have to take the dearer one.
    prices = np.full(types, 0.5 * _mean_worth(market)) if start is None else np.maximum(start, 0.0)
    columns = [np.flatnonzero(market.type == number) for number in range(types)]
    for _ in range(_SWEEPS if types > 1 else 1):
        before = prices.copy()
        for number, own in enumerate(columns):
            prices[number] = _price(market, prices, number, own)
        if np.allclose(prices, before, rtol=_SETTLED, atol=1e-12):
            break
    return prices


def _price(market: Market, prices: Floats, number: int, columns: Ints) -> float:
    """The price of one type at which its demand is at most its capacity, the others given."""
    capacity = int(market.capacity[number])
    values, gpus = market.values[:, columns], market.gpus[columns]
    others = np.flatnonzero(market.type != number)
    elsewhere = market.values[:, others] - prices[market.type[others]] * market.gpus[others]
    outside = elsewhere.max(axis=1, initial=0.0)
    buyers = np.flatnonzero(values.max(axis=1, initial=-np.inf) > outside)
    values, outside = values[buyers], outside[buyers]
    rows = np.arange(len(buyers))

    def demand(price: float) -> int:
        left = values - price * gpus
        best = left.argmax(axis=1)
        return int(gpus[best][left[rows, best] > outside].sum())

    if not len(buyers) or demand(0.0) <= capacity:
        return 0.0
    # Above this price nobody buys.
    low, high = 0.0, float(((values - outside[:, None]) / gpus).max())
    for guess in (0.9 * prices[number], 1.1 * prices[number]):  # an earlier price is nearly right
        if low < guess < high:
            low, high = (guess, high) if demand(guess) > capacity else (low, guess)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if demand(middle) > capacity else (low, middle)
        if high - low <= _PRECISION * high:
            break
    return high


def lower_bound(market: Market, prices: Floats) -> Floats:
    """[type] prices with a lower bound than ``prices``, for several types: the ellipsoid method.

    The minimum is kept within an ellipsoid that shrinks with every slope of ``D`` that is seen.
    """
    types = len(market.capacity)
    if types < 2:
        return prices
    best, best_bound = prices, market.bound(prices)
    center = prices.copy()
    radius = _SURROUNDINGS * max(float(prices.max()), _mean_worth(market))
    shape = np.eye(types) * max(radius, 1e-12) ** 2 * types
    for _ in range(_STEPS_PER_TYPE * types):
        if (center < 0.0).any():
            slope = -(center == center.min()).astype(np.float64)
        else:
            bound, slope = _bound_and_slope(market, center)
            if bound < best_bound:
                best, best_bound = center, bound
        width = float(np.sqrt(max(slope @ shape @ slope, 0.0)))
        if width <= 1e-6 * best_bound:  # no price within the ellipsoid is better by more
            break
        step = shape @ slope / width
        center = center - step / (types + 1)
        growth = types**2 / (types**2 - 1.0)
        shape = growth * (shape - 2.0 / (types + 1) * np.outer(step, step))
    return best


def _mean_worth(market: Market) -> float:
    """What a GPU would be worth on average if everybody had what it likes best."""
    best = market.values.max(axis=1, initial=0.0).sum()
    return float(best) / max(int(market.capacity.sum()), 1)


def _bound_and_slope(market: Market, prices: Floats) -> tuple[float, Floats]:
    """``D`` at these prices, and one of its slopes there: capacity less demand."""
    left = market.reduced(prices)
    best = left.argmax(axis=1)
    gain = left[np.arange(len(market)), best]
    demand = market.used(np.where(gain > 0.0, best, -1))
    bound = float(np.maximum(gain, 0.0).sum() + prices @ market.capacity)
    return bound, (market.capacity - demand).astype(np.float64)
