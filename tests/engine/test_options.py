"""Types of GPUs and elastic gangs: what the engine guarantees whatever a policy chooses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shockwave.engine import snapshot
from shockwave.engine.rounds import Rounds
from shockwave.engine.state import SchedulerState
from shockwave.executors.faults import Fault, JobCrash, NodeFailure, NodeRecovery
from shockwave.executors.simulation import TraceTruth, simulate
from shockwave.measure.replay import recorded_run
from shockwave.model.cluster import Cluster, Node
from shockwave.model.errors import InputError, PolicyError, StuckError
from shockwave.model.event_records import from_record, to_record
from shockwave.model.events import (
    Event,
    JobFinished,
    JobStarted,
    JobStopped,
    RoundDecided,
    Starts,
    StopReason,
)
from shockwave.model.job import JobSpec, Preemptible, Regime, TraceJob, timeline
from shockwave.model.options import Option
from shockwave.model.speeds import Speeds
from shockwave.model.view import View
from shockwave.policies import registry as policies
from shockwave.policies.base import Decision, Policy
from shockwave.predict import registry as predictors
from shockwave.predict.base import Forecast
from shockwave.predict.reactive import Reactive
from shockwave.testing.workloads import elastic_jobs

E = TypeVar("E", bound=Event)


def events_of(events: list[Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


NODES = (Node("t0", 4, "T4"), Node("t1", 4, "T4"), Node("a0", 8, "A100"))
TYPE_OF = {node.id: node.gpu_type for node in NODES}
CLUSTER = Cluster(NODES)
ROUNDS = Rounds(120.0, 20.0)
FAULTS: tuple[Fault, ...] = (
    NodeFailure(1500.0, "t0"),
    JobCrash(2500.0, "job-1"),
    NodeRecovery(4000.0, NODES[0]),
)


class RandomOptions(Policy):
    """Everybody gets any option that is still free, another one every few rounds."""

    name = "random-options"

    def __init__(self, seed: int, restlessness: float = 0.2) -> None:
        self._rng = np.random.default_rng(seed)
        self._restlessness = restlessness

    def decide(self, view: View, forecast: Forecast) -> Decision:
        options = view.options
        assert options is not None
        free = options.type_gpus.copy()
        run, picked = [], []
        for job in self._rng.permutation(len(view)).tolist():
            may = options.allowed[job] | options.requested[job]
            fits = np.flatnonzero(may & (options.gpus <= free[options.type]))
            if len(fits) == 0:
                continue
            held = int(options.held[job])
            keeps = held in fits and self._rng.random() > self._restlessness
            choice = held if keeps else int(self._rng.choice(fits))
            run.append(job)
            picked.append(choice)
            free[options.type[choice]] -= options.gpus[choice]
        return Decision(np.array(run, dtype=np.int64), options=np.array(picked, dtype=np.int64))


def run(
    jobs: list[TraceJob],
    policy: Policy,
    starts: Starts = Starts.ROUNDS,
    faults: tuple[Fault, ...] = (),
) -> list[Event]:
    predictor = predictors.create(policy.predictor, truth=TraceTruth(jobs))
    return simulate(jobs, CLUSTER, policy, predictor, rounds=ROUNDS, starts=starts, faults=faults)


def check_gangs(events: list[Event], jobs: list[TraceJob]) -> None:
    """No gang spans types, none is what its job did not allow, no slot is held twice."""
    specs = {job.spec.id: job.spec for job in jobs}
    holder: dict[tuple[str, int], str] = {}
    slots_of: dict[str, list[tuple[str, int]]] = {}
    for event in events:
        if isinstance(event, JobStarted):
            slots = [(node, slot) for node, slots in event.placement for slot in slots]
            assert event.option is not None
            assert {TYPE_OF[node] for node, _ in slots} == {event.option.gpu_type}
            assert len(slots) == event.option.gpus
            spec = specs[event.job]
            assert event.option.gpus in {spec.gpus, *spec.gpu_counts}
            assert event.option.gpu_type in (spec.gpu_types or TYPE_OF.values())
            assert not [slot for slot in slots if slot in holder]
            holder.update(dict.fromkeys(slots, event.job))
            slots_of[event.job] = slots
        elif isinstance(event, JobStopped | JobFinished):
            for slot in slots_of.pop(event.job):
                del holder[slot]


def check_epochs(events: list[Event], jobs: list[TraceJob]) -> None:
    """What every lease did, by the speeds of its option, adds up to all epochs."""
    by_id = {job.spec.id: job for job in jobs}
    done = dict.fromkeys(by_id, 0.0)
    lease: dict[str, JobStarted] = {}
    worked = dict.fromkeys(by_id, 0.0)
    for event in events:
        if isinstance(event, JobStarted):
            lease[event.job] = event
        elif isinstance(event, JobStopped | JobFinished):
            job, began = by_id[event.job], lease.pop(event.job)
            cost = ROUNDS.restart_seconds if job.restart_seconds is None else job.restart_seconds
            seconds = max(event.time - began.time - cost, 0.0)
            worked[event.job] += seconds
            assert job.speeds is not None
            assert began.option is not None
            times = job.speeds.epoch_seconds(began.option.gpu_type, began.option.gpus)
            done[event.job] = after(done[event.job], seconds, times)
            if isinstance(event, JobStopped):
                assert event.epochs_done == pytest.approx(done[event.job], abs=1e-6)
            else:
                assert done[event.job] == pytest.approx(job.spec.epochs, abs=1e-6)
                assert event.exclusive_seconds == pytest.approx(worked[event.job], abs=1e-6)
    assert len(events_of(events, JobFinished)) == len(jobs)


def after(epochs: float, seconds: float, times: tuple[float, ...]) -> float:
    """Epochs done when ``seconds`` more have passed."""
    while seconds > 0 and epochs < len(times):
        epoch = min(math.floor(epochs + 1e-9), len(times) - 1)
        left = (epoch + 1 - epochs) * times[epoch]
        if left > seconds:
            return epochs + seconds / times[epoch]
        epochs, seconds = float(epoch + 1), seconds - left
    return epochs


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), starts=st.sampled_from(Starts))
def test_any_choice_of_options_keeps_gangs_whole_and_epochs_done(seed: int, starts: Starts) -> None:
    jobs = elastic_jobs(seed, count=10)
    events = run(jobs, RandomOptions(seed), starts)
    check_gangs(events, jobs)
    check_epochs(events, jobs)


@pytest.mark.parametrize("starts", Starts)
@pytest.mark.parametrize("policy", ["fifo", "themis"])
def test_policies_that_know_no_options_give_requests_on_one_type(
    policy: str, starts: Starts
) -> None:
    jobs = elastic_jobs(3)
    events = run(jobs, policies.create(policy), starts)
    check_gangs(events, jobs)
    check_epochs(events, jobs)
    request = {job.spec.id: job.spec.gpus for job in jobs}
    for event in events_of(events, JobStarted):
        assert event.option is not None
        assert event.option.gpus == request[event.job]


def test_nodes_and_jobs_that_fail_lose_epochs_and_nothing_else() -> None:
    jobs = elastic_jobs(5)
    events = run(jobs, RandomOptions(5), faults=FAULTS)
    check_gangs(events, jobs)
    assert len(events_of(events, JobFinished)) == len(jobs)
    assert any(stop.reason is StopReason.NODE_LOST for stop in events_of(events, JobStopped))


def job(name: str, gpus: int, counts: tuple[int, ...] = (), **more: object) -> TraceJob:
    """100 epochs of 60 s on one T4, twice as fast on an A100, and with twice the GPUs."""
    speeds = Speeds(
        {
            kind: {n: (seconds / n,) * 100 for n in {gpus, *counts}}
            for kind, seconds in (("T4", 60.0), ("A100", 30.0))
        }
    )
    spec = JobSpec(name, 0.0, gpus, 100, (32,), (math.nan,), gpu_counts=counts)
    spec = replace(spec, **more)  # type: ignore[arg-type]
    regimes = timeline((Regime(32, 100, 1.0),), speeds.epoch_seconds("T4", gpus))
    return TraceJob(spec, regimes, speeds=speeds)


class Always(Policy):
    """The options that a script names by round, for every job of the view."""

    name = "always"

    def __init__(self, *script: dict[int, Option]) -> None:
        self.script = script
        self.views: list[View] = []

    def decide(self, view: View, forecast: Forecast) -> Decision:
        assert view.options is not None
        self.views.append(view)
        wanted = self.script[min(view.round, len(self.script) - 1)]
        run = np.flatnonzero(np.isin(view.handle, list(wanted)))
        picked = [view.options.keys.index(wanted[h]) for h in view.handle[run].tolist()]
        return Decision(run, options=np.array(picked, dtype=np.int64))


def test_a_job_that_grows_restarts_once_and_goes_on_where_it_was() -> None:
    one, four = Option("T4", 1), Option("A100", 4)
    policy = Always({0: one}, {0: one}, {0: four})
    events = run([job("a", 1, (1, 2, 4))], policy)
    starts = events_of(events, JobStarted)
    assert [start.option for start in starts] == [one, four]
    (stop,) = events_of(events, JobStopped)
    assert stop.reason is StopReason.RESIZED
    assert stop.epochs_done == pytest.approx(220 / 60)
    (end,) = events_of(events, JobFinished)
    assert end.time == pytest.approx(240 + 20 + (100 - 220 / 60) * 7.5)
    alone = {(kind, gpus): seconds for kind, gpus, seconds in end.alone_seconds}
    assert alone[("A100", 4)] == pytest.approx(750)


def test_what_was_measured_belongs_to_the_option_that_it_was_measured_with() -> None:
    policy = Always({0: Option("T4", 1)}, {0: Option("A100", 2)})
    run([job("a", 1, (1, 2, 4))], policy)
    last = policy.views[5].options
    assert last is not None
    measured = {
        key: seconds
        for key, seconds in zip(last.keys, last.measured[0].tolist(), strict=True)
        if not math.isnan(seconds)
    }
    assert measured == {Option("T4", 1): 60.0, Option("A100", 2): 15.0}
    epochs = last.measured_epochs[0][last.keys.index(Option("T4", 1))]
    assert epochs == pytest.approx(100 / 60)
    assert last.keys[int(last.held[0])] == Option("A100", 2)
    assert np.isnan(last.profiled).all()


def test_gangs_beyond_a_node_take_whole_nodes_and_types_that_lack_memory_are_out() -> None:
    policy = Always({0: Option("T4", 1), 1: Option("A100", 3)})
    run([job("a", 1, (1, 2, 6, 8), gpu_memory_gb=12.0), job("b", 3, gpu_memory_gb=20.0)], policy)
    options = policy.views[0].options
    assert options is not None
    allowed = [
        {key for key, may in zip(options.keys, row, strict=True) if may}
        for row in options.allowed.tolist()
    ]
    assert allowed[0] == {
        Option(kind, gpus) for kind, gpus in [
            ("T4", 1), ("T4", 2), ("T4", 8), ("A100", 1), ("A100", 2), ("A100", 6), ("A100", 8)
        ]
    }  # fmt: skip
    assert allowed[1] == {Option("A100", 3)}
    assert options.spans.tolist() == [k.gpus > 4 and k.gpu_type == "T4" for k in options.keys]


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({0: Option("A100", 8), 1: Option("A100", 1)}, "9 GPUs of type A100"),
        ({0: Option("T4", 1), 1: Option("A100", 8)}, "cannot use"),
    ],
)
def test_a_policy_that_sells_what_there_is_not_is_told(
    wanted: dict[int, Option], problem: str
) -> None:
    with pytest.raises(PolicyError, match=problem):
        run([job("a", 1, (1, 8)), job("b", 1)], Always(wanted))


def test_a_job_that_may_not_be_stopped_keeps_the_option_that_it_holds() -> None:
    first, then = Option("T4", 1), Option("A100", 8)
    jobs = [job("a", 1, (1, 8), preemptible=Preemptible.NEVER), job("b", 1, (1, 8))]
    events = run(jobs, Always({0: first, 1: first}, {0: then, 1: first}))
    assert [s.option for s in events_of(events, JobStarted) if s.job == "a"] == [first]


def test_a_job_that_fits_no_type_is_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match="requests 10 GPUs of one type at once, but the cluster"):
        run([job("a", 10)], policies.create("fifo"))


def test_the_state_of_a_run_with_options_survives_a_snapshot_and_its_journal() -> None:
    jobs = elastic_jobs(8)
    events = run(jobs, RandomOptions(8))
    cut = len(events) // 2
    whole = SchedulerState()
    for event in events[:cut]:
        whole.apply(from_record(to_record(event)))
    restored, _ = snapshot.load(snapshot.dump(whole))
    for event in events[cut:]:
        whole.apply(event)
        restored.apply(event)
    document, arrays = snapshot.to_document(whole)
    again, arrays_again = snapshot.to_document(restored)
    assert document == again
    assert arrays.keys() == arrays_again.keys()
    for name, values in arrays.items():
        assert np.array_equal(values, arrays_again[name], equal_nan=values.dtype.kind == "f"), name


def test_offline_profiles_are_shown_to_policies_that_want_them() -> None:
    class WithProfiles(Always):
        wants_profiles = True

    policy = WithProfiles({0: Option("T4", 1)})
    run([job("a", 1, (1, 2))], policy)
    options = policy.views[0].options
    assert options is not None
    column = options.keys.index(Option("A100", 2))
    assert options.profiled[0, column] == pytest.approx(15.0)


def test_busy_gpus_are_those_that_gangs_hold() -> None:
    events = run([job("a", 1, (1, 8))], Always({0: Option("A100", 8)}))
    assert {decided.gpus_busy for decided in events_of(events, RoundDecided)} == {8}


def test_a_run_in_which_starts_outlast_every_lease_ends_with_the_reason() -> None:
    class Alternating(Policy):
        name = "alternating"

        def decide(self, view: View, forecast: Forecast) -> Decision:
            return Decision(np.array([view.round % len(view)]))

    slow = [replace(job(name, 1, (1, 2)), restart_seconds=500.0) for name in "ab"]
    with pytest.raises(StuckError, match="try a longer --round"):
        run(slow, Alternating())


def test_a_journal_with_options_is_replayed_at_the_speeds_that_it_tells() -> None:
    jobs = elastic_jobs(11, count=6)
    policy = policies.create("fifo")
    events = run(jobs, policy)
    recorded = recorded_run(events)
    again = simulate(
        recorded.jobs, CLUSTER, policy, Reactive(), rounds=ROUNDS, faults=recorded.faults
    )
    assert {e.job for e in events_of(again, JobFinished)} == {job.spec.id for job in jobs}
    truth = {job.spec.id: job.speeds for job in jobs}
    for job in recorded.jobs:
        known = truth[job.spec.id]
        assert known is not None
        assert job.speeds is not None
        for kind in job.spec.gpu_types:
            gpus = job.spec.gpus
            told = sum(job.speeds.epoch_seconds(kind, gpus))
            assert told == pytest.approx(sum(known.epoch_seconds(kind, gpus)))
