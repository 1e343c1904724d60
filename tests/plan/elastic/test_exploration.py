"""What is worth a try: the longer a job has to go, and the less is known."""

from __future__ import annotations

import numpy as np
import pytest

from shockwave.plan.elastic.exploration import cost_of_a_try, hope

COST = np.array([[120.0]])


def hoped(deviation: float, to_go: float) -> float:
    return float(hope(np.array([[deviation]]), np.array([to_go]), COST)[0, 0])


def test_who_soon_ends_hopes_for_nothing() -> None:
    assert hoped(0.5, to_go=200.0) == 0.0
    assert hoped(0.5, to_go=3600.0) > 0.3


def test_hope_grows_with_the_time_to_go_and_with_doubt() -> None:
    by_time = [hoped(0.5, hours * 3600.0) for hours in (0.5, 1.0, 4.0, 20.0)]
    assert by_time == sorted(by_time)
    assert by_time[0] < by_time[-1]
    by_doubt = [hoped(doubt, 3600.0) for doubt in (0.1, 0.3, 0.6, 1.0)]
    assert by_doubt == sorted(by_doubt)
    assert hoped(0.02, 3600.0) == 0.0  # what was measured


def test_in_a_crowd_wide_options_are_not_tried_for_little() -> None:
    gpus, doubt, to_go = np.array([1, 8, 64]), np.full((1, 3), 0.5), np.array([3600.0])
    crowd, alone = (
        hope(doubt, to_go, cost_of_a_try(np.array([120.0]), gpus, share))[0]
        for share in (2.0, 64.0)
    )
    assert crowd[0] > crowd[1] > crowd[2] == 0.0
    assert alone == pytest.approx(np.full(3, crowd[0]))


@pytest.mark.parametrize("seed", range(3))
def test_at_the_limit_a_try_gains_what_it_costs(seed: int) -> None:
    """By drawing how slow the option turns out to be."""
    deviation, to_go = 0.6, 7200.0
    behind = hoped(deviation, to_go)
    truth = np.random.default_rng(seed).normal(behind, deviation, 400_000)
    gained = np.maximum(-truth, 0.0).mean() * to_go  # goes back where it is no better
    assert gained == pytest.approx(COST[0, 0], rel=0.1)
