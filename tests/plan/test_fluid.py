"""Fluid processor sharing against hand-computed cases and a naive reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shockwave.measure import fluid_finish_seconds
from shockwave.model.view import Floats


def finish(
    jobs: list[tuple[float, float, int]], gpus: int, weight: list[float] | None = None
) -> list[float]:
    """``jobs`` are (arrival, work, gang)."""
    arrival, work, gang = (np.array(column) for column in zip(*jobs, strict=True))
    weights = None if weight is None else np.array(weight)
    times = fluid_finish_seconds(arrival.astype(float), work.astype(float), gang, gpus, weights)
    return [float(time) for time in times]


def reference(
    jobs: list[tuple[float, float, int]], gpus: int, weight: list[float] | None = None
) -> Floats:
    """The definition, step by step: one remaining work per job, shares by bisection."""
    weights = weight or [1.0] * len(jobs)
    left = [work for _, work, _ in jobs]
    done = np.full(len(jobs), np.nan)
    now = 0.0
    while np.isnan(done).any():
        active = [j for j in range(len(jobs)) if jobs[j][0] <= now and np.isnan(done[j])]
        later = [arrival for arrival, _, _ in jobs if arrival > now]
        if not active:
            now = min(later)
            continue
        rates = dict.fromkeys(active, 1.0)
        if sum(jobs[j][2] for j in active) > gpus:
            low, high = 0.0, 1e6
            for _ in range(200):
                level = (low + high) / 2
                used = sum(min(jobs[j][2], weights[j] * level) for j in active)
                low, high = (level, high) if used < gpus else (low, level)
            rates = {j: min(jobs[j][2], weights[j] * low) / jobs[j][2] for j in active}
        step = min(left[j] / rates[j] for j in active)
        if later:
            step = min(step, min(later) - now)
        at_arrival = bool(later) and now + step >= min(later)
        now = min(later) if at_arrival else now + step
        for j in active:
            left[j] -= rates[j] * step
            if left[j] <= 1e-9:
                done[j] = now
    return done


def test_a_job_alone_takes_its_exclusive_runtime() -> None:
    assert finish([(5.0, 100.0, 4)], gpus=4) == [105.0]


def test_jobs_that_fit_do_not_slow_each_other() -> None:
    assert finish([(0.0, 100.0, 2), (0.0, 50.0, 2)], gpus=4) == [100.0, 50.0]


def test_two_jobs_share_one_gpu_equally() -> None:
    # Both at half speed until the short one is done at 100; 50 of the long one are left.
    assert finish([(0.0, 100.0, 1), (0.0, 50.0, 1)], gpus=1) == [150.0, 100.0]


def test_what_a_small_gang_cannot_use_goes_to_the_others() -> None:
    # Equal shares of 4 GPUs are 2 and 2; the small job takes 1, so the large one has 3 of 4.
    assert finish([(0.0, 300.0, 1), (0.0, 75.0, 4)], gpus=4) == [300.0, 100.0]


def test_a_late_arrival_takes_its_share_from_then_on() -> None:
    # 0-60 alone; from 60 on half speed each: 40 left takes 80 s; then 60 left of the second.
    assert finish([(0.0, 100.0, 1), (60.0, 100.0, 1)], gpus=1) == [140.0, 200.0]


def test_weights_scale_shares() -> None:
    # Two thirds and one third of the GPU until 90, when the heavy one is done.
    assert finish([(0.0, 60.0, 1), (0.0, 60.0, 1)], 1, [2.0, 1.0]) == [90.0, 120.0]


def test_an_idle_gap_between_jobs() -> None:
    assert finish([(0.0, 10.0, 1), (1000.0, 10.0, 1)], gpus=1) == [10.0, 1010.0]


def test_no_jobs() -> None:
    empty = np.empty(0)
    assert len(fluid_finish_seconds(empty, empty, np.empty(0, dtype=np.int64), 4)) == 0


some_jobs = st.lists(
    st.tuples(
        st.integers(0, 500).map(float),
        st.integers(1, 400).map(float),
        st.sampled_from([1, 2, 3, 8]),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=60)
@given(some_jobs, st.integers(1, 16))
def test_agrees_with_the_definition(jobs: list[tuple[float, float, int]], gpus: int) -> None:
    assert finish(jobs, gpus) == pytest.approx(reference(jobs, gpus), rel=1e-6)


@settings(max_examples=60)
@given(some_jobs, st.integers(1, 16), st.data())
def test_agrees_with_the_definition_with_weights(
    jobs: list[tuple[float, float, int]], gpus: int, data: st.DataObject
) -> None:
    weight = data.draw(
        st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=len(jobs), max_size=len(jobs))
    )
    assert finish(jobs, gpus, weight) == pytest.approx(reference(jobs, gpus, weight), rel=1e-6)
