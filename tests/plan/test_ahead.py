"""Rounds gone through one by one: whole gangs, gaps that are filled, starts that cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plan.jobs import make_futures

from shockwave.plan.ahead import roll_rounds
from shockwave.plan.futures import Futures
from shockwave.plan.rollout import Outcome
from shockwave.plan.stance import STANCES, Index, IndexSettings


def rolled(futures: Futures, stance: int = 0, exact: int = 100) -> Outcome:
    index = Index(futures, STANCES[stance : stance + 1], IndexSettings())
    return roll_rounds(futures, index, exact, 200)


def test_a_small_gang_starts_in_the_gap_that_a_large_one_leaves() -> None:
    """Three GPUs: the pair runs, the other pair is next but does not fit beside it."""
    outcome = rolled(
        make_futures([[600.0, 720.0, 9600.0]], gpus=[2, 2, 1], gpus_total=3, size=[10, 20, 9600])
    )
    assert outcome.start[0, 0].tolist() == [0.0, 5.0, 0.0]
    assert outcome.finish[0, 0].tolist() == [5.0, 11.0, 80.0]


def test_every_start_costs_what_a_start_costs_and_running_jobs_pay_nothing() -> None:
    futures = make_futures([[600.0, 600.0]], gpus_total=2, restart=60.0, running=[True, False])
    assert rolled(futures).finish[0, 0].tolist() == [5.0, 5.5]


def test_a_round_that_is_begun_is_lost_to_the_next_job() -> None:
    outcome = rolled(make_futures([[180.0, 600.0]]))
    assert outcome.finish[0, 0, 0] == pytest.approx(1.5)
    assert outcome.start[0, 0, 1] == 2.0


def test_who_is_expected_competes_from_when_he_comes() -> None:
    """A short job that comes in the third round goes before the long one that waits."""
    jobs = make_futures([[360.0, 9600.0, 120.0]], release=[0.0, 0.0, 300.0], present=2)
    outcome = rolled(jobs)
    assert outcome.start[0, 0].tolist() == [0.0, 4.0, 3.0]


def test_every_sample_goes_by_its_own_stances() -> None:
    """The short one goes first, unless what presses is the fair finish of the long one."""
    futures = make_futures([[600.0, 1200.0]] * 3, fair_stretch=[100.0, 1.1], mean=[600.0, 1200.0])
    index = Index(futures, (STANCES[0], STANCES[8]), IndexSettings())
    stances = np.array([[1, 1], [0, 0], [0, 1]])
    outcome = roll_rounds(futures, index, 100, 200, stances)
    assert outcome.start.shape == (1, 3, 2)
    assert outcome.start[0, 0].tolist() == [10.0, 0.0]
    assert outcome.start[0, 1].tolist() == [0.0, 5.0]
    assert outcome.start[0, 2].tolist() == [0.0, 1.0]  # each has its turn


def test_others_may_come_in_every_sample() -> None:
    """Nobody in the first sample, a short one after a while in the second, at once in the third."""
    futures = replace(
        make_futures([[360.0, 9600.0, 0.0], [360.0, 9600.0, 120.0], [360.0, 9600.0, 120.0]]),
        release=np.array([[0.0, 0.0, np.inf], [0.0, 0.0, 300.0], [0.0, 0.0, 0.0]]),
        gpus=np.ones((3, 3)),
        mean=np.array([[360.0, 9600.0, 1.0], [360.0, 9600.0, 120.0], [360.0, 9600.0, 120.0]]),
        present=2,
    )
    assert rolled(futures).start[0, :, 1].tolist() == [3.0, 4.0, 4.0]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 25), st.integers(1, 8), st.integers(0, 9))
def test_nobody_is_faster_than_alone_and_the_whole_not_faster_than_the_gpus(
    seed: int, jobs: int, gpus: int, stance: int
) -> None:
    rng = np.random.default_rng(seed)
    remaining = rng.uniform(60.0, 20_000.0, (3, jobs))
    gangs = rng.integers(1, gpus + 1, jobs).astype(float)
    futures = make_futures(
        remaining.tolist(), gpus=gangs, gpus_total=gpus, running=rng.random(jobs) < 0.5,
        fair_stretch=rng.uniform(1.0, 5.0, jobs), horizon=30_000.0,
    )  # fmt: skip
    outcome = rolled(futures, stance, exact=20)
    assert (outcome.finish >= remaining / 120.0 - 1e-2).all()
    assert (outcome.start <= outcome.finish).all()
    work = (remaining * gangs).sum(axis=1) / gpus / 120.0
    assert (outcome.finish.max(axis=2) >= work * (1 - 1e-3)).all()
