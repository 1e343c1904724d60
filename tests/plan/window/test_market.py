"""Budgets, bids and the values of a window."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shockwave.plan.explain import expected_starts, first_bids
from shockwave.plan.window.market import (
    PiecewiseLog,
    budgets,
    fairness_weights,
    productive_seconds,
    progress_fractions,
    window_values,
)
from shockwave.predict.base import Trajectories


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=5), st.floats(0.0, 500.0))
def test_fairness_weights_are_bounded_and_monotone(
    rho_themis: list[float], exponent: float
) -> None:
    weights = fairness_weights(np.sort(np.array(rho_themis)), exponent, lowest=0.1, highest=1e12)
    assert (weights >= 0.1 * (1 - 1e-12)).all()
    assert (weights <= 1e12 * (1 + 1e-12)).all()
    assert (np.diff(weights) >= 0).all()


def test_fairness_weights_take_an_exponent_per_job() -> None:
    weights = fairness_weights(np.array([0.5, 2.0, 2.0]), np.array([3.0, 3.0, 100.0]), lowest=1.0)
    assert weights == pytest.approx([1.0, 8.0, 1e3])


def test_tenant_gains_nothing_by_splitting_its_work() -> None:
    few = budgets(np.ones(2), np.array([0, 1]))
    many = budgets(np.ones(5), np.array([0, 0, 0, 0, 1]))
    assert few[0] == few[1]
    assert many[:4].sum() == pytest.approx(many[4])


def test_weight_scales_the_budget() -> None:
    assert budgets(np.array([1.0, 3.0])).tolist() == [0.5, 1.5]


def test_restart_is_paid_only_by_jobs_that_do_not_run() -> None:
    seconds = productive_seconds(2, 120.0, 20.0, np.array([True, False]))
    assert seconds.tolist() == [[0.0, 120.0, 240.0], [0.0, 100.0, 220.0]]


def test_values_are_expected_logs_over_samples() -> None:
    # One future at 10 s per epoch, one at 20 s: 12 or 6 of 24 epochs in a round.
    futures = Trajectories(np.full((2, 1, 1), 24.0), np.array([[[10.0]], [[20.0]]]))
    fractions = progress_fractions(
        futures, np.zeros(1), np.array([24.0]), np.array([[0.0, 120.0, 480.0]])
    )
    values = window_values(fractions, np.array([2.0]), floor=1e-3)
    assert values[0] == pytest.approx(
        [2 * np.log(1e-3), np.log(0.5) + np.log(0.25), 0.0], abs=1e-12
    )


def test_piecewise_log_meets_the_log_at_its_nodes_and_stays_below() -> None:
    log = PiecewiseLog.nsdi23()
    fraction = np.linspace(0.2, 1.0, 81)
    assert log(log.nodes[1:]) == pytest.approx(np.log(log.nodes[1:]))
    assert (log(fraction) <= np.log(fraction) + 1e-12).all()
    assert float(log(np.array(0.0))) == pytest.approx(np.log(1e-6))


def test_bids_and_starts_explain_a_plan() -> None:
    values = np.array([[0.0, 1.0, 3.0], [0.0, 4.0, 5.0]])
    gpus = np.array([1, 2])
    assert first_bids(values, gpus).tolist() == [1.5, 2.0]
    schedule = np.array([[False, True], [True, False], [False, False]])
    assert expected_starts(schedule, 1000.0, 120.0).tolist() == [1120.0, 1000.0, 1240.0]
