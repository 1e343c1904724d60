"""Fairness by name: hand-computed cases, and what must hold for every run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shockwave.measure import (
    FAIRNESS,
    envy_ratios,
    finish_time_fairness,
    fold_history,
    jain_index,
)
from shockwave.measure.fairness import active_at
from shockwave.model.cluster import Node
from shockwave.model.errors import InputError
from shockwave.model.events import Event, JobFinished

from .journals import (
    RANKS,
    ToyJob,
    hand_made,
    one_gpu,
    run_started,
    started,
    submitted,
    toy_history,
    toy_workload,
)


def test_static_divides_by_all_jobs_of_the_run() -> None:
    rho = finish_time_fairness(fold_history(one_gpu()), "static")
    assert rho == pytest.approx([250 / 450, 100 / 300, 350 / 300])


def test_themis_divides_by_the_mean_number_of_active_jobs() -> None:
    # Active at the round starts 0, 100, 200, 300: 2, 2, 2, 1. R arrives at 50: mean 5/3.
    rho = finish_time_fairness(fold_history(one_gpu()), "themis")
    assert rho == pytest.approx([250 / 300, 100 / 200, 350 / (100 * 5 / 3)])


def test_egalitarian_divides_by_fluid_sharing() -> None:
    # Halves until 50, thirds until Q is done at 275, halves until R is at 325, P ends at 350.
    rho = finish_time_fairness(fold_history(one_gpu()), "egalitarian")
    assert rho == pytest.approx([250 / 350, 100 / 275, 350 / 275])


def test_a_job_between_two_round_starts_counts_who_was_there_when_it_came() -> None:
    events: list[Event] = [run_started([Node("n0", 1)], restart_seconds=0.0)]
    events += [submitted("A"), started(0.0, "A"), submitted("B", 10.0), submitted("C", 20.0)]
    events += [JobFinished(60.0, "C", 20.0), JobFinished(70.0, "B", 20.0)]
    events += [JobFinished(200.0, "A", 160.0)]
    rho = finish_time_fairness(fold_history(events), "themis")
    assert rho[1:] == pytest.approx([60 / (20 * 2), 40 / (20 * 3)])


def test_jobs_that_did_not_finish_have_no_rho_but_are_contention() -> None:
    history = fold_history(hand_made())
    for name in FAIRNESS:
        assert np.isnan(finish_time_fairness(history, name)).tolist() == [False, False, True]
    # C failed at 250 and was active at the starts of rounds 1 and 2.
    assert active_at(history, np.array([0.0, 100.0, 200.0, 300.0])).tolist() == [1, 3, 2, 1]


def test_an_unknown_definition_is_refused() -> None:
    with pytest.raises(InputError, match="static, themis, egalitarian"):
        finish_time_fairness(fold_history(one_gpu()), "fair")


@pytest.mark.parametrize("name", FAIRNESS)
def test_a_job_alone_that_never_waits_has_rho_one(name: str) -> None:
    events: list[Event] = [
        run_started(restart_seconds=0.0),
        submitted("A", 100.0, 2),
        started(100.0, "A", 1, ("n0", 0), ("n0", 1)),
        JobFinished(430.0, "A", 330.0),
    ]
    assert finish_time_fairness(fold_history(events), name) == pytest.approx([1.0])


jobs_of_a_run = st.lists(
    st.builds(
        ToyJob,
        id=st.uuids().map(str),
        arrival=st.integers(0, 2000).map(float),
        gpus=st.sampled_from([1, 2, 4]),
        work=st.integers(10, 1500).map(float),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=30)
@given(jobs_of_a_run, st.sampled_from(sorted(RANKS)))
def test_egalitarian_is_between_exclusive_and_static_sharing(jobs: list[ToyJob], rank: str) -> None:
    """The fluid share is never more than the gang and never less than M / N GPUs."""
    history = toy_history(jobs, rank)
    exclusive = history.jobs.exclusive_seconds
    fair = FAIRNESS["egalitarian"].fair_jct(history)
    assert (fair >= exclusive * (1 - 1e-9)).all()
    slowest = exclusive * np.maximum(1.0, len(jobs) * history.jobs.gpus / history.gpus)
    assert (fair <= slowest * (1 + 1e-9)).all()


@settings(max_examples=30)
@given(jobs_of_a_run, st.sampled_from(sorted(RANKS)))
def test_envy_is_at_least_one_and_themis_at_most_the_slowdown(
    jobs: list[ToyJob], rank: str
) -> None:
    history = toy_history(jobs, rank)
    assert (envy_ratios(history) >= 1.0).all()
    slowdown = history.jobs.jct / history.jobs.exclusive_seconds
    for name in FAIRNESS:
        assert (finish_time_fairness(history, name) <= slowdown * (1 + 1e-9)).all()


def test_envy_compares_what_both_held_while_both_were_there() -> None:
    # P saw Q hold 100 s while it held none: (100 + 50) / (0 + 50). R saw P hold 150 s.
    assert envy_ratios(fold_history(one_gpu())) == pytest.approx([3.0, 1.0, 4.0])


def test_a_large_gang_gains_only_partly_from_the_gpus_of_a_small_one() -> None:
    # A (2 GPUs) can use B's single GPU as half a gang: (80 / 2 + 50) / (80 + 50) < 1.
    # B (20-180) held 80 s of the 160 s in which A held all of them.
    envy = envy_ratios(fold_history(hand_made()))
    assert envy[0] == 1.0
    assert envy[1] == pytest.approx((160 + 50) / (80 + 50))
    assert envy[2] == pytest.approx((80 + 50) / (0 + 50))  # C held nothing while B was there


def test_envy_of_many_jobs_is_measured_in_blocks_without_counting_a_job_twice() -> None:
    for count in (999, 1001, 4100):
        events: list[Event] = [run_started()]
        for number in range(count):
            events += [submitted(str(number), float(number)), started(float(number), str(number))]
            events.append(JobFinished(number + 100.0, str(number), 90.0))
        envy = envy_ratios(fold_history(events))
        compared = ~np.isnan(envy)
        assert (len(envy), compared.sum()) == (count, min(count, 4000))
        assert (envy[compared] == 1.0).all()  # everybody ran all the time


def test_jain_index() -> None:
    assert jain_index(np.array([2.0, 2.0, 2.0])) == pytest.approx(1.0)
    assert jain_index(np.array([5.0, 0.0, 0.0, np.nan])) == pytest.approx(1 / 3)
    assert jain_index(np.array([1.0, 3.0])) == pytest.approx(16 / 20)
    assert jain_index(np.empty(0)) is None


def test_round_robin_is_fairer_than_first_come() -> None:
    """A sanity check of direction on a mixed workload."""
    worst = {
        rank: np.nanmax(finish_time_fairness(toy_history(toy_workload(), rank), "egalitarian"))
        for rank in ("first-come", "round-robin")
    }
    assert worst["round-robin"] < worst["first-come"]
