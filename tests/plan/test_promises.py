"""Intervals that are corrected by how earlier ones came out."""

from __future__ import annotations

import numpy as np
import pytest

from shockwave.plan.promises import Intervals, Promises, Told, coverage

UNIT = 120.0


def intervals(low: float, middle: float, high: float, count: int = 1) -> Intervals:
    return Intervals(np.full(count, low), np.full(count, middle), np.full(count, high))


def promised(truth: np.ndarray, told: Intervals, about: Told = Told.START) -> Promises:
    """One job after the other is told the same, and comes out as the truth says."""
    promises = Promises()
    came_true = promises.started if about == Told.START else promises.finished
    for handle, seconds in enumerate(truth.tolist()):
        promises.remember(about, np.array([handle]), 0.0, told)
        came_true(np.array([handle]), np.array([seconds]), UNIT)
    return promises


@pytest.mark.parametrize("about", list(Told))
@pytest.mark.parametrize("bias", [0.5, 1.0, 2.0])
def test_after_enough_errors_intervals_hold_about_four_in_five(bias: float, about: Told) -> None:
    """In cases like those before; of running jobs a few less, of waiting ones a few more."""
    rng = np.random.default_rng(4)
    truth = 2000.0 * bias * rng.lognormal(0.0, 0.4, 800)
    promises = promised(truth[:400], intervals(1900.0, 2000.0, 2100.0), about)
    corrected = promises.corrected(about, intervals(1900.0, 2000.0, 2100.0, 400), 0.0, UNIT)
    came_out = coverage(corrected, truth[400:])
    assert came_out is not None
    assert 0.66 <= came_out.inside <= 0.92


def test_where_samples_agree_an_interval_stays_narrower_than_where_they_do_not() -> None:
    rng = np.random.default_rng(3)
    promises = promised(rng.uniform(500.0, 3500.0, 100), intervals(1500.0, 2000.0, 2500.0))
    sure, unsure = (
        promises.corrected(Told.START, intervals(2000.0 - d, 2000.0, 2000.0 + d), 0.0, UNIT)
        for d in (50.0, 1000.0)
    )
    assert 2 * (sure.high - sure.low) < unsure.high - unsure.low
    assert sure.high - sure.low > 2 * 50.0  # but the errors count for it as well


def test_errors_grow_less_than_samples_disagree() -> None:
    """Jobs that were sure ran late; ten times the spread is not ten times as late."""
    promises = promised(np.full(40, 3000.0), intervals(1990.0, 2000.0, 2010.0))
    moved = [
        float(promises.corrected(Told.START, told, 0.0, UNIT).high[0] - told.high[0])
        for told in (intervals(1990.0, 2000.0, 2010.0), intervals(0.0, 2000.0, 4000.0))
    ]
    assert moved[0] == pytest.approx(1020.0)  # it holds its middle with some room
    assert moved[0] < moved[1] < 5 * moved[0]


def test_intervals_that_were_too_wide_become_narrower() -> None:
    truth = np.full(400, 2000.0)
    promises = promised(truth, intervals(500.0, 2000.0, 9000.0))
    corrected = promises.corrected(Told.START, intervals(500.0, 2000.0, 9000.0), 0.0, UNIT)
    assert corrected.high[0] - corrected.low[0] < 100.0


@pytest.mark.parametrize("about", list(Told))
def test_before_there_are_errors_the_usual_ones_count(about: Told) -> None:
    told = intervals(1900.0, 2000.0, 2100.0)
    first = Promises().corrected(about, told, 0.0, UNIT)
    assert first.low[0] < 1900.0
    assert first.high[0] > 2100.0
    exact = promised(np.full(400, 2000.0), told, about).corrected(about, told, 0.0, UNIT)
    assert 5 * (exact.high - exact.low) < first.high - first.low


def test_an_interval_holds_its_middle_and_lies_in_the_future() -> None:
    rng = np.random.default_rng(2)
    told = intervals(100.0, 200.0, 300.0)
    promises = promised(rng.uniform(0.0, 5000.0, 100), told)
    for about in Told:
        corrected = promises.corrected(about, told, 0.0, UNIT)
        assert 0.0 <= corrected.low[0] <= corrected.middle[0] <= corrected.high[0]


def test_what_is_overdue_counts_before_the_truth_is_known() -> None:
    """Else only those who came early would count while the others are still waited for."""
    told = intervals(900.0, 1000.0, 1100.0)
    early = promised(np.full(30, 1000.0), told)
    handles = np.arange(100, 160)
    early.remember(Told.START, handles, 0.0, intervals(900.0, 1000.0, 1100.0, 60))
    before = early.corrected(Told.START, told, 500.0, UNIT)
    after = early.corrected(Told.START, told, 5000.0, UNIT)
    assert after.high[0] > before.high[0]


def test_errors_of_others_do_not_exclude_what_is_foretold() -> None:
    """All came three times as late as told; the next may still be as foretold."""
    told = intervals(1000.0, 1000.0, 1000.0)
    corrected = promised(np.full(400, 3000.0), told).corrected(Told.START, told, 0.0, UNIT)
    assert corrected.middle[0] == pytest.approx(3000.0)
    assert corrected.low[0] <= 1000.0
    assert corrected.high[0] >= 3000.0


def test_the_middle_moves_only_as_far_as_the_errors_agree() -> None:
    told = intervals(1000.0, 1000.0, 1000.0)
    truth = np.tile([500.0, 1000.0, 1500.0], 20)
    corrected = promised(truth, told).corrected(Told.START, told, 0.0, UNIT)
    assert corrected.middle[0] == 1000.0


def test_starts_and_finishes_have_errors_of_their_own() -> None:
    told = intervals(900.0, 1000.0, 1100.0)
    promises = promised(np.full(40, 4000.0), told)
    start = promises.corrected(Told.START, told, 0.0, UNIT)
    finish = promises.corrected(Told.FINISH_RUNNING, told, 0.0, UNIT)
    assert start.middle[0] > 2 * finish.middle[0]


def test_nothing_told_has_no_coverage() -> None:
    assert coverage(intervals(0.0, 0.0, 0.0, 0), np.empty(0)) is None
