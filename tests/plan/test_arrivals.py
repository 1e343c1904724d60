"""What is expected to arrive, and when nothing is expected any more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shockwave.model.view import Floats
from shockwave.plan.arrivals import ArrivalHabits, ExpectedArrivals


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
