"""When jobs will be done that share the cluster, and grow as the others leave."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shockwave.model.view import Floats
from shockwave.plan.elastic.ahead import shared_finishes
from shockwave.plan.elastic.worth import Shares

SIZES = np.array([1, 2, 4, 8])
EIGHT = Shares(np.zeros(4, dtype=np.int64), SIZES, np.array([8]))


def scaling(alone: list[float], power: float = 1.0) -> Floats:
    """[job, option] seconds with each number of GPUs; 1 divides the time by the GPUs."""
    return np.array(alone)[:, None] / SIZES**power


def test_who_is_alone_has_all_gpus() -> None:
    assert shared_finishes(scaling([8000.0]), EIGHT).tolist() == [1000.0]


def test_who_is_left_takes_what_the_other_leaves() -> None:
    """Four GPUs each until the shorter ends after 1000 s; the longer has 4000 of 8 then."""
    short, long = shared_finishes(scaling([4000.0, 8000.0]), EIGHT)
    assert short == 1000.0
    assert abs(long - 1500.0) < 60.0  # steps of a minute


def test_with_more_jobs_than_gpus_they_take_turns() -> None:
    """Sixteen jobs that gain nothing by a second GPU: half a GPU each."""
    finishes = shared_finishes(scaling([1000.0] * 16, power=0.0), EIGHT)
    assert np.allclose(finishes, 2000.0)


def test_who_can_use_nothing_that_is_there_has_no_finish() -> None:
    """The first job may use one type only, whose nodes are all away."""
    shares = Shares(np.array([0, 1]), np.array([1, 1]), np.array([4, 0]))
    rest = np.array([[np.inf, 600.0], [600.0, 600.0]])
    assert shared_finishes(rest, shares).tolist() == [np.inf, 600.0]


@given(st.lists(st.floats(100.0, 1e6), min_size=1, max_size=20), st.floats(0.0, 1.0))
def test_nobody_ends_before_its_fastest_option_and_the_longer_later(
    alone: list[float], power: float
) -> None:
    rest = scaling(sorted(alone), power)
    finishes = shared_finishes(rest, EIGHT)
    assert (finishes >= 0.999 * rest.min(axis=1)).all()
    assert (np.diff(finishes) >= -1e-6 * finishes[:-1]).all()
