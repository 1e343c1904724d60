"""What people may ask of a running scheduler: cancel a job, drain a node, use it again."""

from __future__ import annotations

import pytest
from shockwave.engine.arrivals import CancelJob, DrainNode, Request, ResumeNode
from tests.engine.runs import Run, make_job

from shockwave.executors.simulation import TraceArrivals
from shockwave.model.cluster import Cluster, Node
from shockwave.model.events import (
    JobCancelled,
    JobStarted,
    JobStopped,
    NodeDown,
    NodeUp,
    StopReason,
)
from shockwave.model.job import TraceJob


class Asking(TraceArrivals):
    """Requests by the time from which they are due."""

    def __init__(self, jobs: list[TraceJob], asked: list[tuple[float, Request]]) -> None:
        super().__init__(jobs)
        self.asked = asked
        self.now = 0.0

    def due(self, now: float) -> list:  # type: ignore[type-arg]
        self.now = now
        return super().due(now)

    def requests(self) -> list[Request]:
        due = [request for time, request in self.asked if time <= self.now]
        self.asked = [item for item in self.asked if item[0] > self.now]
        return due


def run_with(jobs: list[TraceJob], *asked: tuple[float, Request], cluster: Cluster) -> Run:
    run = Run(jobs, cluster=cluster, skip=False)
    run.loop.intake.arrivals = Asking(jobs, list(asked))
    return run.go()


def test_a_running_job_that_is_cancelled_leaves_its_gpus_to_the_next() -> None:
    jobs = [make_job("a", (32, 90, 50.0)), make_job("b", (32, 1, 50.0))]
    run = run_with(jobs, (150.0, CancelJob("a")), cluster=Cluster.uniform(1))
    assert [(e.time, e.job) for e in run.of(JobCancelled)] == [(200.0, "a")]
    assert run.finishes == {"b": pytest.approx(260.0)}


def test_a_waiting_job_that_is_cancelled_never_starts() -> None:
    jobs = [make_job("a", (32, 5, 50.0)), make_job("b", (32, 1, 50.0))]
    run = run_with(jobs, (100.0, CancelJob("b")), cluster=Cluster.uniform(1))
    assert run.starts == [(0.0, "a")]
    assert set(run.finishes) == {"a"}


def test_cancelling_what_is_gone_or_unknown_does_nothing() -> None:
    jobs = [make_job("a", (32, 1, 50.0)), make_job("b", (32, 6, 50.0))]
    asked = [(200.0, CancelJob("a")), (200.0, CancelJob("nobody")), (250.0, CancelJob("a"))]
    run = run_with(jobs, *asked, cluster=Cluster.uniform(2))
    assert run.of(JobCancelled) == []
    assert set(run.finishes) == {"a", "b"}


def test_a_drained_node_gives_up_its_gangs_without_loss_until_it_is_resumed() -> None:
    cluster = Cluster((Node("n0", 1), Node("n1", 1)))
    jobs = [make_job("a", (32, 1, 350.0)), make_job("b", (32, 1, 350.0))]
    run = run_with(jobs, (100.0, DrainNode("n1")), (300.0, ResumeNode("n1")), cluster=cluster)
    placed = [(e.time, e.job, e.placement[0][0]) for e in run.of(JobStarted)]
    assert placed == [(0.0, "a", "n0"), (0.0, "b", "n1"), (300.0, "b", "n1")]
    (stop,) = run.of(JobStopped)
    assert (stop.time, stop.job, stop.reason) == (100.0, "b", StopReason.PREEMPTED)
    assert stop.epochs_done == pytest.approx(90 / 350)
    assert [e.time for e in run.of(NodeDown)] == [100.0]
    assert [e.time for e in run.of(NodeUp)] == [300.0]
    assert run.finishes == {"a": pytest.approx(360.0), "b": pytest.approx(300 + 10 + 260)}


def test_draining_twice_or_resuming_what_is_up_does_nothing() -> None:
    cluster = Cluster((Node("n0", 1), Node("n1", 1)))
    asked: list[tuple[float, Request]] = [
        (0.0, ResumeNode("n0")), (0.0, DrainNode("nowhere")), (100.0, DrainNode("n1")),
        (200.0, DrainNode("n1")), (300.0, ResumeNode("n1")), (300.0, ResumeNode("n1")),
    ]  # fmt: skip
    run = run_with([make_job("a", (32, 1, 500.0))], *asked, cluster=cluster)
    assert len(run.of(NodeDown)) == len(run.of(NodeUp)) == 1
    assert run.finishes == {"a": pytest.approx(510.0)}
