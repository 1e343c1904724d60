"""Immediate starts: whatever frees GPUs is acted on at once, and preemption waits for a round."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.runs import Run, Scripted, make_job

from shockwave.engine.retry import Retries
from shockwave.executors.faults import JobCrash, JobNeverStarts, NodeFailure, NodeRecovery
from shockwave.model.cluster import Cluster, Node
from shockwave.model.events import (
    CancelRequested,
    JobFailed,
    JobHeld,
    JobReleased,
    JobStopped,
    NodeDrained,
    NodeResumed,
    Request,
    RequeueRequested,
    RoundDecided,
    Starts,
    StopReason,
)
from shockwave.model.job import Preemptible, TraceJob
from shockwave.policies.srtf import Srtf

ONE_GPU = Cluster.uniform(1)


def at_once(jobs: list[TraceJob], *asked: Request, **settings: Any) -> Run:
    return Run(jobs, starts=Starts.IMMEDIATE, asked=asked, **settings).go()


def test_an_arrival_starts_when_it_arrives() -> None:
    jobs = [make_job("a", (32, 9, 50.0)), make_job("b", (32, 1, 50.0), arrival=137.5)]
    run = at_once(jobs)
    assert run.starts == [(0.0, "a"), (137.5, "b")]
    assert run.finishes["b"] == pytest.approx(137.5 + 10 + 50)
    in_rounds = Run(jobs).go()
    assert in_rounds.starts == [(0.0, "a"), (200.0, "b")]


def test_an_end_is_the_next_ones_beginning() -> None:
    jobs = [make_job(name, (32, 1, 10.0)) for name in "abc"]
    run = at_once(jobs, cluster=ONE_GPU)
    assert run.starts == [(0.0, "a"), (pytest.approx(20.0), "b"), (pytest.approx(40.0), "c")]
    assert run.finishes["c"] == pytest.approx(60.0)


def test_what_people_ask_for_is_done_at_once() -> None:
    jobs = [
        make_job("a", (32, 1, 900.0)),
        make_job("b", (32, 1, 900.0)),
        make_job("c", (32, 1, 9.0)),
    ]
    run = at_once(
        jobs,
        CancelRequested(130.0, "a"),
        JobHeld(110.0, "c"),
        JobReleased(470.0, "c"),
        RequeueRequested(450.0, "b"),
        cluster=ONE_GPU,
    )
    assert run.starts[:4] == [(0.0, "a"), (130.0, "b"), (450.0, "b"), (pytest.approx(1050.0), "c")]


def test_a_node_is_used_as_soon_as_it_is_there() -> None:
    faults = [NodeFailure(50.0, "n0"), NodeRecovery(260.0, Node("n0", 4))]
    run = at_once([make_job("a", (32, 3, 100.0))], faults=faults)
    assert run.starts == [(0.0, "a"), (260.0, "a")]
    run = at_once(
        [make_job("a", (32, 3, 100.0))], NodeDrained(50.0, "n0"), NodeResumed(260.0, "n0")
    )
    assert run.starts == [(0.0, "a"), (260.0, "a")]


def test_the_end_of_a_back_off_is_the_beginning_of_the_next_try() -> None:
    run = at_once(
        [make_job("a", (32, 40, 50.0)), make_job("b", (32, 3, 50.0))],
        faults=[JobCrash(50.0, "b")],
        retries=Retries(first_back_off_seconds=285.0),
    )
    assert run.starts == [(0.0, "a"), (0.0, "b"), (335.0, "b")]


def test_preemption_waits_for_a_round() -> None:
    """The policy prefers the short job from its arrival on."""
    jobs = [make_job("long", (32, 9, 100.0)), make_job("short", (32, 1, 50.0), arrival=130.0)]
    run = at_once(jobs, cluster=ONE_GPU, policy=Srtf())
    assert run.starts[:2] == [(0.0, "long"), (200.0, "short")]
    (stop,) = run.of(JobStopped)
    assert (stop.time, stop.job) == (200.0, "long")
    back = run.starts[2]
    assert back[1] == "long"
    assert back[0] == pytest.approx(260.0)  # as the short one ends


def test_free_gpus_go_by_the_policys_order() -> None:
    jobs = [
        make_job("first", (32, 1, 40.0)),
        make_job("long", (32, 9, 100.0), arrival=10.0),
        make_job("short", (32, 1, 50.0), arrival=20.0),
    ]
    run = at_once(jobs, cluster=ONE_GPU, policy=Srtf())
    assert [job for _, job in run.starts] == ["first", "short", "long"]


def test_between_rounds_a_policy_decides_on_the_coming_round() -> None:
    jobs = [make_job("a", (32, 9, 50.0)), make_job("b", (32, 1, 50.0), arrival=137.5)]
    run = at_once(jobs)
    assert [view.round for view in run.views if view.now == 137.5] == [2]
    decided = [event.round for event in run.of(RoundDecided)]
    assert decided == sorted(set(decided))


@pytest.mark.parametrize("choice", [Preemptible.NEVER, Preemptible.WHEN_SAVED])
@pytest.mark.parametrize("starts", Starts)
def test_a_job_that_would_lose_its_work_stays_whatever_is_chosen(
    choice: Preemptible, starts: Starts
) -> None:
    """And what the policy wanted to use with its GPUs goes to who fits beside it."""
    jobs = [
        make_job("stays", (32, 5, 100.0), gpus=2, preemptible=choice),
        make_job("wide", (32, 1, 50.0), gpus=4, arrival=50.0),
        make_job("small", (32, 1, 50.0), gpus=2, arrival=100.0),
    ]
    run = Run(jobs, policy=Scripted({}, default=[1]), starts=starts)
    run.loop.policy = Scripted({0: [0]}, default=[1])
    run.go(until=lambda: run.loop.now >= 600.0)
    assert run.of(JobStopped) == []
    assert run.finishes["stays"] == pytest.approx(510.0)
    assert (100.0, "small") in run.starts


@pytest.mark.parametrize("starts", Starts)
def test_a_job_that_never_starts_backs_off_longer_each_time_and_is_given_up(
    starts: Starts,
) -> None:
    jobs = [make_job("stuck", (32, 1, 50.0)), make_job("good", (32, 9, 100.0))]
    run = Run(
        jobs,
        cluster=ONE_GPU,
        starts=starts,
        faults=[JobNeverStarts(0.0, "stuck", start_seconds=30.0)],
        retries=Retries(most_failed_starts=3, first_back_off_seconds=100.0),
    ).go()
    stops = [event for event in run.of(JobStopped) if event.job == "stuck"]
    assert [stop.reason for stop in stops] == [StopReason.NOT_STARTED] * 3
    assert [stop.back_off_seconds for stop in stops] == [100.0, 200.0, 400.0]
    assert [event.job for event in run.of(JobFailed)] == ["stuck"]
    began = 30.0 if starts is Starts.IMMEDIATE else 100.0
    assert (began, "good") in run.starts
    assert set(run.finishes) == {"good"}
