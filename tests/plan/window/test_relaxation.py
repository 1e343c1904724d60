"""What the theory of the market promises holds for the divisible market."""

from __future__ import annotations

import numpy as np
import pytest
from bench.relaxation import (
    divisible_rounds,
    envy,
    fairness_loss,
    fisher_equilibrium,
    proportional_shortfall,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from shockwave.model.errors import ShockwaveError
from shockwave.model.view import Floats


def volatile_utilities(rng: np.random.Generator, jobs: int, rounds: int) -> Floats:
    """Each job speeds up or slows down at a round of its own."""
    change = rng.integers(0, rounds, jobs)
    before, after = rng.uniform(0.2, 2.0, (2, jobs))
    early = np.arange(rounds) < change[:, None]
    return np.asarray(np.where(early, before[:, None], after[:, None]))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_equilibrium_of_the_volatile_market(seed: int, equal_budgets: bool) -> None:
    rng = np.random.default_rng(seed)
    jobs, rounds = 6, 8
    utility = volatile_utilities(rng, jobs, rounds)
    budget = np.ones(jobs) if equal_budgets else rng.uniform(0.5, 2.0, jobs)
    supply = np.full(rounds, 4.0)
    market = fisher_equilibrium(utility, budget, supply, tolerance=1e-4)
    assert market.allocation.sum(axis=0) == pytest.approx(supply), "the market clears"
    assert market.allocation @ market.price == pytest.approx(budget), "budgets are spent"
    assert envy(utility, market.allocation, budget).max() <= 5e-3
    assert proportional_shortfall(utility, market.allocation, budget, supply).max() <= 5e-3
    # No other division of the goods has more Nash welfare, up to the certified gap.
    welfare = budget @ np.log(market.utility)
    for _ in range(20):
        other = rng.dirichlet(np.ones(jobs), rounds).T * supply
        assert budget @ np.log((utility * other).sum(axis=1)) <= welfare + 1e-4 * budget.sum()


def test_rounds_go_to_whom_they_are_worth_most() -> None:
    # One job is fast early, the other late: each buys its own half, and both gain.
    utility = np.array([[3.0, 3.0, 1.0, 1.0], [1.0, 1.0, 3.0, 3.0]])
    market = fisher_equilibrium(utility, np.ones(2), np.ones(4), tolerance=1e-9)
    assert market.allocation == pytest.approx(
        np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]), abs=1e-3
    )
    assert market.utility == pytest.approx([6.0, 6.0], rel=1e-3)


def test_too_few_steps_are_reported() -> None:
    utility = np.array([[1.0, 0.9], [0.9, 1.0]])
    with pytest.raises(ShockwaveError, match="no equilibrium within 1 steps"):
        fisher_equilibrium(utility, np.ones(2), np.ones(2), tolerance=1e-12, steps=1)


def test_linear_progress_is_shared_equally_whatever_the_gang() -> None:
    window, gpus_total = 20, 8
    gpus = np.array([1, 2, 4, 4, 8, 1, 1, 2, 1, 8, 2, 4, 1, 1, 1, 2])
    gain = np.linspace(0.0, 1.0, window + 1)[None].repeat(len(gpus), axis=0)
    capacity = float(gpus_total * window)
    rounds = divisible_rounds(gain, gpus, capacity)
    assert gpus * rounds == pytest.approx(np.full(len(gpus), capacity / len(gpus)), rel=0.02)
    loss = fairness_loss(gain, gpus, rounds, capacity)
    assert loss.envy.max() <= 0.02
    assert loss.shortfall.max() <= 0.02


def test_whole_rounds_of_large_gangs_leave_some_with_nothing() -> None:
    gain = np.linspace(0.0, 1.0, 5)[None].repeat(4, axis=0)
    gpus = np.full(4, 2)
    loss = fairness_loss(gain, gpus, np.array([2.0, 1.0, 1.0, 0.0]), 8.0)
    assert loss.envy.tolist() == [0.0, 1.0, 1.0, 2.0]
    assert loss.shortfall.tolist() == [0.0, 0.0, 0.0, 1.0]


def test_plenty_is_divided_without_a_price() -> None:
    gain = np.linspace(0.0, 1.0, 5)[None].repeat(2, axis=0)
    assert divisible_rounds(gain, np.array([1, 2]), 100.0).tolist() == [4.0, 4.0]
