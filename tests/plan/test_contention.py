"""How crowded it will be, and until when a finish counts as on time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shockwave.model.view import Floats
from shockwave.plan.arrivals import ExpectedArrivals
from shockwave.plan.contention import Crowd, fair_by_crowd, fluid_finishes

ROUND = 120.0
NOBODY = ExpectedArrivals(np.empty(0), np.empty(0), np.empty(0))


def crowd(
    gpus: list[float],
    remaining: list[float],
    *,
    elapsed: float = 0.0,
    active_before: float = 0.0,
    coming: ExpectedArrivals = NOBODY,
) -> Crowd:
    """Jobs that have waited for ``elapsed`` seconds among ``active_before`` jobs."""
    count = len(gpus)
    rounds = elapsed / ROUND
    return Crowd.of(
        np.full(count, elapsed),
        np.array(gpus),
        np.array(remaining),
        np.array(remaining),
        np.full(count, active_before * rounds),
        np.full(count, rounds),
        coming,
    )


def latest(jobs: Crowd, finish: Floats, *, gpus: int, horizon: float, slack: float = 1.0) -> Floats:
    return fair_by_crowd(
        jobs, finish, slack=slack, gpus_total=gpus, round_seconds=ROUND, horizon_seconds=horizon
    )


def test_the_smallest_gpu_work_is_done_first() -> None:
    """Two GPUs: 100, then 100 + 400, then 100 + 400 + 800 GPU-seconds."""
    jobs = crowd([1.0, 2.0, 1.0], [400.0, 400.0, 100.0])
    assert fluid_finishes(jobs, 0.0, 2).tolist() == [400.0, 650.0, 100.0]


def test_overhead_delays_those_behind() -> None:
    jobs = crowd([1.0, 1.0], [100.0, 200.0])
    assert fluid_finishes(jobs, 60.0, 1).tolist() == [160.0, 420.0]


def test_expected_jobs_compete_but_cannot_be_done_before_they_come() -> None:
    coming = ExpectedArrivals(np.array([500.0]), np.array([1.0]), np.array([50.0]))
    finish = fluid_finishes(crowd([1.0], [400.0], coming=coming), 0.0, 1)
    assert finish.tolist() == [450.0, 550.0]


@given(st.floats(50.0, 4000.0), st.floats(1.0, 2.0), st.floats(0.0, 1000.0))
def test_a_job_alone_has_the_limit_times_its_runtime(
    total: float, slack: float, elapsed: float
) -> None:
    """From its arrival; by then it must be done, and what it waited is part of that."""
    jobs = crowd([1.0], [total], elapsed=elapsed, active_before=1.0)
    found = latest(jobs, np.array([total]), gpus=4, horizon=20_000.0, slack=slack)
    assert found[0] == pytest.approx(max(slack * total - elapsed, 0.0), abs=1e-6)


def test_a_crowd_that_lasts_allows_its_multiple() -> None:
    """Eight jobs on two GPUs throughout: four times the runtime, from the arrival on."""
    jobs = crowd([1.0] * 8, [600.0] * 8, elapsed=240.0, active_before=8.0)
    found = latest(jobs, np.full(8, 1e9), gpus=2, horizon=9600.0)
    assert found == pytest.approx(np.full(8, 4 * 600.0 - 240.0))


def test_a_crowd_that_leaves_allows_less() -> None:
    """Four on one GPU until 1200 s, then the long one alone: T = X (4 * 1200 + T - 1200) / T."""
    jobs = crowd([1.0] * 4, [2000.0, 400.0, 400.0, 400.0])
    found = latest(jobs, np.array([1e9, 1200.0, 1200.0, 1200.0]), gpus=1, horizon=8000.0)
    by_hand = (2000.0 + np.sqrt(2000.0**2 + 4 * 2000.0 * 3600.0)) / 2
    assert found[0] == pytest.approx(by_hand, rel=0.01)


def test_always_on_time_within_the_horizon_is_infinite() -> None:
    jobs = crowd([1.0] * 8, [5000.0] * 8)
    assert np.all(np.isinf(latest(jobs, np.full(8, 1e9), gpus=1, horizon=3000.0)))


some_crowds = st.lists(
    st.tuples(st.sampled_from([1.0, 2.0, 4.0]), st.integers(10, 5000).map(float)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=100)
@given(some_crowds, st.integers(1, 8), st.sampled_from([0.0, 600.0, 3600.0]))
def test_never_stricter_than_being_alone_and_looser_with_more_slack(
    rows: list[tuple[float, float]], gpus: int, elapsed: float
) -> None:
    gangs, remaining = (list(column) for column in zip(*rows, strict=True))
    jobs = crowd(gangs, remaining, elapsed=elapsed, active_before=float(len(rows)))
    finish = fluid_finishes(jobs, 60.0, gpus)
    horizon = float(finish.max()) * 2
    strict, loose = (latest(jobs, finish, gpus=gpus, horizon=horizon, slack=s) for s in (1.0, 1.3))
    assert np.all(strict >= np.array(remaining) - elapsed - 1e-6)
    assert np.all(loose >= strict - 1e-6)


def test_jobs_to_come_raise_the_crowd_of_those_that_are_there() -> None:
    coming = ExpectedArrivals(np.array([100.0, 200.0]), np.ones(2), np.full(2, 1000.0))
    without, with_them = crowd([1.0], [1000.0]), crowd([1.0], [1000.0], coming=coming)
    alone = latest(without, np.array([1e9]), gpus=1, horizon=6000.0)[0]
    joined = latest(with_them, np.full(3, 1e9), gpus=1, horizon=6000.0)[0]
    assert alone == pytest.approx(1000.0)
    assert joined > 2000.0
