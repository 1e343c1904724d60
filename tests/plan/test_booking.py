"""Deadlines that collide, by hand and against the definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shockwave.plan.booking import _WINDOWS, overbooked


def booked(
    jobs: list[tuple[int, float, float]], gpus: int = 1, horizon: float = 4800.0
) -> list[bool]:
    """``jobs`` are (gang, remaining, deadline)."""
    gangs, remaining, deadline = (np.array(c, dtype=float) for c in zip(*jobs, strict=True))
    flags = overbooked(gangs, remaining, deadline, gpus_total=gpus, horizon_seconds=horizon)
    return [bool(flag) for flag in flags]


def definition(jobs: list[tuple[int, float, float]], gpus: int, horizon: float) -> list[bool]:
    """Window by window: the work that cannot be done after it, and who has some of that."""
    flags = [False] * len(jobs)
    for number in range(1, _WINDOWS + 1):
        window = horizon * number / _WINDOWS
        needs = []
        for _, remaining, deadline in jobs:
            later = max(deadline - window, 0.0)
            needs.append(min(max(remaining - later, 0.0), remaining, window))
        demand = sum(gang * need for (gang, _, _), need in zip(jobs, needs, strict=True))
        if demand > gpus * window:
            flags = [flag or need > 0 for flag, need in zip(flags, needs, strict=True)]
    return flags


def test_a_job_alone_with_slack_need_not_start() -> None:
    assert booked([(1, 1000.0, 3000.0)]) == [False]


def test_two_jobs_with_slack_each_collide() -> None:
    """Either could wait for 1000 s, but one GPU cannot do 4000 s of work within 3000 s."""
    assert booked([(1, 2000.0, 3000.0), (1, 2000.0, 3000.0)]) == [True, True]


def test_a_job_that_can_wait_beyond_the_collision_is_left_alone() -> None:
    jobs = [(1, 2000.0, 3000.0), (1, 2000.0, 3000.0), (1, 100.0, 50_000.0)]
    assert booked(jobs) == [True, True, False]


def test_more_gpus_resolve_it() -> None:
    assert booked([(1, 2000.0, 3000.0), (1, 2000.0, 3000.0)], gpus=2) == [False, False]


def test_nothing_is_watched_without_a_horizon() -> None:
    assert booked([(1, 2000.0, 100.0), (1, 2000.0, 100.0)], horizon=0.0) == [False, False]


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 8),
            st.integers(0, 5000).map(float),
            st.integers(-500, 9000).map(float),
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 12),
    st.sampled_from([480.0, 4800.0, 9600.0]),
)
def test_agrees_with_the_definition(
    jobs: list[tuple[int, float, float]], gpus: int, horizon: float
) -> None:
    assert booked(jobs, gpus, horizon) == definition(jobs, gpus, horizon)
