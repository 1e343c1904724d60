"""A fluid cluster rolled forward: by hand, and what must hold whatever the order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plan.jobs import make_futures

from shockwave.plan.futures import Futures
from shockwave.plan.outcome import Prices, costs
from shockwave.plan.rollout import Outcome, roll
from shockwave.plan.stance import STANCES, Index, IndexSettings, Stance

SHORTEST_FIRST = (Stance(0.0, 0.0, 0.0, 0.0),)


def rolled(futures: Futures, stances: tuple[Stance, ...] = SHORTEST_FIRST) -> Outcome:
    return roll(futures, Index(futures, stances, IndexSettings()), 40)


def test_one_gpu_serves_the_shortest_first() -> None:
    outcome = rolled(make_futures([[1200.0, 240.0, 600.0]]))
    first, second, third = outcome.finish[0, 0, [1, 2, 0]]
    assert first == pytest.approx(2.5, abs=0.1)  # 2 rounds of work, and half of the last lost
    assert first < second < third
    assert third == pytest.approx((1200 + 240 + 600) / 120 + 1.5, rel=0.05)
    assert outcome.start[0, 0, 1] == 0.0


def test_samples_that_differ_end_differently_but_begin_alike() -> None:
    """The order is blind: it goes by what is believed, not by what the sample holds."""
    samples = [[240.0, 900.0], [2400.0, 900.0]]
    known = {"mean": [300.0, 900.0], "size": [300.0, 900.0], "late": [400.0, 900.0]}
    outcome = rolled(make_futures(samples, **known))
    assert (outcome.start[0, :, 0] == 0.0).all()
    assert outcome.finish[0, 0, 0] < outcome.finish[0, 1, 0]


def test_expected_jobs_do_not_start_before_they_come() -> None:
    outcome = rolled(make_futures([[600.0, 120.0]], release=[0.0, 3600.0], present=1))
    assert outcome.start[0, 0, 1] > 28.0  # to within half a step


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 25), st.integers(1, 8))
def test_nobody_is_faster_than_alone_and_the_whole_not_faster_than_the_gpus(
    seed: int, jobs: int, gpus: int
) -> None:
    rng = np.random.default_rng(seed)
    remaining = rng.uniform(60.0, 20_000.0, (3, jobs))
    gangs = rng.integers(1, gpus + 1, jobs).astype(float)
    futures = make_futures(
        remaining.tolist(), gpus=gangs, gpus_total=gpus, running=rng.random(jobs) < 0.5,
        fair_stretch=rng.uniform(1.0, 5.0, jobs), horizon=30_000.0,
    )  # fmt: skip
    outcome = rolled(futures, STANCES)
    assert (outcome.finish >= remaining / 120.0 - 1e-3).all()
    assert (outcome.start <= outcome.finish).all()
    work = (remaining * gangs).sum(axis=1) / gpus / 120.0
    assert (outcome.finish.max(axis=2) >= work * (1 - 1e-3)).all()


def test_jobs_that_decide_the_end_take_turns() -> None:
    """Three equal jobs on two GPUs end together, at the work over the GPUs, if they alternate."""
    futures = make_futures([[7200.0] * 3], gpus_total=2, horizon=10_800.0)
    finish = rolled(futures, (Stance(0.0, 1.0, 0.0, 0.0),)).finish
    assert finish == pytest.approx(1.5 * 60.0, rel=0.08)


def test_the_order_that_ends_more_jobs_early_costs_less() -> None:
    futures = make_futures([[240.0, 2400.0]])
    good = Outcome(*np.array([[[[0.0, 2.0]]], [[[2.0, 22.0]]]], dtype=np.float32))
    bad = Outcome(*np.array([[[[20.0, 0.0]]], [[[22.0, 20.0]]]], dtype=np.float32))
    first, second = costs(futures, good.beside(bad), Prices(), 1.045)
    assert first < second


def test_being_late_and_ending_late_cost_extra() -> None:
    """The same completion times are dearer where they break a promise or the horizon."""
    outcome = Outcome(*np.array([[[[0.0, 0.0]]], [[[10.0, 20.0]]]], dtype=np.float32))
    plain = costs(make_futures([[1200.0, 1200.0]]), outcome, Prices(), 1.045)
    late = costs(make_futures([[1200.0, 1200.0]], fair_stretch=1.5), outcome, Prices(), 1.045)
    over = costs(make_futures([[1200.0, 1200.0]], horizon=1200.0), outcome, Prices(), 1.045)
    assert late[0] > plain[0]
    assert over[0] > plain[0]


def test_the_longer_jobs_have_waited_the_less_an_hour_of_the_end_costs() -> None:
    """An end is late relative to all of that time, as completion times count from the arrival."""
    outcome = Outcome(*np.array([[[[0.0, 0.0]]], [[[10.0, 20.0]]]], dtype=np.float32))
    plain = costs(make_futures([[1200.0, 1200.0]]), outcome, Prices(), 1.045)

    def excess(since: float) -> float:
        futures = make_futures([[1200.0, 1200.0]], horizon=1200.0, since=since)
        return float(costs(futures, outcome, Prices(), 1.045)[0] - plain[0])

    assert excess(0.0) == pytest.approx(Prices().makespan)
    assert excess(1200.0) == pytest.approx(Prices().makespan / 2)
