"""Counts become rounds: valid, complete where possible, without idle GPUs, few restarts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.fitting import first_fit
from shockwave.plan.window.improvement import ScheduleSearch
from shockwave.plan.window.packing import pack


@st.composite
def packings(draw: st.DrawFn, largest: int = 6) -> tuple[Ints, Ints, int, int, Bools, Floats]:
    jobs = draw(st.integers(0, 12))
    window = draw(st.integers(1, 8))
    seed = draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    gpus_total = draw(st.integers(1, 12))
    return (
        rng.integers(0, window + 1, jobs),
        rng.integers(1, largest + 1, jobs),
        gpus_total,
        window,
        rng.random(jobs) < 0.5,
        rng.random(jobs),
    )


@given(packings(), st.booleans())
def test_rounds_fit_and_counts_are_kept_or_reported(
    case: tuple[Ints, Ints, int, int, Bools, Floats], large_gangs_first: bool
) -> None:
    counts, gpus, gpus_total, window, running, weight = case
    packing = pack(
        counts,
        gpus,
        gpus_total,
        window,
        running=running,
        weight=weight,
        large_gangs_first=large_gangs_first,
    )
    assert (gpus @ packing.schedule <= gpus_total).all()
    assert (packing.rounds >= counts - packing.missing).all()
    assert (packing.missing[packing.rounds >= counts] == 0).all()


@given(packings())
def test_no_gpu_idles_while_a_job_fits(
    case: tuple[Ints, Ints, int, int, Bools, Floats],
) -> None:
    counts, gpus, gpus_total, window, running, weight = case
    schedule = pack(counts, gpus, gpus_total, window, running=running, weight=weight).schedule
    free = gpus_total - gpus @ schedule
    for now in range(window):
        assert (gpus[~schedule[:, now]] > free[now]).all()


@given(packings())
def test_limit_is_never_exceeded(case: tuple[Ints, Ints, int, int, Bools, Floats]) -> None:
    counts, gpus, gpus_total, window, running, weight = case
    packing = pack(counts, gpus, gpus_total, window, running=running, weight=weight, limit=counts)
    assert (packing.rounds + packing.missing == counts).all()


@given(packings(largest=1))
def test_jobs_of_one_gpu_always_pack(case: tuple[Ints, Ints, int, int, Bools, Floats]) -> None:
    counts, gpus, gpus_total, window, running, weight = case
    while counts.sum() > gpus_total * window:
        counts = np.maximum(counts - 1, 0)
    packing = pack(counts, gpus, gpus_total, window, running=running, weight=weight)
    assert not packing.missing.any()


def test_running_jobs_keep_running() -> None:
    counts = np.full(8, 5)
    running = np.arange(8) % 2 == 1
    packing = pack(counts, np.ones(8, dtype=np.int64), 4, 10, running=running)
    assert packing.starts(running).tolist() == [1, 0] * 4
    assert packing.schedule[running, :5].all()


def test_far_fewer_restarts_than_drawing_lots() -> None:
    rng = np.random.default_rng(0)
    jobs, gpus_total, window = 60, 16, 20
    gpus = rng.choice([1, 2, 4], size=jobs, p=[0.6, 0.3, 0.1])
    counts = rng.integers(0, 8, jobs)
    running = first_fit(gpus, gpus_total)
    packed = pack(counts, gpus, gpus_total, window, running=running)
    naive = np.zeros((jobs, window), dtype=np.bool_)
    remaining = counts.copy()
    for now in range(window):
        order = rng.permutation(np.flatnonzero(remaining > 0))
        chosen = order[first_fit(gpus[order], gpus_total)]
        naive[chosen, now] = True
        remaining[chosen] -= 1
    before = np.concatenate([running[:, None], naive[:, :-1]], axis=1)
    assert packed.starts(running).sum() < 0.5 * (naive & ~before).sum()


def test_heavy_jobs_start_first() -> None:
    weight = np.array([1.0, 3.0, 2.0])
    ones = np.ones(3, dtype=np.int64)
    schedule = pack(ones, ones, 1, 3, weight=weight).schedule
    assert schedule.argmax(axis=1).tolist() == [2, 0, 1]


@given(packings())
def test_improvement_never_loses_welfare_or_breaks_a_round(
    case: tuple[Ints, Ints, int, int, Bools, Floats],
) -> None:
    counts, gpus, gpus_total, window, running, weight = case
    schedule = pack(counts, gpus, gpus_total, window, running=running).schedule
    value = weight[:, None] * np.log(0.1 + np.arange(window + 1.0))
    leftover = 1000.0 * weight[:, None] - 120.0 * np.arange(window + 1.0)
    search = ScheduleSearch(
        schedule,
        gpus,
        gpus_total,
        value,
        leftover,
        makespan_weight=1e-3,
        horizon_floor_seconds=100.0,
    )
    before = search.welfare()
    search.improve(np.inf, sweeps=5)
    assert search.welfare() >= before
    assert (gpus @ search.schedule <= gpus_total).all()
    assert (search.counts == search.schedule.sum(axis=1)).all()
