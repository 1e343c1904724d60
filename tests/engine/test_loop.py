"""The round loop: what it refuses, what it tells, and what it teaches."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engine.runs import Fixed, Learning, RandomPolicy, Run, make_job

from shockwave.engine.retry import Retries
from shockwave.engine.rounds import Rounds
from shockwave.executors.faults import Fault, JobCrash, NodeFailure, NodeRecovery
from shockwave.model.cluster import Cluster, Node
from shockwave.model.errors import PolicyError, StuckError
from shockwave.model.events import JobFailed, JobStarted, JobSubmitted, RegimeChanged, RoundDecided
from shockwave.model.job import TraceJob
from shockwave.model.view import Ints, View
from shockwave.policies.base import Decision
from shockwave.policies.fifo import Fifo
from shockwave.predict.base import Forecast
from shockwave.testing.workloads import random_jobs


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (np.array([0, 0]), "fixed chose jobs twice"),
        (np.array([0, 2]), "jobs that do not exist"),
        (np.array([-1]), "jobs that do not exist"),
        (np.array([0, 1]), r"fixed chose gangs of 5 GPUs in round 0, but 4 are up"),
        (np.array([0.0]), "fixed must choose positions"),
        (np.array([[0]]), "fixed must choose positions"),
    ],
)
def test_a_decision_that_cannot_be_carried_out_is_a_policy_error(run: Ints, message: str) -> None:
    jobs = [make_job("a", (32, 1, 9.0), gpus=3), make_job("b", (32, 1, 9.0), gpus=2)]
    with pytest.raises(PolicyError, match=message):
        Run(jobs, policy=Fixed(run)).go()


def test_a_policy_that_runs_nobody_gets_its_error_when_nothing_else_can_happen() -> None:
    late = make_job("late", (32, 1, 9.0), arrival=1000.0)
    with pytest.raises(StuckError, match=r"2 jobs waiting at 1000 s"):
        Run([make_job("a", (32, 1, 9.0)), late], policy=Fixed(np.array([]))).go()


def test_all_nodes_down_for_ever_is_a_dead_end() -> None:
    jobs = [make_job(name, (32, 9, 50.0), gpus=2) for name in "abcd"]
    with pytest.raises(
        StuckError, match=r"4 jobs waiting at 200 s.*a \(2 GPUs\), b.* \.\.\.; 0 GPUs"
    ):
        Run(jobs, faults=[NodeFailure(150.0, "n0")]).go()


def test_a_cluster_that_shrank_below_a_gang_is_a_dead_end_after_the_others_ran() -> None:
    jobs = [make_job("wide", (32, 9, 50.0), gpus=8), make_job("small", (32, 3, 50.0))]
    run = Run(jobs, cluster=Cluster.uniform(8), faults=[NodeFailure(50.0, "n1")])
    with pytest.raises(StuckError, match=r"1 job waiting .* wide \(8 GPUs\); 4 GPUs up"):
        run.go()
    assert run.finishes == {"small": pytest.approx(100 + 10 + 150)}


def test_a_dead_end_that_a_node_will_open_is_waited_out() -> None:
    faults: list[Fault] = [NodeFailure(150.0, "n0"), NodeRecovery(930.0, Node("n0", 4))]
    run = Run([make_job("a", (32, 3, 100.0))], faults=faults).go()
    # 140 s of work at the loss: one whole epoch is kept.
    assert run.starts == [(0.0, "a"), (1000.0, "a")]
    assert run.finishes == {"a": pytest.approx(1000 + 10 + 200)}


def test_gangs_that_span_nodes_without_need_are_counted() -> None:
    cluster = Cluster((Node("n0", 4), Node("n1", 4)))
    jobs = [
        make_job("a", (32, 1, 50.0), gpus=3),
        make_job("b", (32, 1, 50.0), gpus=3),
        make_job("c", (32, 1, 50.0), gpus=2),  # one GPU is left on each node
        make_job("wide", (32, 1, 50.0), gpus=6, arrival=50.0),  # needs two nodes anyway
    ]
    run = Run(jobs, cluster=cluster).go()
    spread = {event.job: len(event.placement) for event in run.of(JobStarted)}
    assert spread == {"a": 1, "b": 1, "c": 2, "wide": 2}
    assert [event.spanning for event in run.of(RoundDecided)] == [1, 0]


def test_a_round_says_who_was_there_and_what_was_used() -> None:
    jobs = [make_job("a", (32, 1, 50.0), gpus=3), make_job("b", (32, 1, 50.0), gpus=2)]
    first, second = Run(jobs).go().of(RoundDecided)
    assert (first.round, first.rounds, first.active, first.running) == (0, 1, 2, 1)
    assert (first.gpus_up, first.gpus_busy) == (4, 3)
    assert (second.round, second.active, second.running, second.gpus_busy) == (1, 1, 1, 2)


def test_observers_see_every_decision_before_it_is_carried_out() -> None:
    seen: list[tuple[int, list[int], list[float]]] = []

    def observe(view: View, forecast: Forecast, decision: Decision) -> None:
        seen.append((view.round, decision.run.tolist(), forecast.remaining_seconds.tolist()))

    jobs = [make_job("a", (32, 1, 50.0), gpus=3), make_job("b", (32, 2, 30.0), gpus=2)]
    Run(jobs, observers=[observe]).go()
    assert seen == [(0, [0], [50.0, 60.0]), (1, [0], [60.0])]


def test_running_gangs_never_move() -> None:
    """Between two starts of a job there is a stop, so no lease changes its slots."""
    run = Run(random_jobs(5, count=20), cluster=Cluster.uniform(8), policy=RandomPolicy(5)).go()
    holding: set[str] = set()
    for event in run.events:
        name = getattr(event, "job", None)
        if isinstance(event, JobStarted):
            assert event.job not in holding
            holding.add(event.job)
        elif isinstance(name, str) and not isinstance(event, RegimeChanged | JobSubmitted):
            holding.discard(name)


def test_predictors_learn_the_regimes_that_really_happened() -> None:
    """Indices of configurations and epochs, crashes and repeated epochs notwithstanding."""
    job = make_job("a", (64, 2, 20.0), (32, 5, 40.0), (64, 1, 20.0), model="LM")
    other = make_job("b", (32, 1, 20.0), arrival=30.0, model="ResNet")
    predictor = Learning()
    crashes = [JobCrash(time, "a") for time in (45.0, 160.0, 250.0)]
    Run([job, other], predictor=predictor, faults=crashes).go()
    learned = {finished.spec.id: finished for finished in predictor.learned}
    assert learned["a"].regimes == ((0, 2.0), (1, 5.0), (0, 1.0))
    assert learned["a"].spec == job.spec
    assert learned["b"].regimes == ((0, 1.0),)
    assert learned["a"].kind != learned["b"].kind


@pytest.mark.parametrize("seed", range(5))
def test_learned_regimes_are_the_truth_of_any_workload(seed: int) -> None:
    jobs = random_jobs(seed)
    predictor = Learning()
    faults = [JobCrash(time, f"job-{index}") for index, time in enumerate(range(600, 6000, 450))]
    Run(
        jobs, cluster=Cluster.uniform(8), policy=RandomPolicy(seed), predictor=predictor,
        rounds=Rounds(), faults=faults,
    ).go()  # fmt: skip
    learned = {finished.spec.id: finished.regimes for finished in predictor.learned}
    assert learned == {job.spec.id: _true_regimes(job) for job in jobs}


def _true_regimes(job: TraceJob) -> tuple[tuple[int, float], ...]:
    index = job.spec.configurations.index
    return tuple((index(regime.configuration), float(regime.epochs)) for regime in job.regimes)


def test_a_crash_between_polls_is_not_counted_as_progress() -> None:
    run = Run([make_job("a", (32, 3, 40.0))], faults=[JobCrash(95.0, "a")]).go()
    view = run.views[1]
    # 85 s of work were two epochs and a bit when it crashed.
    assert view.epochs_done.tolist() == [pytest.approx(2.0)]
    assert view.productive_seconds.tolist() == [pytest.approx(80.0)]
    assert view.received_seconds.tolist() == [pytest.approx(95.0)]
    assert view.running.tolist() == [False]


def test_a_job_that_backs_off_after_a_crash_runs_as_soon_as_it_may() -> None:
    """The end of a back-off is news, for policies too whose choice holds until then."""
    run = Run(
        [make_job("a", (32, 40, 50.0)), make_job("b", (32, 3, 50.0))],
        faults=[JobCrash(50.0, "b")],
        retries=Retries(first_back_off_seconds=300.0),
    ).go()
    # Crashed at 50 after 40 s of work, hence without an epoch; may run again from 350 on.
    assert run.starts == [(0.0, "a"), (0.0, "b"), (400.0, "b")]
    assert run.finishes["b"] == pytest.approx(400 + 10 + 150)
    assert run.finishes["a"] == pytest.approx(10 + 2000)


def test_a_job_that_keeps_crashing_without_progress_is_given_up() -> None:
    crashes = [JobCrash(time, "a") for time in (30.0, 130.0, 230.0)]
    run = Run([make_job("a", (32, 3, 100.0))], faults=crashes, retries=Retries(most_crashes=3)).go()
    assert [(e.time, e.job) for e in run.of(JobFailed)] == [(230.0, "a")]
    assert run.finishes == {}


def test_progress_between_crashes_starts_the_count_again() -> None:
    crashes = [JobCrash(time, "a") for time in (30.0, 175.0, 230.0)]
    run = Run([make_job("a", (32, 3, 60.0))], faults=crashes, retries=Retries(most_crashes=3)).go()
    assert run.of(JobFailed) == []
    assert set(run.finishes) == {"a"}


def test_a_job_that_comes_while_its_round_is_held_does_not_start_before_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A real round is held a moment after it was due, and takes in who came meanwhile."""
    run = Run([make_job("a", (32, 3, 50.0)), make_job("b", (32, 1, 50.0), arrival=100.5)])
    due = run.feed.due
    monkeypatch.setattr(run.feed, "due", lambda now: due(now + 1.0))
    assert run.go().starts == [(0.0, "a"), (100.5, "b")]


def test_a_policy_settles_when_its_orders_are_out_and_people_may_change_things() -> None:
    told: list[tuple[bool, int]] = []

    class Settling(Fifo):
        def settle(self) -> None:
            told.append((run.log._deciding, len(run.of(JobStarted))))

    run = Run([make_job("a", (32, 3, 50.0))], policy=Settling())
    run.go()
    assert told[0] == (False, 1)
