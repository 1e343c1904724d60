"""What is worth a try: the longer a job has to go, and the less is known."""

from __future__ import annotations

import numpy as np
import pytest

from shockwave.plan.elastic.exploration import hope

COST = np.array([120.0])


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


@pytest.mark.parametrize("seed", range(3))
def test_at_the_limit_a_try_gains_what_it_costs(seed: int) -> None:
    """By drawing how slow the option turns out to be."""
    deviation, to_go = 0.6, 7200.0
    behind = hoped(deviation, to_go)
    truth = np.random.default_rng(seed).normal(behind, deviation, 400_000)
    gained = np.maximum(-truth, 0.0).mean() * to_go  # goes back where it is no better
    assert gained == pytest.approx(COST[0], rel=0.1)
