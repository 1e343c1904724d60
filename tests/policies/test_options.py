"""Policies where jobs have a choice: everybody ends, and each keeps the rules of its paper."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from shockwave.engine.rounds import Rounds
from shockwave.executors.simulation import simulate
from shockwave.model.cluster import Cluster
from shockwave.model.events import Event, JobFinished, JobStarted
from shockwave.model.job import JobSpec, Regime, TraceJob
from shockwave.model.options import Options
from shockwave.model.speeds import Speeds
from shockwave.model.view import View
from shockwave.policies import registry as policies
from shockwave.policies.allox import match
from shockwave.policies.base import Decision, Policy
from shockwave.policies.pollux import Pollux, Room, SearchSettings
from shockwave.policies.typed_shares import max_min_shares, max_sum_shares
from shockwave.policies.why import why
from shockwave.predict import registry as predictors
from shockwave.predict.base import Forecast
from shockwave.testing.workloads import elastic_jobs

CLUSTER = Cluster.parse("T4:2x4,A100:1x8")


def run(jobs: list[TraceJob], policy: Policy) -> list[Event]:
    return simulate(jobs, CLUSTER, policy, predictors.create("reactive"), rounds=Rounds(120.0, 20))


class Watched(Policy):
    """Another policy, and a look at every decision."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.name = policy.name  # type: ignore[misc]
        self.wants_profiles = policy.wants_profiles  # type: ignore[misc]
        self.seen: list[tuple[View, Options, Decision]] = []

    def decide(self, view: View, forecast: Forecast) -> Decision:
        decision = self.policy.decide(view, forecast)
        assert view.options is not None
        self.seen.append((view, view.options, decision))
        return decision


@pytest.mark.parametrize("name", ["shockwave", "sia", "gavel", "mst", "allox", "pollux"])
def test_all_elastic_and_rigid_jobs_end(name: str) -> None:
    jobs = elastic_jobs(3)
    events = run(jobs, policies.create(name))
    assert sum(isinstance(event, JobFinished) for event in events) == len(jobs)


def test_decisions_of_the_market_carry_a_gap_and_can_be_explained() -> None:
    watched = Watched(policies.create("shockwave"))
    run(elastic_jobs(4), watched)
    assert max(decision.gap or 0.0 for _, _, decision in watched.seen) <= 0.005
    view, options, decision = max(watched.seen, key=lambda one: len(one[0]))
    assert decision.options is not None
    told = why(view, decision, int(decision.run[0]))
    assert decision.explanation is not None
    assert decision.explanation.note is not None
    note = decision.explanation.note[int(decision.run[0])]
    assert str(options.keys[int(decision.options[0])]) in note
    assert all(name in note for name in options.types)
    assert told.runs
    assert told.finish_low is not None
    assert told.finish_high is not None
    assert told.finish_low <= told.finish_high


@pytest.mark.parametrize("name", ["sia", "pollux"])
def test_elastic_jobs_start_small_and_at_most_double_what_was_measured(name: str) -> None:
    jobs = elastic_jobs(5)
    counts = {job.spec.id: job.spec.gpu_counts for job in jobs}
    most: dict[str, int] = {}
    for event in run(jobs, policies.create(name)):
        if isinstance(event, JobStarted) and event.option is not None and counts[event.job]:
            least = min(counts[event.job])
            assert event.option.gpus <= max(2 * most.get(event.job, 0), least)
            most[event.job] = max(most.get(event.job, 0), event.option.gpus)
    assert most


@pytest.mark.parametrize("name", ["gavel", "mst", "allox"])
def test_each_job_has_its_request_on_one_type(name: str) -> None:
    jobs = elastic_jobs(6)
    request = {job.spec.id: job.spec.gpus for job in jobs}
    starts = [e for e in run(jobs, policies.create(name)) if isinstance(e, JobStarted)]
    if name == "allox":  # and keeps it until it ends
        assert len(starts) == len(jobs)
    assert {e.option is not None and e.option.gpus == request[e.job] for e in starts} == {True}


