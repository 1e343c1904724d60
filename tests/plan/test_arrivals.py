"""What is expected to arrive, and when nothing is expected any more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shockwave.model.view import Floats
from shockwave.plan.arrivals import ArrivalHabits, ExpectedArrivals, SampledArrivals


def expect(
    now: float,
    arrival: Floats,
    *,
    habits: ArrivalHabits | None = None,
    horizon: float = 1e9,
    gpus_total: int = 4,
) -> ExpectedArrivals:
    count = len(arrival)
    return (habits or ArrivalHabits()).expect(
        now,
        arrival,
        np.arange(1, count + 1),
        10.0 * np.arange(1.0, count + 1.0),
        gpus_total=gpus_total,
        round_seconds=120.0,
        horizon_seconds=horizon,
    )


def test_arrivals_go_on_for_half_the_time_they_lasted() -> None:
    """Ten jobs, one a minute, seen at 600 s: five more within the next 300 s, newest first."""
    coming = expect(600.0, 60.0 * np.arange(10.0))
    assert coming.after_seconds.tolist() == pytest.approx([60.0, 120.0, 180.0, 240.0, 300.0])
    assert coming.gpus.tolist() == [10, 9, 8, 7, 6]
    assert coming.total_seconds.tolist() == [100.0, 90.0, 80.0, 70.0, 60.0]


def test_nothing_is_expected_beyond_the_horizon() -> None:
    assert len(expect(600.0, 60.0 * np.arange(10.0), horizon=130.0)) == 2


def test_nothing_is_expected_once_patience_is_over() -> None:
    """Mean gaps grow while nothing comes, so the wait is judged by the gaps of that moment."""
    arrival = 60.0 * np.arange(10.0)  # the last at 540 s
    habits = ArrivalHabits(patience=2.0)
    # At 640 s: 100 s of silence, two gaps of 64 s. At 680 s: 140 s, two gaps of 68 s.
    assert len(expect(640.0, arrival, habits=habits)) > 0
    assert len(expect(680.0, arrival, habits=habits)) == 0


def test_nothing_is_expected_ever_after() -> None:
    arrival = 60.0 * np.arange(30.0)
    silent = [len(expect(now, arrival)) == 0 for now in np.arange(1740.0, 20_000.0, 60.0).tolist()]
    assert not silent[0]
    assert silent[-1]
    assert silent == sorted(silent)  # once over, always over


@pytest.mark.parametrize("arrival", [[], [0.0], [0.0, 1.0, 2.0], [5.0] * 40])
def test_few_jobs_and_jobs_all_at_once_are_no_habit(arrival: list[float]) -> None:
    assert len(expect(60.0, np.array(arrival))) == 0


def test_no_share_expects_nobody() -> None:
    habits = ArrivalHabits(share_of_span=0.0)
    assert len(expect(600.0, 60.0 * np.arange(10.0), habits=habits)) == 0


@given(
    st.lists(st.integers(0, 5000), min_size=1, max_size=60).map(sorted),
    st.integers(0, 900),
    st.integers(1, 8),
)
def test_expectations_are_jobs_seen_after_now_and_within_bounds(
    arrival: list[int], later: int, gpus_total: int
) -> None:
    times = np.array(arrival, dtype=float)
    now = float(times[-1] + later)
    coming = expect(now, times, horizon=2000.0, gpus_total=gpus_total)
    assert np.all(coming.after_seconds > 0)
    assert np.all(np.diff(coming.after_seconds) > 0)
    assert np.all(coming.after_seconds <= min(0.5 * (now - times[0]), 2000.0) + 1e-6)
    assert len(coming) <= 2 * len(arrival)
    np.testing.assert_allclose(coming.total_seconds, 10.0 * coming.gpus)  # whole jobs, not mixtures


def sampled(now: float, arrival: Floats, *, samples: int = 40, most: int = 64) -> SampledArrivals:
    count = len(arrival)
    return ArrivalHabits().sample(
        samples,
        now,
        arrival,
        np.arange(1, count + 1),
        10.0 * np.arange(1.0, count + 1.0),
        gpus_total=8,
        most=most,
    )


def coming(arrivals: SampledArrivals) -> Floats:
    """[sample] how many jobs come."""
    return np.asarray(np.sum(arrivals.copies * (arrivals.total_seconds > 0), axis=1))


STEADY = 60.0 * np.arange(30.0)


def test_samples_do_not_agree_on_how_long_arrivals_go_on() -> None:
    """After 30 minutes: as long again or longer in a quarter of the samples, a tenth in some."""
    went_on = coming(sampled(1800.0, STEADY))
    assert 0.15 <= np.mean(went_on >= 29) <= 0.35
    assert np.mean(went_on <= 10) >= 0.2
    assert went_on.max() > 80


def test_the_rate_is_that_of_the_latest_jobs() -> None:
    arrivals = sampled(1800.0, STEADY, most=200)
    last = np.where(np.isfinite(arrivals.after_seconds), arrivals.after_seconds, 0.0).max(axis=1)
    np.testing.assert_allclose(coming(arrivals), last / 60.0, atol=1.0)


def test_in_few_places_the_first_come_one_by_one_and_all_are_counted() -> None:
    everybody, few = (sampled(1800.0, STEADY, most=most) for most in (200, 16))
    np.testing.assert_array_equal(coming(few), coming(everybody))
    many = coming(few) > 16
    np.testing.assert_array_equal(few.after_seconds[many, :2], everybody.after_seconds[many, :2])
    assert (np.diff(few.copies[many], axis=1).sum(axis=1) > 0).all()


def test_gaps_are_as_uneven_as_they_were() -> None:
    bursts = np.repeat(3600.0 * np.arange(5.0), 8) + np.tile(np.arange(8.0), 5)
    arrivals = sampled(14_500.0, bursts)
    assert coming(arrivals).std() > 2.0
    after = arrivals.after_seconds
    gaps = np.concatenate([np.diff(row[np.isfinite(row)]) for row in after])
    assert np.median(gaps) < 10.0
    assert gaps.max() > 3000.0


def test_the_longer_nobody_came_the_more_samples_are_over() -> None:
    over = [np.mean(coming(sampled(now, STEADY)) == 0) for now in (1800.0, 2100.0, 2400.0, 9000.0)]
    assert over[0] < 0.1
    assert over == sorted(over)
    assert over[-1] == 1.0


def test_a_silence_as_long_as_earlier_ones_is_no_end() -> None:
    bursts = np.repeat(3600.0 * np.arange(5.0), 8) + np.tile(np.arange(8.0), 5)
    between = sampled(16_200.0, bursts)  # half an hour after the last, halfway to the next
    assert np.mean(coming(between) == 0) <= 0.4


def test_where_many_come_each_place_stands_for_several() -> None:
    arrivals = sampled(1800.0, STEADY, most=8)
    assert arrivals.gpus.shape[1] <= 8
    every_one = coming(sampled(1800.0, STEADY, most=1000))
    np.testing.assert_allclose(coming(arrivals), every_one)


def test_who_comes_is_drawn_alike_whenever_it_is_asked() -> None:
    first, again = sampled(1800.0, STEADY), sampled(1800.0, STEADY)
    np.testing.assert_array_equal(first.after_seconds, again.after_seconds)
    later = sampled(1800.0 + 9e6, STEADY + 9e6)
    np.testing.assert_allclose(first.after_seconds, later.after_seconds)
    np.testing.assert_array_equal(first.gpus, later.gpus)


@pytest.mark.parametrize("arrival", [[], [0.0], [0.0, 1.0, 2.0], [5.0] * 40])
def test_no_habit_no_samples_of_it(arrival: list[float]) -> None:
    assert sampled(60.0, np.array(arrival)).gpus.shape == (40, 0)
