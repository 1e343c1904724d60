"""Jobs that need no GPU: they run beside the others, and change nothing for them."""

from __future__ import annotations

import pytest
from tests.engine.runs import Run, make_job
from tests.policies import quick

from shockwave.measure import fold_history, summarize
from shockwave.model.cluster import Cluster
from shockwave.model.events import CancelRequested, JobCancelled, RoundDecided, Starts
from shockwave.policies.registry import POLICIES
from shockwave.predict import registry as predictors

TWO = Cluster.uniform(2)


def workload(*, with_cpu_jobs: bool) -> list:  # type: ignore[type-arg]
    gpu = [make_job(f"g{n}", (1, 4, 60.0), gpus=1 + n % 2, arrival=30.0 * n) for n in range(5)]
    cpu = [make_job(f"c{n}", (1, 3, 50.0), gpus=0, arrival=45.0 * n) for n in range(3)]
    return [*gpu, *(cpu if with_cpu_jobs else ())]


@pytest.mark.parametrize("starts", Starts)
@pytest.mark.parametrize("name", [name for name in POLICIES.names() if "oracle" not in name])
def test_the_others_are_scheduled_as_if_they_were_not_there(name: str, starts: Starts) -> None:
    found = []
    for with_cpu_jobs in (False, True):
        policy = quick.create(name)
        run = Run(
            workload(with_cpu_jobs=with_cpu_jobs),
            cluster=TWO,
            policy=policy,
            predictor=predictors.create(policy.predictor),
            starts=starts,
        ).go()
        found.append({job: time for job, time in run.finishes.items() if job.startswith("g")})
        assert all((view.gpus > 0).all() for view in run.views)
    assert found[0] == found[1]
    assert set(run.finishes) == {job.spec.id for job in workload(with_cpu_jobs=True)}


def test_they_start_although_all_gpus_are_taken_and_are_never_preempted() -> None:
    jobs = [make_job("g", (1, 10, 60.0), gpus=2), make_job("c", (1, 3, 50.0), gpus=0, arrival=150)]
    run = Run(jobs, cluster=TWO, starts=Starts.IMMEDIATE).go()
    assert {job: time for time, job in run.starts}["c"] == 150.0
    assert len(run.starts) == 2


def test_no_more_of_them_run_at_once_than_may() -> None:
    run = Run([make_job(f"c{n}", (1, 2, 50.0), gpus=0) for n in range(3)], cluster=TWO)
    run.loop.most_without_gpus = 1
    run.go()
    begins = [time for time, _ in run.starts]
    ends = sorted(run.finishes.values())
    assert all(begin >= end for begin, end in zip(begins[1:], ends, strict=False))


def test_they_are_counted_in_no_share_and_no_figure() -> None:
    with_cpu, without = (
        Run(workload(with_cpu_jobs=flag), cluster=TWO).go() for flag in (True, False)
    )
    assert {event.active for event in with_cpu.of(RoundDecided)} <= set(range(6))
    told, plain = (summarize(fold_history(run.events)) for run in (with_cpu, without))
    for name in ("jobs", "worst_ftf_static", "worst_ftf_themis", "mean_jct_seconds"):
        assert told[name] == plain[name]


def test_one_that_runs_can_be_cancelled() -> None:
    run = Run(
        [make_job("c", (1, 9, 60.0), gpus=0)],
        cluster=TWO,
        asked=[CancelRequested(200.0, "c")],
    ).go()
    assert [event.job for event in run.of(JobCancelled)] == ["c"]
