"""The default policy: what it promises on the paper's workloads and on others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.policies.views import chosen, make_view

from shockwave.executors.simulation import simulate
from shockwave.measure import RunHistory, fold_history, summarize
from shockwave.measure.fairness import egalitarian_fair_jct
from shockwave.model.cluster import Cluster
from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob
from shockwave.model.view import View
from shockwave.policies.base import Decision
from shockwave.policies.shockwave import Shockwave
from shockwave.predict.base import Forecast
from shockwave.predict.restatement import Restatement
from shockwave.traces import formats, load


def run(jobs: list[TraceJob], gpus: int, *observers: object) -> RunHistory:
    events = simulate(
        jobs,
        Cluster.uniform(gpus),
        Shockwave(),
        Restatement(),
        observers=observers,  # type: ignore[arg-type]
    )
    return fold_history(events)


@pytest.mark.parametrize(
    ("trace", "gpus", "clairvoyant_jct"),
    [("paper-32gpu-120jobs", 32, 7_151), ("paper-128gpu-460jobs", 128, 6_748)],
)
def test_the_papers_workloads(
    shared_traces: Path, trace: str, gpus: int, clairvoyant_jct: int
) -> None:
    figures = summarize(run(formats.load(shared_traces / f"{trace}.jsonl"), gpus))
    assert figures["makespan_seconds"] / figures["makespan_lower_bound_seconds"] <= 1.06
    assert figures["mean_jct_seconds"] / clairvoyant_jct <= 1.10
    assert figures["worst_ftf_static"] <= 1.05
    assert figures["unfair_static"] == 0.0
    assert figures["unfair_themis"] <= 0.36
    assert figures["worst_ftf_egalitarian"] <= 1.5


def declaring(jobs: list[TraceJob], factor: float, liars: set[str]) -> list[TraceJob]:
    return [
        replace(job, spec=replace(job.spec, epochs=max(round(factor * job.spec.epochs), 1)))
        if job.spec.id in liars
        else job
        for job in jobs
    ]


def jct_of_liars(seed: int, factor: float) -> list[float]:
    """Completion times of every fifth job when it declares ``factor`` times its epochs."""
    jobs = load("generated:jobs=60,span_hours=0.7", seed=seed)
    liars = {job.spec.id for job in jobs[::5]}
    history = run(declaring(jobs, factor, liars), 16)
    times = zip(history.jobs.id, history.jobs.jct.tolist(), strict=True)
    return [jct for name, jct in times if name in liars]


def test_a_lie_about_epochs_does_not_pay() -> None:
    """Over a few workloads, liars finish no earlier than the same jobs telling the truth."""

    def mean_jct(factor: float) -> float:
        return float(np.mean([jct for seed in (11, 13) for jct in jct_of_liars(seed, factor)]))

    told = mean_jct(1.0)
    gained = {factor: mean_jct(factor) / told for factor in (0.1, 0.3, 3.0, 10.0)}
    assert min(gained.values()) >= 0.98, gained


def static_job(name: str, arrival: float, gpus: int, epochs: int) -> TraceJob:
    spec = JobSpec(name, arrival, gpus, epochs, (32,), (60.0,), Adaptation.STATIC, model="m")
    return TraceJob(spec, (Regime(32, epochs, 60.0),))


def test_a_giant_starts_in_time_and_is_not_stopped() -> None:
    """All GPUs for an hour, under a stream of small jobs that keeps four fifths of them busy."""
    rng = np.random.default_rng(3)
    arrivals = np.cumsum(rng.exponential(93.75, 800))
    small = [
        static_job(f"s{row}", round(float(at), 1), 1, int(rng.integers(5, 36)))
        for row, at in enumerate(arrivals)
    ]
    history = run([*small, static_job("giant", 7200.0, 16, 60)], 16)
    jobs = history.jobs
    (giant,) = (row for row, name in enumerate(jobs.id) if name == "giant")
    fair_wait = egalitarian_fair_jct(history)[giant] - 3600.0
    # It has to let others pass for three times as long as it will run.
    allowed = max(1.5 * fair_wait, 3.5 * 3600.0)
    assert jobs.first_start[giant] - jobs.arrival[giant] <= allowed
    assert jobs.restarts[giant] == 0


def test_what_is_told_is_ordered_and_in_the_future() -> None:
    checked = 0

    def check(view: View, forecast: Forecast, decision: Decision) -> None:
        nonlocal checked
        told = decision.explanation
        assert told is not None
        assert told.start_low is not None
        assert told.start_high is not None
        tiny = 1e-6
        assert (view.now - tiny <= told.start_low).all()
        assert (told.start_low <= told.expected_start + tiny).all()
        assert (told.expected_start <= told.start_high + tiny).all()
        assert (told.finish_low <= told.finish + tiny).all()
        assert (told.finish <= told.finish_high + tiny).all()
        assert told.bid_fairness is not None
        assert told.bid_end is not None
        assert (told.bid_fairness + told.bid_end <= told.bid + 1e-3).all()
        waits = np.ones(len(view), dtype=np.bool_)
        waits[decision.run] = False
        assert (told.expected_start[~waits] == view.now).all()
        assert (told.expected_start[waits] > view.now).all()
        checked += 1

    run(load("generated:jobs=20,span_hours=0.3", seed=4), 8, check)
    assert checked > 0


@pytest.mark.parametrize(("measured", "unsaved", "swapped"), [(np.nan, np.nan, True),
                                                              (13.5, np.nan, False),
                                                              (3.0, 60.0, False)])  # fmt: skip
def test_what_a_restart_was_measured_to_cost_decides_whether_a_job_is_stopped(
    measured: float, unsaved: float, swapped: bool
) -> None:
    """Rounds of 10 s, restarts declared to take 3 s, a waiting job with a third of the rest."""
    view = make_view(
        [1, 1], gpus_total=1, round_seconds=10.0, restart_seconds=3.0, seconds=[30.0, 10.0],
        running=[True, False], measured_restart_seconds=[measured, np.nan],
        unsaved_seconds=[unsaved, np.nan],
    )  # fmt: skip
    assert chosen(Shockwave(), view) == ([1] if swapped else [0])


def test_a_plan_is_made_around_gangs_that_stay() -> None:
    """What they leave goes to whoever fits beside them, not to who would have come instead."""
    view = make_view(
        [3, 4, 1], gpus_total=4, seconds=[600.0, 6.0, 60.0], running=[True, False, False],
        must_stay=[True, False, False],
    )  # fmt: skip
    assert chosen(Shockwave(), view) == [0, 2]
