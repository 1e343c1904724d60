"""Policies where jobs have a choice: everybody ends, and each keeps the rules of its paper."""

from __future__ import annotations

import numpy as np
import pytest

from shockwave.engine.state import Rounds
from shockwave.executors.simulation import simulate
from shockwave.model.cluster import Cluster
from shockwave.model.events import Event, JobFinished, JobStarted
from shockwave.model.job import TraceJob
from shockwave.model.options import Options
from shockwave.model.view import View
from shockwave.policies import registry as policies
from shockwave.policies.base import Decision, Policy
from shockwave.policies.typed_shares import max_min_shares
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


@pytest.mark.parametrize("name", ["shockwave", "sia", "gavel"])
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


def test_sia_starts_small_and_at_most_doubles_what_was_measured() -> None:
    jobs = elastic_jobs(5)
    counts = {job.spec.id: job.spec.gpu_counts for job in jobs}
    most: dict[str, int] = {}
    for event in run(jobs, policies.create("sia")):
        if isinstance(event, JobStarted) and event.option is not None and counts[event.job]:
            least = min(counts[event.job])
            assert event.option.gpus <= max(2 * most.get(event.job, 0), least)
            most[event.job] = max(most.get(event.job, 0), event.option.gpus)
    assert most


def test_gavel_gives_each_job_its_request_on_one_type() -> None:
    jobs = elastic_jobs(6)
    request = {job.spec.id: job.spec.gpus for job in jobs}
    starts = [e for e in run(jobs, policies.create("gavel")) if isinstance(e, JobStarted)]
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
