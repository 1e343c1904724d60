"""Joint samples and the size that an uncertain job counts as."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plan.jobs import make_futures

from shockwave.plan.futures import gittins_seconds, joint_samples


@given(st.integers(2, 12), st.integers(1, 30), st.integers(0, 2**31))
def test_every_job_takes_each_of_its_quantiles_once(levels: int, jobs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    quantiles = np.sort(rng.random((levels, jobs)), axis=0)
    drawn = joint_samples(quantiles, rng.permutation(1000)[:jobs])
    np.testing.assert_array_equal(np.sort(drawn, axis=0), quantiles)


def test_samples_of_a_job_do_not_depend_on_who_else_is_there() -> None:
    quantiles = np.arange(12.0).reshape(6, 2)
    together = joint_samples(quantiles, np.array([3, 9]))
    np.testing.assert_array_equal(
        joint_samples(quantiles[:, 1:], np.array([9]))[:, 0], together[:, 1]
    )


def test_jobs_are_not_long_together() -> None:
    """Over many pairs of jobs the ranks of their samples have no correlation."""
    quantiles = np.tile(np.arange(6.0)[:, None], 2000)
    drawn = joint_samples(quantiles, np.arange(2000))
    even, odd = drawn[:, ::2].ravel(), drawn[:, 1::2].ravel()
    assert abs(np.corrcoef(even, odd)[0, 1]) < 0.05


@given(st.lists(st.floats(1.0, 1e5), min_size=1, max_size=12))
def test_the_size_lies_between_the_shortest_case_and_the_mean(cases: list[float]) -> None:
    quantiles = np.sort(cases)[:, None]
    (size,) = gittins_seconds(quantiles)
    assert quantiles[0, 0] * (1 - 1e-9) <= size <= quantiles.mean() * (1 + 1e-9)


def test_a_job_that_may_end_soon_counts_as_shorter_than_a_certain_one_of_the_same_mean() -> None:
    maybe, certain = gittins_seconds(np.array([[60.0, 600.0], [1140.0, 600.0]]))
    assert certain == pytest.approx(600.0)
    assert maybe == pytest.approx(120.0)  # tried for 60 s it ends every second time


def test_a_reservation_can_be_brought_forward_without_changing_the_original() -> None:
    futures = make_futures([[60.0, 60.0]], reserved=[np.inf, 900.0])
    assert futures.reserving(1).reserved.tolist() == [np.inf, 0.0]
    assert futures.reserved.tolist() == [np.inf, 900.0]
