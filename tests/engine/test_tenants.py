"""Tenants in whole runs: their shares over a day, carry-over, people, and snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from shockwave.engine import snapshot
from shockwave.engine.state import SchedulerState
from shockwave.executors.simulation import TraceTruth, simulate
from shockwave.measure import fold_history
from shockwave.model.cluster import Cluster
from shockwave.model.event_records import from_record, to_record
from shockwave.model.events import Event, RoundDecided, Starts, TenantChanged
from shockwave.model.job import JobSpec, Regime, TraceJob
from shockwave.model.tenants import Tenant
from shockwave.model.view import View
from shockwave.policies import registry as policies
from shockwave.policies.base import Decision
from shockwave.policies.why import Reasons
from shockwave.predict import registry as predictors
from shockwave.predict.base import Forecast
from shockwave.testing.workloads import random_jobs
from shockwave.traces.families import FAMILIES

HOUR, DAY = 3600.0, 86_400.0


def run(
    jobs: Sequence[TraceJob],
    tenants: Sequence[Tenant],
    gpus: int,
    policy: str = "fifo",
    starts: Starts = Starts.ROUNDS,
    observers: tuple[object, ...] = (),
) -> list[Event]:
    chosen = policies.create(policy)
    return simulate(
        jobs,
        Cluster.uniform(gpus, 4),
        chosen,
        predictors.create(chosen.predictor, truth=TraceTruth(list(jobs))),
        starts=starts,
        tenants=tenants,
        observers=observers,  # type: ignore[arg-type]
    )


def long_job(name: str, arrival: float, hours: float, tenant: str, owner: str = "") -> TraceJob:
    epochs = round(hours * 60)
    spec = JobSpec(name, arrival, 1, epochs, (32,), (60.0,), tenant=tenant, owner=owner)
    return TraceJob(spec, (Regime(32, epochs, 60.0),))


def gpu_hours(events: Sequence[Event], since: float, until: float, by: str) -> dict[str, float]:
    """That each tenant, or each owner, held between two moments."""
    history = fold_history(events)
    leases = history.leases
    seconds = np.clip(leases.stop, since, until) - np.clip(leases.start, since, until)
    owners = {e.job.id: getattr(e.job, by) for e in events if hasattr(e, "submission")}  # type: ignore[union-attr]
    used: dict[str, float] = {}
    for job, amount in zip(leases.job.tolist(), (seconds * leases.gpus).tolist(), strict=True):
        who = owners[history.jobs.id[job]]
        used[who] = used.get(who, 0.0) + amount / HOUR
    return used


@pytest.mark.parametrize("policy", ["srtf", "las", "gavel"])
def test_weights_of_one_to_three_give_gpu_time_of_one_to_three_over_a_day(policy: str) -> None:
    """The open family at four times its rate on half of its GPUs, so that both have a backlog."""
    drawn = FAMILIES["open"].workload(101).jobs
    jobs = [
        replace(
            job,
            spec=replace(
                job.spec,
                tenant=("one", "three")[number % 2],
                arrival_seconds=0.3 * job.spec.arrival_seconds,
            ),
        )
        for number, job in enumerate(drawn)
    ]
    tenants = [Tenant("one", 1.0), Tenant("three", 3.0)]
    used = gpu_hours(run(jobs, tenants, 16, policy), 2 * HOUR, 2 * HOUR + DAY, "tenant")
    assert sum(used.values()) > 0.95 * 16 * 24
    assert used["three"] / used["one"] == pytest.approx(3.0, rel=0.03)


def test_what_a_tenant_left_to_others_is_spent_at_half_a_share_more_until_it_is_used_up() -> None:
    tenants = [Tenant("idle", carry_over_hours=2.0, half_life_hours=1e6), Tenant("busy")]
    back = 6 * HOUR  # more than the cap of 2 hours x 4 GPUs can hold
    jobs = [long_job(f"b{n}", 0.0, 40.0, "busy") for n in range(8)]
    jobs += [long_job(f"i{n}", back, 40.0, "idle") for n in range(8)]
    events = run(jobs, tenants, 8)
    # Of weights 1.5 : 1 the one that was idle is due 4.8 of 8 GPUs, 0.8 more than its share, which
    # 8 GPU-hours last for 10 hours.
    spending = gpu_hours(events, back, back + 10 * HOUR, "tenant")
    assert spending["idle"] == pytest.approx(48.0, abs=1.5)
    after = gpu_hours(events, back + 12 * HOUR, back + 22 * HOUR, "tenant")
    assert after["idle"] == pytest.approx(40.0, abs=1.5)


def test_what_is_idle_is_lent_and_taken_back_at_the_next_round() -> None:
    jobs = [long_job(f"b{n}", 0.0, 5.0, "busy") for n in range(8)]
    jobs += [long_job(f"i{n}", 1000.0, 1.0, "idle") for n in range(4)]
    events = run(jobs, [Tenant("idle", carry_over_hours=0.0), Tenant("busy")], 8)
    assert gpu_hours(events, 0.0, 960.0, "tenant")["busy"] == pytest.approx(8 * 960 / HOUR)
    rounds = gpu_hours(events, 1080.0, 1080.0 + HOUR, "tenant")  # the next round begins at 1080
    assert rounds["idle"] == pytest.approx(4.0, abs=0.1)


def test_people_of_a_tenant_share_equally_where_it_says_so() -> None:
    jobs = [long_job(f"a{n}", 0.0, 30.0, "team", "ann") for n in range(9)]
    jobs += [long_job(f"b{n}", 0.0, 30.0, "team", "bob") for n in range(3)]
    for by_person, share in ((True, 1.5), (False, 0.0)):
        events = run(jobs, [Tenant("team", by_person=by_person)], 3)
        used = gpu_hours(events, 0.0, 20 * HOUR, "owner")
        assert used.get("bob", 0.0) / 20 == pytest.approx(share, abs=0.1)


@pytest.mark.parametrize("policy", ["shockwave", "gavel"])
@pytest.mark.parametrize("starts", Starts)
def test_with_one_tenant_nothing_changes_at_all(policy: str, starts: Starts) -> None:
    jobs = [replace(j, spec=replace(j.spec, tenant="only")) for j in random_jobs(2, count=14)]

    def told(events: list[Event]) -> list[Event]:
        return [
            replace(event, plan_seconds=0.0) if isinstance(event, RoundDecided) else event
            for event in events
            if not isinstance(event, TenantChanged)
        ]

    without = told(run(jobs, [], 8, policy, starts))
    alone = Tenant("only", weight=3.0, guaranteed=2)
    assert told(run(jobs, [alone], 8, policy, starts)) == without
    beside_an_idle_one = [alone, Tenant("other", weight=5.0)]
    assert told(run(jobs, beside_an_idle_one, 8, policy, starts)) == without


def state_after(events: Sequence[Event]) -> SchedulerState:
    """The same with and without snapshots on the way, and from records of the events."""
    whole, cut = SchedulerState(), SchedulerState()
    for number, event in enumerate(events):
        whole.apply(event)
        cut.apply(from_record(to_record(event)))
        if number % 37 == 0:
            cut, _ = snapshot.load(snapshot.dump(cut))
    assert snapshot.to_document(cut)[0] == snapshot.to_document(whole)[0]
    return whole


def test_a_snapshot_in_the_middle_changes_nothing() -> None:
    jobs = random_jobs(4, count=14)
    jobs = [replace(j, spec=replace(j.spec, owner=j.spec.id[-1])) for j in jobs]
    tenants = [Tenant("red", weight=2.0, most=6, by_person=True), Tenant("idle")]
    whole = state_after(run(jobs, tenants, 8))
    assert whole.accounts.pools[""].balances["idle"].carry_over > 0


def test_somebody_who_waits_for_the_tenant_is_told_so() -> None:
    told: set[str] = set()

    def listen(view: View, forecast: Forecast, decision: Decision) -> None:
        reasons = Reasons(view, decision)
        told.update(reasons.why(position).reason for position in range(len(view)))

    jobs = [long_job(f"a{n}", 0.0, 1.0, "small") for n in range(4)]
    jobs += [long_job(f"b{n}", 0.0, 1.0, "large") for n in range(9)]
    run(jobs, [Tenant("small", most=2), Tenant("large")], 8, observers=(listen,))
    assert "waits: tenant small may hold 2 GPUs at most" in told
    assert "waits: tenant large has its share, 6 GPUs" in told
