"""What is worth a try: the longer a job has to go, and the less is known."""

from __future__ import annotations

import numpy as np
import pytest

from shockwave.model.view import Floats
from shockwave.plan.elastic.exploration import cost_of_a_try, hope

COST = np.array([[120.0]])


def hoped(deviation: float, to_go: float) -> float:
    """On one curve, that is certain."""
    return of_curves([1.0], [0.0], deviation, to_go)


def of_curves(likely: list[float], apart: list[float], deviation: float, to_go: float) -> float:
    slower = np.array(apart)[None, :, None]
    at = np.array([to_go])
    return float(hope(np.array([likely]), slower, np.array([[deviation]]), at, COST)[0, 0])


def gained(behind: float, truth: Floats, to_go: float) -> float:
    """Seconds by a try, on average; the job goes back where the option is no better."""
    return float(np.maximum(1.0 - np.exp(truth + behind), 0.0).mean() * to_go)


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
    certain, on_it = np.ones((1, 1)), np.zeros((1, 1, 3))
    crowd, alone = (
        hope(certain, on_it, doubt, to_go, cost_of_a_try(np.array([120.0]), gpus, share))[0]
        for share in (2.0, 64.0)
    )
    assert crowd[0] > crowd[1] > crowd[2] == 0.0
    assert alone == pytest.approx(np.full(3, crowd[0]))


@pytest.mark.parametrize("seed", range(3))
def test_at_the_limit_a_try_gains_what_it_costs(seed: int) -> None:
    """By drawing how slow the option turns out to be."""
    deviation, to_go = 0.3, 7200.0
    truth = np.random.default_rng(seed).normal(0.0, deviation, 400_000)
    gain = gained(hoped(deviation, to_go), truth, to_go)
    assert gain == pytest.approx(COST[0, 0], rel=0.2)


@pytest.mark.parametrize("seed", range(5))
def test_with_several_curves_a_try_at_the_limit_gains_what_it_costs(seed: int) -> None:
    """By drawing the curve first, then how far from it the option is."""
    rng = np.random.default_rng(seed)
    likely, apart, deviation, to_go = rng.dirichlet(np.ones(5)), rng.normal(0, 1, 5), 0.3, 7200.0
    likely = likely.clip(0.02)
    likely /= likely.sum()
    behind = of_curves(likely.tolist(), apart.tolist(), deviation, to_go)
    truth = rng.choice(apart, 400_000, p=likely) + rng.normal(0.0, deviation, 400_000)
    assert gained(behind, truth, to_go) == pytest.approx(COST[0, 0], rel=0.2)


def test_a_small_chance_of_a_curve_that_gains_much_is_worth_a_try() -> None:
    """A tenth to be ten times as fast: nine tenths say that it is a little slower than thought."""
    likely, apart, to_go = [0.9, 0.1], [0.256, -2.302], 7 * 3600.0
    by_curve = of_curves(likely, apart, 0.1, to_go)
    spread = float(np.sqrt(np.dot(likely, np.square(apart)) + 0.1**2))
    assert by_curve > 2.2 > 1.9 > hoped(spread, to_go)  # the Gaussian as wide as both


def test_nobody_saves_more_than_the_time_to_go() -> None:
    """A tenth of a chance of a thousand times as fast is no better than of a hundred."""
    little = 800.0  # seconds to go, of which a try takes more than a tenth
    assert of_curves([0.9, 0.1], [0.5, -4.5], 0.1, little) == 0.0
    assert of_curves([0.9, 0.1], [0.75, -6.75], 0.1, little) == 0.0
    assert of_curves([0.9, 0.1], [0.5, -4.5], 0.1, 3.0 * little) > 3.5


def test_curves_that_agree_are_one_curve() -> None:
    assert of_curves([0.25] * 4, [0.0] * 4, 0.5, 7200.0) == pytest.approx(hoped(0.5, 7200.0), 0.02)


def test_every_job_has_its_own_curves_and_options() -> None:
    rng = np.random.default_rng(1)
    likely, apart = rng.dirichlet(np.full(6, 0.3), 8), rng.normal(0.0, 0.7, (8, 6, 3))
    doubt, to_go = rng.uniform(0.1, 0.5, (8, 3)), rng.uniform(600.0, 36_000.0, 8)
    cost = rng.uniform(60.0, 600.0, (8, 3))
    together = hope(likely, apart, doubt, to_go, cost)
    for job in range(8):
        one = slice(job, job + 1)
        alone = hope(likely[one], apart[one], doubt[one], to_go[one], cost[one])
        assert together[one] == pytest.approx(alone)
