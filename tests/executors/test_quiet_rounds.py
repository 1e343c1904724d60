"""Skipping rounds in which nothing happens changes nothing that happens."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.engine.runs import Run, make_job

from shockwave.engine.rounds import Rounds
from shockwave.executors.faults import Fault, JobCrash, JobFailure, NodeFailure, NodeRecovery
from shockwave.model.cluster import Cluster, Node
from shockwave.model.events import RoundDecided
from shockwave.model.job import JobSpec, TraceJob
from shockwave.policies import registry
from shockwave.testing.workloads import random_jobs

FAULTS: tuple[Fault, ...] = (
    JobCrash(1500.0, "job-1"),
    NodeFailure(2000.0, "n1"),
    JobFailure(2500.0, "job-3", "out of memory"),
    JobCrash(3333.0, "job-5"),
    NodeRecovery(4000.0, Node("n1", 4)),
)


def profiled(spec: JobSpec) -> JobSpec:
    return spec


def unprofiled(spec: JobSpec) -> JobSpec:
    """Every speed has to be measured."""
    return replace(spec, epoch_seconds=tuple(math.nan for _ in spec.epoch_seconds))


def misprofiled(spec: JobSpec) -> JobSpec:
    """Later configurations are slower than declared."""
    wrong = tuple(seconds / (index + 1) for index, seconds in enumerate(spec.epoch_seconds))
    return replace(spec, epoch_seconds=wrong)


@pytest.mark.parametrize("declare", [profiled, unprofiled, misprofiled])
@pytest.mark.parametrize("name", ["fifo", "srtf", "allox", "gavel"])
@pytest.mark.parametrize("seed", range(4))
def test_skipping_gives_the_same_run(
    name: str, seed: int, declare: Callable[[JobSpec], JobSpec]
) -> None:
    jobs = [TraceJob(declare(job.spec), job.regimes) for job in random_jobs(seed, count=14)]
    skipping, asking = (
        Run(
            jobs,
            cluster=Cluster.uniform(8),
            policy=registry.create(name),
            rounds=Rounds(),
            faults=FAULTS if seed % 2 else (),
            skip=skip,
        ).go()
        for skip in (True, False)
    )
    assert skipping.finishes == pytest.approx(asking.finishes, abs=1e-5)
    assert [job for _, job in skipping.starts] == [job for _, job in asking.starts]
    for mine, theirs in zip(skipping.starts, asking.starts, strict=True):
        assert mine[0] == theirs[0]
    for stop, expected in zip(skipping.stops, asking.stops, strict=True):
        assert stop[:2] == expected[:2]
        assert stop[2] == pytest.approx(expected[2], abs=1e-5)
    counts = [sum(event.rounds for event in run.of(RoundDecided)) for run in (skipping, asking)]
    assert counts[0] == counts[1] == skipping.loop.state.rounds_scheduled


def test_rounds_are_really_skipped() -> None:
    run = Run([make_job("a", (32, 10, 1000.0))]).go()
    decided = [(event.round, event.rounds) for event in run.of(RoundDecided)]
    # One round in which the first regime is told, one decision up to the first epoch's
    # measurement at most, and one to the end at 10,010 s.
    assert len(decided) <= 3
    assert sum(rounds for _, rounds in decided) == 101
    assert run.finishes == {"a": pytest.approx(10_010.0)}


def test_what_was_measured_does_not_depend_on_skipping() -> None:
    """A regime that begins and ends within skipped rounds was measured all the same."""
    job = make_job(
        "a", (32, 3, 200.0), (64, 3, 150.0), (32, 3, 200.0), profile={32: math.nan, 64: math.nan}
    )
    runs = [Run([job], skip=skip).go() for skip in (True, False)]
    measured = [run.loop.state.table.measured[0].tolist() for run in runs]
    assert measured == [[200.0, 150.0], [200.0, 150.0]]
