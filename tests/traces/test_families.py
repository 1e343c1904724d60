"""Families of workloads: each is what its name says, and the same for the same seed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from shockwave.model.job import TraceJob
from shockwave.traces.disturb import is_honest
from shockwave.traces.families import FAMILIES, REPORT_SEEDS, TUNE_SEEDS, Workload


def workload(name: str, seed: int = 5) -> Workload:
    return FAMILIES[name].workload(seed)


def load(jobs: Sequence[TraceJob], gpus: int) -> float:
    """GPU-seconds that come, over those that there are from the first arrival to the last."""
    arrivals = [job.spec.arrival_seconds for job in jobs]
    work = sum(job.spec.gpus * job.exclusive_seconds for job in jobs)
    return work / gpus / (max(arrivals) - min(arrivals))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_seed_gives_the_same_workload_and_another_seed_another(name: str) -> None:
    assert workload(name) == workload(name)
    assert workload(name).jobs != workload(name, seed=6).jobs


@pytest.mark.parametrize("name", FAMILIES)
def test_every_workload_can_be_run(name: str) -> None:
    drawn = workload(name)
    ids = [job.spec.id for job in drawn.jobs]
    arrivals = [job.spec.arrival_seconds for job in drawn.jobs]
    assert len(set(ids)) == len(ids)
    assert arrivals == sorted(arrivals)
    assert max(job.spec.gpus for job in drawn.jobs) <= drawn.cluster.gpus
    assert drawn.marked | drawn.without_claim | {crash.job for crash in drawn.crashes} <= set(ids)
    for job in drawn.jobs:
        assert {regime.configuration for regime in job.regimes} <= set(job.spec.configurations)
        assert job.exclusive_seconds > 0
        assert is_honest(job) or job.spec.id in drawn.without_claim


def test_settings_are_chosen_on_other_seeds_and_fewer_families_than_are_reported() -> None:
    assert not set(TUNE_SEEDS) & set(REPORT_SEEDS)
    aside = [family.name for family in FAMILIES.values() if family.kept_aside]
    assert 0 < len(aside) < len(FAMILIES)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("load-60", 0.6), ("load-90", 0.9), ("load-150", 1.5), ("open", 0.95), ("stream", 0.8)],
)
def test_loads_are_what_they_say(name: str, expected: float) -> None:
    drawn = workload(name)
    assert load(drawn.jobs, drawn.cluster.gpus) == pytest.approx(expected, rel=0.02)


def test_the_giant_needs_all_gpus_for_two_hours_in_the_same_stream() -> None:
    drawn = workload("giant")
    (giant,) = (job for job in drawn.jobs if job.spec.id in drawn.marked)
    assert (giant.spec.gpus, giant.exclusive_seconds) == (drawn.cluster.gpus, 7200.0)
    assert tuple(job for job in drawn.jobs if job is not giant) == workload("stream").jobs


@pytest.mark.parametrize(("name", "factor"), [("lies-tenth", 0.1), ("lies-tenfold", 10.0)])
def test_who_lies_is_told_apart_and_is_the_same_job_as_in_the_batch(
    name: str, factor: float
) -> None:
    honest, lying = workload("batch"), workload(name)
    assert honest.marked == lying.marked == lying.without_claim
    assert 0 < len(lying.marked) < len(lying.jobs) / 2
    for truth, told in zip(honest.jobs, lying.jobs, strict=True):
        assert truth.regimes == told.regimes
        if told.spec.id in lying.marked:
            assert told.spec.epochs == max(round(factor * truth.spec.epochs), 1)
        else:
            assert told.spec == truth.spec


def test_age_is_nothing_but_a_later_arrival() -> None:
    for name, days in (("age-week", 7), ("age-year", 365)):
        for young, old in zip(workload("batch").jobs, workload(name).jobs, strict=True):
            later = old.spec.arrival_seconds - young.spec.arrival_seconds
            assert later == pytest.approx(days * 86_400, abs=0.11)
            assert young.regimes == old.regimes


def test_half_of_the_jobs_that_may_speed_up_do_and_nothing_tells_which() -> None:
    jobs = workload("speed-up").jobs
    faster = [job for job in jobs if len(job.regimes) == 2]
    assert 0.3 < len(faster) / len(jobs) < 0.7
    for job in jobs:
        assert job.spec.epoch_seconds[0] / job.spec.epoch_seconds[1] == pytest.approx(20, rel=0.01)
    for job in faster:
        assert job.regimes[0].epochs / job.spec.epochs == pytest.approx(0.1, abs=0.051)


def test_zigzags_change_often_between_three_speeds() -> None:
    changes = [len(job.regimes) - 1 for job in workload("zigzag").jobs]
    assert np.mean(changes) > 4


def test_heavy_tails_reach_from_minutes_to_days_and_gangs_to_the_whole_cluster() -> None:
    jobs = [job for seed in range(3) for job in workload("heavy-tail", seed).jobs]
    hours = sorted(job.exclusive_seconds / 3600 for job in jobs)
    assert hours[0] < 0.2
    assert hours[-1] > 24
    assert max(job.spec.gpus for job in jobs) == 64


def test_a_node_that_fails_comes_back_before_it_fails_again() -> None:
    drawn = workload("failures")
    assert drawn.crashes
    for node in drawn.cluster.nodes:
        times = [
            time
            for outage in drawn.outages
            if outage.node == node.id
            for time in (outage.down_seconds, outage.up_seconds)
        ]
        assert times == sorted(times)


def test_the_documentation_lists_every_family() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "families.md"
    listed = re.findall(r"^\| `([\w-]+)`( \*)? \|", page.read_text(), flags=re.MULTILINE)
    named = {name: bool(star) for name, star in listed if name in FAMILIES}
    assert named == {family.name: family.kept_aside for family in FAMILIES.values()}
