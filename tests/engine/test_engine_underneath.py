"""An executor with an engine underneath: it may be away, share its nodes, and tie jobs to some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from tests.engine.runs import Recorder, Run, Scripted, make_job
from tests.policies import quick

from shockwave.engine.assign import Assigner
from shockwave.engine.chosen import Chosen
from shockwave.engine.executor import Launch
from shockwave.engine.orders import Orders
from shockwave.executors.faults import NodeFailure, NodeOccupation, NodeRecovery
from shockwave.executors.simulated import SimulatedExecutor
from shockwave.executors.simulation import by_arrival
from shockwave.model.cluster import Cluster, Node
from shockwave.model.errors import StuckError
from shockwave.model.events import (
    CancelRequested,
    Event,
    JobCancelled,
    JobStarted,
    JobStopped,
    NodeDown,
    NodeOccupied,
    NodeUp,
    RoundDecided,
    StopReason,
)
from shockwave.model.job import JobSpec, TraceJob
from shockwave.model.view import Ints, View
from shockwave.policies import registry as policies
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import fill, largest_first
from shockwave.predict import registry as predictors
from shockwave.predict.base import Forecast
from shockwave.testing.workloads import random_jobs


class Engine(Recorder):
    """The simulator, with what an engine underneath can do to the loop."""

    away_from_to = (0.0, 0.0)
    known_nodes: tuple[Node, ...] | None = None
    news: Sequence[Event] = ()  # besides, each at the first poll after its time
    partitions: Mapping[str, frozenset[str]] = {}  # by job id

    def __init__(self, inner: SimulatedExecutor, *, skip: bool = True) -> None:
        super().__init__(inner, skip=skip)
        self.launched: list[tuple[float, str]] = []
        self.stopped: list[tuple[float, list[int]]] = []

    def poll(self, until: float) -> list[Event]:
        events = super().poll(until)
        due = [event for event in self.news if event.time <= until]
        self.news = [event for event in self.news if event.time > until]
        return [*events, *due]

    def launch(self, launches: Sequence[Launch]) -> None:
        self.launched += [(self.inner.now, order.job.id) for order in launches]
        super().launch(launches)

    def stop(self, handles: Ints) -> None:
        self.stopped.append((self.inner.now, handles.tolist()))
        super().stop(handles)

    def away(self) -> str | None:
        begin, end = self.away_from_to
        return "the controller does not answer" if begin <= self.inner.now < end else None

    def nodes(self) -> tuple[Node, ...] | None:
        return None if self.away() else self.known_nodes

    def nodes_for(self, job: JobSpec) -> frozenset[str] | None:
        return self.partitions.get(job.id)


def run_on_engine(jobs: Sequence[TraceJob], **settings: Any) -> tuple[Run, Engine]:
    run = Run(jobs, executor=Engine, **settings)
    assert isinstance(run.executor, Engine)
    return run, run.executor


class Everybody(Policy):
    """All jobs that fit, first come first served, and one decision holds until news."""

    name = "everybody"

    def __init__(self) -> None:
        self.asked = 0

    def decide(self, view: View, forecast: Forecast) -> Decision:
        self.asked += 1
        fits = np.cumsum(view.gpus) <= view.gpus_total
        return Decision(np.flatnonzero(fits), stable=True)


class Ranked(Policy):
    """By falling weight."""

    name = "ranked"

    def decide(self, view: View, forecast: Forecast) -> Decision:
        run = fill(largest_first(view.weight), view)
        return Decision(run, priority=view.weight)


# Away.


def test_while_the_backend_is_away_what_runs_goes_on_and_nothing_is_ordered() -> None:
    jobs = [make_job("a", (32, 10, 100.0)), make_job("b", (32, 1, 100.0), arrival=250.0)]
    run, engine = run_on_engine(jobs, cluster=Cluster.uniform(2), skip=False)
    engine.away_from_to = (200.0, 600.0)
    run.go()
    assert engine.launched == [(0.0, "a"), (600.0, "b")]
    decided = [event.time for event in run.of(RoundDecided)]
    assert not [time for time in decided if 200.0 <= time < 600.0]
    assert run.finishes["a"] == pytest.approx(1010.0)  # it ran through all of it


def test_an_outage_with_everybody_waiting_is_no_dead_end() -> None:
    # Virtual time knows that nothing else can happen.
    run, engine = run_on_engine([make_job("a", (32, 1, 50.0))])
    engine.away_from_to = (0.0, 500.0)
    run.go()
    assert engine.launched == [(500.0, "a")]


def test_what_is_asked_during_an_outage_is_done_after_it() -> None:
    jobs = [make_job("a", (32, 10, 100.0))]
    run, engine = run_on_engine(jobs, asked=[CancelRequested(300.0, "a")], skip=False)
    engine.away_from_to = (200.0, 600.0)
    run.go()
    assert engine.stopped == [(600.0, [0])]
    assert [event.time for event in run.of(JobCancelled)] == [600.0]


# What the engine says of its nodes.


def test_news_of_nodes_that_are_no_news_do_not_reach_the_journal() -> None:
    jobs = [make_job("a", (32, 5, 100.0))]
    run, engine = run_on_engine(jobs, cluster=Cluster.uniform(4), skip=False)
    engine.news = [
        NodeUp(50.0, Node("n0", 4)), NodeDown(60.0, "n9"), NodeOccupied(70.0, "n9", 1),
    ]  # fmt: skip
    run.go()
    assert not run.of(NodeUp)
    assert not run.of(NodeDown)
    assert not run.of(NodeOccupied)
    assert run.finishes == {"a": pytest.approx(510.0)}


def test_gangs_of_a_node_that_goes_without_a_word_about_them_are_preempted() -> None:
    run, engine = run_on_engine(
        [make_job("a", (32, 5, 100.0))], cluster=Cluster.uniform(8), skip=False
    )
    engine.news = [NodeDown(150.0, "n0")]
    run.go()
    (stop,) = run.of(JobStopped)
    assert (stop.job, stop.reason) == ("a", StopReason.PREEMPTED)
    assert run.events.index(stop) < run.events.index(run.of(NodeDown)[0])
    assert engine.stopped == [(200.0, [0])]
    assert [event.placement[0][0] for event in run.of(JobStarted)] == ["n0", "n1"]


def test_a_node_comes_back_with_other_gpus() -> None:
    jobs = [make_job("a", (32, 5, 100.0), gpus=4), make_job("b", (32, 1, 100.0), gpus=8)]
    run, engine = run_on_engine(jobs, cluster=Cluster.uniform(4), policy=Everybody(), skip=False)
    engine.news = [NodeUp(150.0, Node("n0", 12))]
    run.go()
    assert [(e.time, e.job) for e in run.of(JobStarted)] == [(0.0, "a"), (200.0, "b"), (200.0, "a")]


def test_after_a_restart_the_nodes_of_the_engine_count_as_soon_as_it_answers() -> None:
    """The journal knows n0 and n1, and others on n1; the engine has n1 and n2 when it is back."""
    job = make_job("a", (32, 50, 100.0), gpus=4)
    before = Run([job], cluster=Cluster.uniform(8), skip=False)
    before.go(until=lambda: before.loop.now >= 300.0)
    run, engine = run_on_engine([job], cluster=Cluster.uniform(8), skip=False)
    loop = run.loop
    for event in [*before.events[1:], NodeOccupied(250.0, "n1", 3)]:
        loop.state.apply(event)
    engine.known_nodes = (Node("n1", 4), Node("n2", 4))
    engine.away_from_to = (0.0, 600.0)
    run.feed.due(0.0)  # it is in the journal already
    loop.resume(300.0)
    assert [node.id for node in loop.state.placer.nodes()] == ["n0", "n1"]
    run.go(until=lambda: loop.now > 600.0)
    assert [event.node for event in run.of(NodeDown)] == ["n0"]
    assert [event.node.id for event in run.of(NodeUp)] == ["n2"]
    assert loop.state.placer.gpus == 8  # the engine did not say that others hold anything
    assert engine.launched == [(600.0, "a")]
    (stop,) = run.of(JobStopped)  # it was on n0
    assert stop.time == 600.0


# What others hold.


def test_policies_see_and_use_what_others_leave() -> None:
    jobs = [make_job(name, (32, 3, 100.0), gpus=2) for name in "abc"]
    faults = [NodeOccupation(150.0, "n0", 3), NodeOccupation(450.0, "n0", 0)]
    run = Run(jobs, cluster=Cluster.uniform(8), faults=faults, skip=False).go()
    up = {event.time: event.gpus_up for event in run.of(RoundDecided)}
    assert (up[100.0], up[200.0], up[400.0]) == (8, 5, 5)
    busy = {event.time: event.gpus_busy for event in run.of(RoundDecided)}
    assert (busy[100.0], busy[200.0]) == (6, 4)


@pytest.mark.parametrize("policy", policies.names())
@pytest.mark.parametrize("seed", [0, 1])
def test_every_policy_copes_with_others_that_come_and_go(policy: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0.0, 8_000.0, 30))
    faults: list[NodeOccupation | NodeFailure | NodeRecovery] = [
        NodeOccupation(float(time), f"n{rng.integers(3)}", int(rng.integers(0, 5)))
        for time in times
    ]
    faults += [NodeFailure(2_000.0, "n1"), NodeRecovery(3_000.0, Node("n1", 2))]
    faults += [NodeOccupation(9_000.0, f"n{i}", 0) for i in range(3)]
    jobs = random_jobs(seed, count=30)
    created = quick.create(policy, seed)
    run = Run(
        jobs,
        cluster=Cluster.uniform(12),
        policy=created,
        predictor=predictors.create("restatement"),
        faults=faults,
    ).go()
    assert len(run.finishes) == len(jobs)
    assert all(event.gpus_busy <= event.gpus_up for event in run.of(RoundDecided))


def test_a_gang_on_gpus_that_others_claim_runs_on_where_nothing_can_be_decided() -> None:
    faults = [NodeOccupation(150.0, "n0", 4)]
    run, engine = run_on_engine([make_job("a", (32, 5, 100.0))], faults=faults, skip=False)
    run.go()
    assert run.finishes == {"a": pytest.approx(510.0)}
    assert not engine.stopped


# Nodes that a job may use.


def constrained(
    jobs: list[TraceJob],
    partitions: Mapping[str, frozenset[str]],
    *,
    policy: Policy | None = None,
    gpus: int = 8,
) -> tuple[Run, Engine]:
    run, engine = run_on_engine(jobs, cluster=Cluster.uniform(gpus), policy=policy or Everybody())
    engine.partitions = partitions
    return run, engine


def test_a_job_runs_on_the_nodes_that_it_may_use() -> None:
    jobs = [make_job(name, (32, 1, 50.0), gpus=2) for name in "abcd"]
    second = frozenset({"n1"})
    run, _ = constrained(jobs, {"c": second, "d": second})
    run.go()
    placed = {event.job: event.placement[0][0] for event in run.of(JobStarted)}
    assert placed == {"a": "n0", "b": "n0", "c": "n1", "d": "n1"}


def test_a_gang_that_finds_no_room_is_decided_on_again_in_the_next_round() -> None:
    """Though the decision is stable, and nothing else happens in between."""
    jobs = [make_job("a", (32, 1, 250.0), gpus=4), make_job("b", (32, 1, 50.0), gpus=4)]
    policy = Everybody()
    run, engine = constrained(jobs, dict.fromkeys("ab", frozenset({"n1"})), policy=policy)
    run.go()
    assert engine.launched == [(0.0, "a"), (300.0, "b")]
    assert policy.asked == 4
    running = [(event.time, event.running, event.gpus_busy) for event in run.of(RoundDecided)]
    assert running == [(0.0, 1, 4), (100.0, 1, 4), (200.0, 1, 4), (300.0, 1, 4)]
    assert [event.attempt for event in run.of(JobStarted)] == [1, 1]


def test_a_job_whose_nodes_are_too_few_does_not_take_turns_from_others() -> None:
    jobs = [make_job("big", (32, 1, 50.0), gpus=6), make_job("small", (32, 1, 50.0), gpus=4)]
    run, _ = constrained(jobs, {"big": frozenset({"n1", "n9"})}, policy=Scripted({}, default=None))
    with pytest.raises(StuckError, match=r"big \(6 GPUs\)"):
        run.go()
    assert run.starts == [(0.0, "small")]  # at once, in its place


def test_gpus_of_a_gang_that_finds_no_room_go_to_the_next_in_the_policys_order() -> None:
    """Both jobs tied to n1 come first, and only one of them fits; the others have lower ranks."""
    jobs = [
        make_job("first", (32, 1, 250.0), gpus=4, weight=5.0),
        make_job("second", (32, 1, 250.0), gpus=4, weight=4.0),
        make_job("long", (32, 1, 900.0), gpus=4, weight=1.0),
        make_job("heavy", (32, 1, 400.0), gpus=2, weight=3.0),
        make_job("light", (32, 1, 400.0), gpus=2, weight=2.0),
    ]
    tied = dict.fromkeys(("first", "second"), frozenset({"n1"}))
    run, engine = constrained(jobs, tied, policy=Ranked())
    run.go()
    assert engine.launched[:3] == [(0.0, "first"), (0.0, "heavy"), (0.0, "light")]
    # In the next round they are not chosen again, but keep what they have and where they have it.
    assert engine.stopped == []
    assert sorted(engine.launched[3:]) == [(300.0, "second"), (500.0, "long")]
    assert run.finishes["heavy"] == run.finishes["light"] == pytest.approx(410.0)


def test_whoever_fills_a_gap_gives_way_when_the_chosen_gang_finds_room() -> None:
    jobs = [
        make_job("first", (32, 1, 250.0), gpus=2, weight=4.0),
        make_job("second", (32, 1, 250.0), gpus=4, weight=3.0),
        make_job("other", (32, 1, 900.0), gpus=2, weight=2.0),
        make_job("filler", (32, 1, 900.0), gpus=2, weight=1.0),
    ]
    tied = dict.fromkeys(("first", "second", "filler"), frozenset({"n0"}))
    run, engine = constrained(jobs, {**tied, "other": frozenset({"n1"})}, policy=Ranked(), gpus=6)
    run.go()
    assert engine.launched[:3] == [(0.0, "first"), (0.0, "other"), (0.0, "filler")]
    assert engine.launched[3:] == [(300.0, "second"), (600.0, "filler")]
    assert engine.stopped == [(300.0, [3])]


def test_gangs_that_are_liked_less_leave_the_only_nodes_of_one_without_room() -> None:
    """Of those that would do as few as possible; and they come back elsewhere."""
    jobs = [
        make_job("better", (32, 1, 900.0), gpus=1, weight=4.0),
        make_job("large", (32, 1, 900.0), gpus=2, weight=2.0),
        make_job("small", (32, 1, 900.0), gpus=1, weight=1.0),
        make_job("late", (32, 1, 250.0), gpus=2, weight=3.0, arrival=150.0),
    ]
    run, engine = constrained(jobs, {"late": frozenset({"n0"})}, policy=Ranked())
    run.go()
    where = {(event.time, event.job): event.placement[0][0] for event in run.of(JobStarted)}
    at_first = dict.fromkeys([(0.0, "better"), (0.0, "large"), (0.0, "small")], "n0")
    assert where == {**at_first, (200.0, "late"): "n0", (300.0, "large"): "n1"}
    assert engine.stopped == [(200.0, [1])]


def test_gangs_stay_that_the_policy_likes_better_or_whose_leaving_would_not_help() -> None:
    jobs = [
        make_job("better", (32, 1, 500.0), gpus=2, weight=4.0),
        make_job("worse", (32, 1, 500.0), gpus=2, weight=1.0),
        make_job("late", (32, 1, 250.0), gpus=3, weight=3.0, arrival=150.0),
    ]
    run, engine = constrained(jobs, {"late": frozenset({"n0"})}, policy=Ranked())
    run.go()
    assert engine.launched == [(0.0, "better"), (0.0, "worse"), (600.0, "late")]
    assert engine.stopped == []


@pytest.mark.parametrize("policy", policies.names())
@pytest.mark.parametrize("seed", [0, 1])
def test_no_gpu_idles_for_want_of_a_gang_that_cannot_be_placed(
    policy: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    jobs = by_arrival([job for job in random_jobs(seed, count=30) if job.spec.gpus <= 4])
    run, engine = run_on_engine(
        jobs,
        cluster=Cluster.uniform(12),
        policy=quick.create(policy, seed),
        predictor=predictors.create("restatement"),
        skip=False,
    )
    engine.partitions = {
        job.spec.id: frozenset({f"n{rng.integers(3)}"}) for job in jobs if rng.random() < 0.6
    }
    gaps: list[float] = []

    def assign(
        self: Assigner, chosen: Chosen, view: View, decision: Decision, doubtful: Ints
    ) -> Orders:
        orders = unwatched(self, chosen, view, decision, doubtful)
        if not orders.complete:
            gaps.append(view.now)
            placer = run.loop.state.placer
            left = Counter({node.id: node.gpus for node in placer.nodes()})
            for handle in orders.running.tolist():
                for node, slots in orders.placements.get(handle) or placer.placement(handle):
                    left[node] -= len(slots)
            for handle in set(view.handle.tolist()) - {*orders.running, *orders.stopped}:
                job = jobs[handle].spec
                room = sum(left[node] for node in engine.partitions.get(job.id, left))
                assert room < job.gpus
        return orders

    unwatched = Assigner.assign
    monkeypatch.setattr(Assigner, "assign", assign)
    run.go()
    assert gaps
    assert len(run.finishes) == len(jobs)


def test_a_job_is_tried_again_when_its_nodes_come() -> None:
    jobs = [make_job("a", (32, 1, 50.0)), make_job("b", (32, 9, 100.0))]
    run, engine = run_on_engine(
        jobs,
        cluster=Cluster.uniform(4),
        policy=Everybody(),
        faults=[NodeRecovery(450.0, Node("n7", 1))],
    )
    engine.partitions = {"a": frozenset({"n7"})}
    run.go()
    assert engine.launched == [(0.0, "b"), (500.0, "a")]
