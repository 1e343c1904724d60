"""The mechanisms that policies share."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies.views import make_view

from shockwave.plan.sharing import water_level
from shockwave.policies.fill import fill, largest_first, run_by_share


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), max_size=12), st.integers(0, 20), st.randoms())
def test_fill_is_the_greedy_walk_and_leaves_no_gang_that_fits(
    gangs: list[int], capacity: int, random: object
) -> None:
    order = np.arange(len(gangs))
    random.shuffle(order)  # type: ignore[attr-defined]
    expected, left = [], capacity
    for position in order.tolist():
        if gangs[position] <= left:
            expected.append(position)
            left -= gangs[position]
    taken = fill(order, make_view(gangs, gpus_total=capacity))
    assert taken.tolist() == expected
    assert taken.dtype == np.int64
    waiting = set(range(len(gangs))) - set(expected)
    assert all(gangs[position] > left for position in waiting)


def test_fill_takes_only_what_the_order_names() -> None:
    assert fill(np.array([1]), make_view([1, 1, 1], gpus_total=3)).tolist() == [1]


def test_the_others_share_what_gangs_that_stay_leave() -> None:
    view = make_view(
        [2, 3, 2, 1], gpus_total=4, running=[False, True, False, False],
        must_stay=[False, True, False, False],
    )  # fmt: skip
    assert fill(np.array([0, 2, 1, 3]), view).tolist() == [1, 3]


def test_ties_go_to_the_job_that_was_submitted_first() -> None:
    assert largest_first(np.array([1.0, 3.0, 1.0, 3.0])).tolist() == [1, 3, 0, 2]


positive = st.floats(1e-6, 1e6)


@settings(deadline=None)
@given(
    st.lists(st.tuples(positive, positive), min_size=1, max_size=12),
    st.floats(1e-3, 0.999_999),
)
def test_water_filling_uses_exactly_the_capacity(
    jobs: list[tuple[float, float]], fraction: float
) -> None:
    caps = np.array([cap for cap, _ in jobs])
    weights = np.array([weight for _, weight in jobs])
    capacity = fraction * caps.sum()
    level = water_level(caps, weights, capacity)
    assert math.isclose(np.minimum(caps, weights * level).sum(), capacity, rel_tol=1e-9)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 8), positive), min_size=1, max_size=12))
def test_water_filling_at_the_brim(jobs: list[tuple[int, float]]) -> None:
    """All caps or one GPU less: where rounding could leave no level at all."""
    caps = np.array([float(cap) for cap, _ in jobs])
    weights = np.array([weight for _, weight in jobs])
    assert water_level(caps, weights, caps.sum()) == math.inf
    level = water_level(caps, weights, caps.sum() - 1)
    served = np.minimum(caps, weights * level).sum()
    assert served == pytest.approx(caps.sum() - 1, abs=1e-6)


def test_priority_is_the_share_over_what_was_received_of_the_time() -> None:
    view = make_view(
        [1, 1, 1], gpus_total=2, now=600.0, arrival=[0.0, 0.0, 480.0],
        received_seconds=[240.0, 60.0, 0.0],
    )  # fmt: skip
    run, priority = run_by_share(view, np.array([0.5, 0.5, 0.25]))
    np.testing.assert_allclose(
        priority,
        [0.5 / (300 / 720), 0.5 / (120 / 720), 0.25 / (60 / 240)],
    )
    assert run.tolist() == [1, 0]