def test_max_min_shares_give_everybody_the_same_part_of_what_is_proportional() -> None:
    speed = np.array([[1.0, 4.0], [1.0, 1.0], [2.0, 2.0]])
    gpus, capacity = np.array([1, 1, 1]), np.array([1, 1])
    shares = max_min_shares(speed, gpus, np.ones(3), capacity)
    assert (shares.sum(axis=1) <= 1.0 + 1e-6).all()
    assert ((gpus[:, None] * shares).sum(axis=0) <= capacity + 1e-6).all()
    part = (speed * shares).sum(axis=1) / speed.mean(axis=1)
    # Who is four times as fast there goes to the second type, and all are better off for it.
    assert part.min() > 2 / 3
    assert part == pytest.approx(part.min(), rel=1e-6)
    assert shares[0, 1] > shares[0, 0]


def test_the_largest_sum_gives_a_type_to_whom_it_serves_best() -> None:
    speed = np.array([[1.0, 4.0], [1.0, 1.0], [2.0, 0.0]])
    shares = max_sum_shares(speed, np.array([1, 1, 1]), np.ones(3), np.array([1, 1]))
    # Who is slow everywhere has nothing.
    assert shares == pytest.approx(np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]))


@pytest.mark.parametrize("seed", range(5))
def test_no_matching_has_a_smaller_sum_of_completion_times(seed: int) -> None:
    rng = np.random.default_rng(seed)
    seconds = rng.uniform(10.0, 1000.0, (5, 2))
    places = np.array([1, 2])
    kind, position = match(seconds, places)
    found = float((seconds[np.arange(5), kind] * position).sum())
    best = np.inf
    for kinds in itertools.product(range(2), repeat=5):
        total = 0.0
        for number, count in enumerate(places):  # the longest are last, side by side
            times = sorted(seconds[job, number] for job in range(5) if kinds[job] == number)
            total += sum(t * (k // count + 1) for k, t in enumerate(reversed(times)))
        best = min(best, total)
    assert found == pytest.approx(best)


def test_the_search_of_pollux_comes_close_to_the_best_allocation() -> None:
    policy = Pollux(np.random.default_rng(1), SearchSettings())
    rng = np.random.default_rng(2)
    gpus, capacity = np.array([1, 2, 4, 8]), 9
    value = np.cumsum(rng.uniform(0.1, 1.0, (5, 4)), axis=1)
    room = Room(np.zeros(4, dtype=np.int64), gpus, np.array([capacity]), value > 0)
    found = policy.search(np.arange(5), value, room, np.full(5, -1))
    width = np.append(gpus, 0)
    worth = np.append(value, np.zeros((5, 1)), axis=1)
    best = max(
        sum(worth[job, option] for job, option in enumerate(choice))
        for choice in itertools.product(range(5), repeat=5)
        if sum(width[option] for option in choice) <= capacity
    )
    assert sum(width[option] for option in found) <= capacity
    assert sum(worth[job, option] for job, option in enumerate(found)) >= 0.98 * best


def job_that_tells(name: str, epochs: int, seconds: dict[int, float]) -> TraceJob:
    """It says how long an epoch takes with how many GPUs; its starts take 250 s."""
    spec = JobSpec(
        id=name, arrival_seconds=0.0, gpus=min(seconds), epochs=epochs, configurations=(1,),
        epoch_seconds=(math.nan,), model=name, gpu_counts=tuple(seconds), gpu_types=("T4",),
        option_seconds=tuple(("T4", gpus, value) for gpus, value in seconds.items()),
    )  # fmt: skip
    speeds = Speeds({"T4": {gpus: (value,) * epochs for gpus, value in seconds.items()}})
    regimes = (Regime(1, epochs, seconds[spec.gpus]),)
    return TraceJob(spec, regimes, speeds=speeds, restart_seconds=250.0)


def test_a_job_grows_into_gpus_that_stay_idle_although_its_start_takes_minutes() -> None:
    short = job_that_tells("short", 60, {4: 60.0})
    long = job_that_tells("long", 1000, {8: 60.0, 12: 50.0})
    events = simulate(
        [short, long],
        Cluster.parse("T4:3x4"),
        policies.create("shockwave"),
        predictors.create("reactive"),
        rounds=Rounds(60.0, 30.0),
    )
    ended = next(e.time for e in events if isinstance(e, JobFinished) and e.job == "short")
    starts = [e for e in events if isinstance(e, JobStarted) and e.job == "long"]
    widths = [(e.time - ended, e.option.gpus) for e in starts if e.option is not None]
    # A fifth faster is not worth 250 s of ten minutes, but of the 21 that the GPUs were idle for.
    assert [gpus for _, gpus in widths] == [8, 12]
    assert 1200.0 <= widths[1][0] <= 1500.0
