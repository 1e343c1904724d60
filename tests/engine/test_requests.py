"""What people may ask of a running scheduler: to cancel, hold, requeue or change a job, and to
drain a node."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.engine.runs import Run, make_job

from shockwave.model.cluster import Cluster, Node
from shockwave.model.events import (
    CancelRequested,
    JobCancelled,
    JobChanged,
    JobHeld,
    JobReleased,
    JobStarted,
    JobStopped,
    NodeDrained,
    NodeResumed,
    Request,
    RequeueRequested,
    StopReason,
)
from shockwave.model.job import TraceJob


def run_with(jobs: list[TraceJob], *asked: Request, cluster: Cluster) -> Run:
    return Run(jobs, cluster=cluster, asked=asked, skip=False).go()


def test_a_running_job_that_is_cancelled_leaves_its_gpus_to_the_next() -> None:
    jobs = [make_job("a", (32, 90, 50.0)), make_job("b", (32, 1, 50.0))]
    run = run_with(jobs, CancelRequested(150.0, "a"), cluster=Cluster.uniform(1))
    assert [(e.time, e.job) for e in run.of(JobCancelled)] == [(200.0, "a")]
    assert run.finishes == {"b": pytest.approx(260.0)}


def test_a_waiting_job_that_is_cancelled_never_starts() -> None:
    jobs = [make_job("a", (32, 5, 50.0)), make_job("b", (32, 1, 50.0))]
    run = run_with(jobs, CancelRequested(100.0, "b"), cluster=Cluster.uniform(1))
    assert run.starts == [(0.0, "a")]
    assert set(run.finishes) == {"a"}


def test_cancelling_what_is_gone_or_unknown_does_nothing() -> None:
    jobs = [make_job("a", (32, 1, 50.0)), make_job("b", (32, 6, 50.0))]
    asked = [CancelRequested(200.0, "a"), CancelRequested(200.0, "nobody")]
    run = run_with(jobs, *asked, cluster=Cluster.uniform(2))
    assert run.of(JobCancelled) == []
    assert set(run.finishes) == {"a", "b"}


def test_a_job_that_is_held_starts_when_it_is_released() -> None:
    jobs = [make_job("a", (32, 1, 150.0)), make_job("b", (32, 1, 50.0))]
    asked: list[Request] = [JobHeld(100.0, "b"), JobReleased(350.0, "b")]
    run = run_with(jobs, *asked, cluster=Cluster.uniform(1))
    assert run.starts == [(0.0, "a"), (400.0, "b")]


def test_a_running_job_that_is_held_goes_on_but_does_not_start_again() -> None:
    jobs = [make_job("a", (32, 1, 350.0)), make_job("b", (32, 1, 350.0))]
    asked: list[Request] = [
        JobHeld(100.0, "a"), JobHeld(100.0, "b"), RequeueRequested(200.0, "b"),
        JobReleased(600.0, "b"),
    ]  # fmt: skip
    run = run_with(jobs, *asked, cluster=Cluster.uniform(2))
    assert run.finishes["a"] == pytest.approx(360.0)
    assert run.starts == [(0.0, "a"), (0.0, "b"), (600.0, "b")]


def test_a_job_that_is_requeued_gives_its_gpus_to_who_waits() -> None:
    jobs = [make_job("a", (32, 1, 350.0)), make_job("b", (32, 1, 50.0), weight=2.0)]
    run = run_with(jobs, RequeueRequested(100.0, "a"), cluster=Cluster.uniform(1))
    (stop,) = run.of(JobStopped)
    assert (stop.time, stop.job, stop.reason) == (100.0, "a", StopReason.PREEMPTED)
    assert stop.epochs_done == pytest.approx(90 / 350)
    assert set(run.finishes) == {"a", "b"}


def test_a_waiting_job_that_needs_less_than_it_said_starts_sooner() -> None:
    first = make_job("a", (32, 1, 350.0), gpus=2)
    wide = make_job("b", (32, 1, 50.0), gpus=4)
    smaller = JobChanged(150.0, replace(wide.spec, gpus=2))
    run = run_with([first, wide], smaller, cluster=Cluster.uniform(4))
    assert run.starts == [(0.0, "a"), (200.0, "b")]
    (start,) = [event for event in run.of(JobStarted) if event.job == "b"]
    assert sum(len(slots) for _, slots in start.placement) == 2


def test_a_drained_node_gives_up_its_gangs_without_loss_until_it_is_resumed() -> None:
    cluster = Cluster((Node("n0", 1), Node("n1", 1)))
    jobs = [make_job("a", (32, 1, 350.0)), make_job("b", (32, 1, 350.0))]
    run = run_with(jobs, NodeDrained(100.0, "n1"), NodeResumed(300.0, "n1"), cluster=cluster)
    placed = [(e.time, e.job, e.placement[0][0]) for e in run.of(JobStarted)]
    assert placed == [(0.0, "a", "n0"), (0.0, "b", "n1"), (300.0, "b", "n1")]
    (stop,) = run.of(JobStopped)
    assert (stop.time, stop.job, stop.reason) == (100.0, "b", StopReason.PREEMPTED)
    assert stop.epochs_done == pytest.approx(90 / 350)
    assert run.finishes == {"a": pytest.approx(360.0), "b": pytest.approx(300 + 10 + 260)}


def test_draining_twice_or_resuming_what_is_up_does_nothing() -> None:
    cluster = Cluster((Node("n0", 1), Node("n1", 1)))
    asked: list[Request] = [
        NodeResumed(0.0, "n0"), NodeDrained(0.0, "nowhere"), NodeDrained(100.0, "n1"),
        NodeDrained(200.0, "n1"), NodeResumed(300.0, "n1"), NodeResumed(300.0, "n1"),
    ]  # fmt: skip
    run = run_with([make_job("a", (32, 1, 500.0))], *asked, cluster=cluster)
    assert run.of(JobStopped) == []
    assert run.finishes == {"a": pytest.approx(510.0)}
