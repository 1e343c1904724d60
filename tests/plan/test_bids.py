"""One number for need and worth, the price of a round, and how good a sale is."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shockwave.plan.bids import WORDS, Need, auction_gap, bids, price_of_round
from shockwave.policies.fill import fill, largest_first

some_needs = st.lists(
    st.tuples(st.sampled_from(list(Need)), st.floats(0, 1e9)), min_size=2, max_size=12
)


def test_every_need_has_words() -> None:
    assert set(WORDS) == set(Need)


@given(some_needs)
def test_bids_are_ordered_by_need_then_worth(jobs: list[tuple[Need, float]]) -> None:
    bid = bids(np.array([need for need, _ in jobs]), np.array([worth for _, worth in jobs]))
    for first, second in combinations(range(len(jobs)), 2):
        if jobs[first] < jobs[second]:
            assert bid[first] <= bid[second]
        if jobs[first][0] < jobs[second][0]:
            assert bid[first] < bid[second]


@given(some_needs)
def test_bids_stay_within_their_class(jobs: list[tuple[Need, float]]) -> None:
    need = np.array([need for need, _ in jobs])
    bid = bids(need, np.array([worth for _, worth in jobs]))
    assert np.all(bid >= 10.0**need)
    assert np.all(bid < 10.0 ** (need + 1))


def test_the_price_is_the_highest_bid_that_got_nothing() -> None:
    bid = np.array([5.0, 9.0, 7.0])
    assert price_of_round(bid, np.array([False, True, False])) == 7.0
    assert price_of_round(bid, np.array([True, True, True])) == 0.0


def test_the_gap_by_hand() -> None:
    """Three GPUs; 4 and 3 a GPU for gangs of two: whole gangs earn 8, split ones 8 + 3."""
    gap = auction_gap(np.array([4.0, 3.0]), np.array([2, 2]), np.array([True, False]), 3)
    assert gap == pytest.approx(3 / 11)


def test_no_gap_where_everybody_runs() -> None:
    assert auction_gap(np.array([4.0, 3.0]), np.array([2, 2]), np.array([True, True]), 4) == 0.0


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.floats(1, 1e4), st.integers(1, 6)), min_size=1, max_size=9),
    st.integers(1, 12),
)
def test_no_sale_earns_more_than_the_gap_allows(
    jobs: list[tuple[float, int]], gpus_total: int
) -> None:
    """Against every set of gangs that fits."""
    bid = np.array([worth for worth, _ in jobs])
    gpus = np.array([gang for _, gang in jobs])
    sold = np.zeros(len(jobs), dtype=np.bool_)
    sold[fill(largest_first(bid), gpus, gpus_total)] = True
    got = float((bid * gpus)[sold].sum())
    gap = auction_gap(bid, gpus, sold, gpus_total)
    assert 0.0 <= gap <= 1.0
    for chosen in range(2 ** len(jobs)):
        rows = [row for row in range(len(jobs)) if chosen >> row & 1]
        if gpus[rows].sum() <= gpus_total:
            assert float((bid * gpus)[rows].sum()) * (1 - gap) <= got + 1e-6


def test_gangs_of_one_are_sold_perfectly() -> None:
    bid = np.array([3.0, 8.0, 5.0, 1.0])
    gpus = np.ones(4, dtype=np.int64)
    sold = np.array([False, True, True, False])
    assert auction_gap(bid, gpus, sold, 2) == 0.0
