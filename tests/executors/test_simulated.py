"""The simulator's semantics, by hand: 100 s rounds, 10 s restarts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.runs import RandomPolicy, Run, Scripted, make_job

from shockwave.engine.rounds import Rounds
from shockwave.executors.faults import Fault, JobCrash, JobFailure, NodeFailure, NodeRecovery
from shockwave.executors.simulation import by_arrival, simulate
from shockwave.model.cluster import Cluster, Node
from shockwave.model.errors import InputError
from shockwave.model.events import (
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeDown,
    NodeUp,
    RegimeChanged,
    RoundDecided,
    RunEnded,
    RunStarted,
    StopReason,
)
from shockwave.model.progress import Progressed
from shockwave.policies.fifo import Fifo
from shockwave.predict.reactive import Reactive
from shockwave.testing.workloads import random_jobs

ONE_GPU = Cluster.uniform(1)


def test_the_first_round_pays_a_restart_and_those_that_follow_do_not() -> None:
    run = Run([make_job("a", (32, 5, 50.0))], cluster=ONE_GPU).go()
    assert run.finishes == {"a": pytest.approx(10 + 250)}
    assert run.starts == [(0.0, "a")]


def test_every_round_after_a_pause_pays_a_restart() -> None:
    a, b = make_job("a", (32, 5, 50.0)), make_job("b", (32, 20, 50.0))
    script = {0: [0], 1: [1], 2: [0], 3: [1], 4: [0]}  # a: 90 s a lease
    run = Run([a, b], cluster=ONE_GPU, policy=Scripted(script)).go()
    # 90 + 90 done in rounds 0 and 2, the last 70 s of work in round 4 after a restart.
    assert run.finishes["a"] == pytest.approx(400 + 10 + 70)
    assert [start for start in run.starts if start[1] == "a"] == [
        (0.0, "a"), (200.0, "a"), (400.0, "a"),
    ]  # fmt: skip
    assert [event.attempt for event in run.of(JobStarted) if event.job == "a"] == [1, 2, 3]


def test_preemption_keeps_fractions_of_epochs() -> None:
    a, b = make_job("a", (32, 2, 200.0)), make_job("b", (32, 1, 50.0))
    run = Run([a, b], cluster=ONE_GPU, policy=Scripted({1: [1]}, default=[0])).go()
    ((time, name, epochs),) = run.stops
    assert (time, name) == (100.0, "a")
    assert epochs == pytest.approx(90 / 200)
    # 90 s done before the pause, 310 left from round 2 on.
    assert run.finishes["a"] == pytest.approx(200 + 10 + 310)


def test_regimes_change_within_a_round() -> None:
    job = make_job("a", (32, 2, 20.0), (64, 1, 100.0), (32, 1, 20.0))
    run = Run([job], cluster=ONE_GPU).go()
    changes = [(e.time, e.epoch, e.configuration) for e in run.of(RegimeChanged)]
    assert changes == [(0.0, 0, 32), (50.0, 2, 64), (150.0, 3, 32)]
    assert run.finishes == {"a": pytest.approx(170.0)}
    assert run.of(JobFinished)[0].exclusive_seconds == pytest.approx(160.0)


def test_a_restart_may_be_longer_than_a_round() -> None:
    run = Run([make_job("a", (32, 1, 30.0))], rounds=Rounds(100.0, 250.0)).go()
    assert run.finishes == {"a": pytest.approx(280.0)}


def test_gpus_of_a_job_that_ends_mid_round_idle_to_the_rounds_end() -> None:
    a, b = make_job("a", (32, 1, 15.0)), make_job("b", (32, 1, 15.0))
    run = Run([a, b], cluster=ONE_GPU).go()
    assert run.finishes == {"a": pytest.approx(25.0), "b": pytest.approx(125.0)}
    assert run.starts == [(0.0, "a"), (100.0, "b")]


def test_an_empty_cluster_skips_to_the_boundary_after_the_next_arrival() -> None:
    a = make_job("a", (32, 1, 20.0), arrival=1230.0)
    b = make_job("b", (32, 1, 20.0), arrival=5000.0)  # on a boundary: no wait at all
    run = Run([b, a], cluster=ONE_GPU).go()
    assert [(e.time, e.job.id) for e in run.of(JobSubmitted)] == [(1300.0, "a"), (5000.0, "b")]
    assert run.finishes == {"a": pytest.approx(1330.0), "b": pytest.approx(5030.0)}
    assert [e.round for e in run.of(RoundDecided)] == [13, 50]
    assert run.of(JobSubmitted)[0].job.arrival_seconds == 1230.0  # JCT counts from here


def test_an_arrival_just_after_a_boundary_waits_for_the_next() -> None:
    run = Run([make_job("a", (32, 1, 20.0), arrival=100.001)], cluster=ONE_GPU).go()
    assert run.starts == [(200.0, "a")]


def test_a_crash_falls_back_to_the_last_whole_epoch() -> None:
    job = make_job("a", (32, 2, 20.0), (64, 5, 40.0))
    # At 160 s: 150 s of work = 2 epochs of 20 s, 2 of 40 s and 30 s of a fifth.
    run = Run([job], faults=[JobCrash(160.0, "a")]).go()
    stop = run.of(JobStopped)[0]
    assert (stop.time, stop.epochs_done, stop.reason) == (160.0, 4.0, StopReason.CRASHED)
    # It starts again at 200 and has 3 epochs of 40 s to go.
    assert run.finishes == {"a": pytest.approx(200 + 10 + 120)}
    assert run.of(JobFinished)[0].exclusive_seconds == pytest.approx(240.0)
    assert [e.epoch for e in run.of(RegimeChanged)] == [0, 2]  # told once


def test_a_crash_in_the_restart_loses_nothing_but_the_round() -> None:
    run = Run([make_job("a", (32, 2, 20.0))], faults=[JobCrash(5.0, "a")]).go()
    assert run.stops == [(5.0, "a", 0.0)]
    assert run.finishes == {"a": pytest.approx(100 + 10 + 40)}


def test_a_crash_at_the_very_end_of_an_epoch_keeps_it() -> None:
    run = Run([make_job("a", (32, 4, 30.0))], faults=[JobCrash(70.0, "a")]).go()
    assert run.stops == [(70.0, "a", 2.0)]


@settings(max_examples=40, deadline=None)
@given(st.floats(1.0, 40.0), st.integers(1, 12), st.floats(1.0, 40.0))
def test_a_crash_never_falls_behind_the_regime_that_was_entered(
    first: float, epochs: int, second: float
) -> None:
    """Crash at the moment of the change, give or take rounding."""
    job = make_job("a", (32, epochs, first), (64, 3, second))
    for late in (-1e-8, 0.0, 1e-8):
        run = Run([job], faults=[JobCrash(10 + epochs * first + late, "a")]).go()
        entered = [e.epoch for e in run.of(RegimeChanged)]
        assert entered == [0, epochs]
        assert run.stops[0][2] in (epochs - 1, epochs)
        if run.events.index(run.of(RegimeChanged)[1]) < run.events.index(run.of(JobStopped)[0]):
            assert run.stops[0][2] == epochs


def test_a_crash_of_a_job_that_waits_or_is_done_is_not_noticed() -> None:
    a, b = make_job("a", (32, 1, 50.0)), make_job("b", (32, 1, 50.0))
    faults = [JobCrash(20.0, "b"), JobCrash(110.0, "a")]
    run = Run([a, b], cluster=ONE_GPU, faults=faults).go()
    assert run.stops == []
    assert set(run.finishes) == {"a", "b"}


def test_a_lost_node_takes_its_gangs_back_to_whole_epochs_and_spares_the_others() -> None:
    b = make_job("b", (32, 4, 40.0), gpus=2)  # on n0
    a = make_job("a", (32, 4, 40.0), gpus=2)  # on n1
    cluster = Cluster((Node("n0", 2), Node("n1", 2)))
    faults: list[Fault] = [NodeFailure(70.0, "n1"), NodeRecovery(250.0, Node("n1", 2))]
    run = Run([b, a], cluster=cluster, faults=faults).go()
    placed = {e.job: e.placement for e in run.of(JobStarted) if e.time == 0.0}
    assert placed == {"b": (("n0", (0, 1)),), "a": (("n1", (0, 1)),)}
    (stop,) = run.of(JobStopped)
    assert (stop.job, stop.time, stop.epochs_done) == ("a", 70.0, 1.0)
    assert stop.reason is StopReason.NODE_LOST
    kinds = [type(e) for e in run.events if e.time == 70.0]
    assert kinds == [JobStopped, NodeDown]
    # b goes on to its end at 170; a has 120 s left and waits for b's node at 200.
    assert run.finishes == {"b": pytest.approx(170.0), "a": pytest.approx(200 + 10 + 120)}
    assert [e.time for e in run.of(NodeUp)] == [250.0]
    assert [e.gpus_up for e in run.of(RoundDecided)][:2] == [4, 2]


def test_a_gang_that_spans_nodes_dies_with_any_of_them_and_frees_the_others() -> None:
    wide, small = make_job("wide", (32, 9, 50.0), gpus=4), make_job("small", (32, 1, 20.0), gpus=2)
    cluster = Cluster((Node("n0", 2), Node("n1", 2)))
    faults: list[Fault] = [NodeFailure(30.0, "n1"), NodeRecovery(390.0, Node("n1", 2))]
    run = Run([wide, small], cluster=cluster, faults=faults).go()
    assert run.starts == [(0.0, "wide"), (100.0, "small"), (400.0, "wide")]


def test_a_failure_is_final() -> None:
    a, b = make_job("a", (32, 9, 50.0)), make_job("b", (32, 1, 50.0))
    run = Run([a, b], cluster=ONE_GPU, faults=[JobFailure(130.0, "a", "out of memory")]).go()
    (failed,) = run.of(JobFailed)
    assert (failed.time, failed.job, failed.reason) == (130.0, "a", "out of memory")
    assert run.finishes == {"b": pytest.approx(260.0)}
    assert [job for _, job in run.starts] == ["a", "b"]


def test_a_waiting_job_that_is_doomed_fails_when_it_runs() -> None:
    a, b = make_job("a", (32, 3, 50.0)), make_job("b", (32, 3, 50.0))
    run = Run([a, b], cluster=ONE_GPU, faults=[JobFailure(20.0, "b", "bad data")]).go()
    assert run.starts == [(0.0, "a"), (200.0, "b")]
    assert [(e.time, e.job) for e in run.of(JobFailed)] == [(200.0, "b")]


def test_a_run_ends_with_its_jobs_whatever_the_schedule_of_faults_still_holds() -> None:
    late = [NodeFailure(1e6, "n0"), NodeRecovery(2e6, Node("n0", 1))]
    events = simulate(
        [make_job("a", (32, 1, 50.0))], ONE_GPU, Fifo(), Reactive(), faults=late, seed=7
    )
    assert isinstance(events[0], RunStarted)
    assert (events[0].policy, events[0].predictor, events[0].seed) == ("fifo", "reactive", 7)
    assert events[-1] == RunEnded(120.0, rounds=1)


def test_no_jobs_make_an_empty_run() -> None:
    events = simulate([], ONE_GPU, Fifo(), Reactive())
    assert [type(event) for event in events] == [RunStarted, RunEnded]


def test_a_gang_larger_than_the_cluster_is_an_input_error() -> None:
    with pytest.raises(InputError, match=r"t\.jsonl: job big needs 5 GPUs .* has 4.*--gpus 5"):
        simulate(
            [make_job("big", (32, 1, 1.0), gpus=5)],
            Cluster.uniform(4),
            Fifo(),
            Reactive(),
            trace="t.jsonl",
        )


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    round_seconds=st.sampled_from([60.0, 100.0, 120.0, 333.3]),
    restart_seconds=st.sampled_from([0.0, 7.5, 20.0]),
    crashes=st.lists(st.tuples(st.floats(0, 20_000), st.integers(0, 9)), max_size=4),
)
def test_work_is_conserved(
    seed: int, round_seconds: float, restart_seconds: float, crashes: list[tuple[float, int]]
) -> None:
    """Productive time sums to the exclusive runtime, and leases explain every finish."""
    jobs = random_jobs(seed, count=10)
    run = Run(
        jobs,
        cluster=Cluster.uniform(6),
        policy=RandomPolicy(seed),
        rounds=Rounds(round_seconds, restart_seconds),
        faults=[JobCrash(time, f"job-{index}") for time, index in crashes],
    ).go()
    truth = {job.spec.id: job for job in jobs}
    assert set(run.finishes) == set(truth)

    productive: dict[int, float] = {}
    held: dict[int, float] = {}
    for progress in run.executor.told:
        for handle, seconds, lease in zip(
            progress.handle.tolist(),
            progress.productive_seconds.tolist(),
            progress.held_seconds.tolist(),
            strict=True,
        ):
            productive[handle] = productive.get(handle, 0.0) + seconds
            held[handle] = held.get(handle, 0.0) + lease
    for handle, job in enumerate(by_arrival(jobs)):
        assert math.isclose(productive[handle], job.exclusive_seconds, abs_tol=1e-4)
        assert productive[handle] <= held[handle] + 1e-4

    # Without crashes every lease but its restart is progress.
    crashed = {name for _, name, _ in run.stops if _reason(run, name)}
    for name, job in truth.items():
        if name in crashed:
            continue
        leases = _leases(run, name)
        paid = sum(min(restart_seconds, stop - start) for start, stop in leases)
        lease_seconds = sum(stop - start for start, stop in leases)
        assert math.isclose(lease_seconds - paid, job.exclusive_seconds, abs_tol=1e-4)
        assert leases[0][0] >= job.spec.arrival_seconds
        for start, _ in leases:
            assert math.isclose(start, round(start / round_seconds) * round_seconds)

    # Progress is told when it is asked for, and comes before what happened until then.
    times = [event.time for event in run.events if not isinstance(event, Progressed)]
    assert times == sorted(times)


def _reason(run: Run, name: str) -> bool:
    return any(e.job == name and e.reason is not StopReason.PREEMPTED for e in run.of(JobStopped))


def _leases(run: Run, name: str) -> list[tuple[float, float]]:
    starts = [time for time, job in run.starts if job == name]
    stops = [time for time, job, _ in run.stops if job == name] + [run.finishes[name]]
    return list(zip(starts, stops, strict=True))
