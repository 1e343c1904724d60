"""The market of one round: it fits, its bound holds, and small markets are solved exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shockwave.model.errors import InputError
from shockwave.plan.elastic.ilp import solve_ilp
from shockwave.plan.elastic.market import Market
from shockwave.plan.elastic.prices import clearing_prices, lower_bound
from shockwave.plan.elastic.rounding import Rounding
from shockwave.plan.elastic.sale import sell

COUNTS = (1, 2, 4, 8, 16, 32, 64)


def market(seed: int, jobs: int, capacity: list[int], forbidden: float = 0.0) -> Market:
    """Jobs of six kinds: each has its own scaling and its own taste for every type."""
    rng = np.random.default_rng(seed)
    options = [(kind, n) for kind, total in enumerate(capacity) for n in COUNTS if n <= total]
    types, gpus = np.array([kind for kind, _ in options]), np.array([n for _, n in options])
    kind = rng.integers(0, 6, jobs)
    scaling = rng.uniform(0.4, 0.98, 6)[kind]
    speed = np.exp(rng.normal(0, 0.6, (6, len(capacity))))[kind]
    weight = np.exp(rng.normal(0, 0.7, jobs))
    values = weight[:, None] * speed[:, types] * gpus ** scaling[:, None]
    values[rng.random(values.shape) < forbidden] = -np.inf
    return Market(values, gpus, types, np.array(capacity))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    jobs=st.integers(1, 14),
    capacity=st.lists(st.integers(0, 12), min_size=1, max_size=3),
)
def test_a_small_market_is_sold_as_well_as_the_integer_program_does(
    seed: int, jobs: int, capacity: list[int]
) -> None:
    small = market(seed, jobs, [*capacity, 4], forbidden=0.2)
    sale = sell(small, target_gap=0.0)
    exact = solve_ilp(small, relative_gap=0.0)
    assert (small.used(sale.choice) <= small.capacity).all()
    assert sale.value == pytest.approx(small.worth(sale.choice))
    assert sale.value == pytest.approx(exact.value, rel=1e-6)
    assert sale.bound >= sale.value - 1e-9
    assert small.bound(sale.prices) >= exact.value - 1e-9


@pytest.mark.parametrize(("seed", "jobs", "types"), [(1, 400, 1), (2, 300, 3), (3, 500, 4)])
def test_a_large_market_fits_and_is_close_to_its_bound(seed: int, jobs: int, types: int) -> None:
    large = market(seed, jobs, [1024] * types)
    sale = sell(large)
    assert (large.used(sale.choice) <= large.capacity).all()
    assert sale.gap <= 0.005
    # Prices of the round before lead to the same bound.
    again = sell(large, start=sale.prices * 1.05)
    assert again.bound == pytest.approx(sale.bound, rel=0.005)


def test_all_gpus_that_somebody_wants_are_sold() -> None:
    crowd = market(4, 80, [24, 24, 16])
    assert (crowd.used(sell(crowd).choice) == crowd.capacity).all()


def test_prices_are_zero_where_nobody_has_to_share() -> None:
    alone = market(5, 1, [64, 64])
    sale = sell(alone)
    assert sale.prices.tolist() == [0.0, 0.0]
    assert sale.value == alone.values.max()


def test_a_lower_bound_is_found_where_types_are_close_substitutes() -> None:
    """One type at a time, prices stop at an edge of the bound."""
    values = np.array([[4.0, 4.0], [4.0, 4.0], [1.0, 1.0]])
    twins = Market(values, np.array([1, 1]), np.array([0, 1]), np.array([1, 1]))
    start = np.array([4.0, 4.0])
    assert twins.bound(lower_bound(twins, start)) <= twins.bound(start)
    assert twins.bound(lower_bound(twins, clearing_prices(twins))) <= 8.0 + 1e-3


def test_trades_find_what_prices_do_not() -> None:
    """Two jobs hold what a third would use better: one leaves, the other one shrinks."""
    values = np.array([[3.0, -np.inf, -np.inf], [2.0, 2.1, -np.inf], [-np.inf, 4.0, -np.inf]])
    gpus, kind = np.array([1, 2, 4]), np.zeros(3, dtype=np.int64)
    three = Market(values, gpus, kind, np.array([3]))
    rounding = Rounding(three, np.zeros(1), np.array([0, 1, -1]))
    rounding.trade(4, enough=10.0)
    assert rounding.choice.tolist() == [0, -1, 1]


def test_an_empty_market_sells_nothing() -> None:
    empty = Market(np.zeros((0, 2)), np.array([1, 2]), np.array([0, 0]), np.array([8]))
    assert sell(empty).choice.tolist() == []


@pytest.mark.parametrize(
    ("values", "gpus", "kind"),
    [
        (np.full((1, 2), np.nan), [1, 2], [0, 0]),
        (np.zeros((1, 3)), [1, 2], [0, 0]),
        (np.zeros((1, 2)), [0, 2], [0, 0]),
        (np.zeros((1, 2)), [1, 2], [0, 1]),
    ],
)
def test_arrays_that_make_no_market_are_refused(
    values: np.ndarray, gpus: list[int], kind: list[int]
) -> None:
    with pytest.raises(InputError):
        Market(values, np.array(gpus), np.array(kind), np.array([4]))
