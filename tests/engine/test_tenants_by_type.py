"""Tenants where GPUs have types: promises of each type, lending, limits, and what is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from tests.engine.test_tenants import HOUR, state_after

from shockwave.engine.state import SchedulerState
from shockwave.executors.simulation import TraceTruth, simulate
from shockwave.model.cluster import Cluster, Node
from shockwave.model.errors import InputError
from shockwave.model.events import Event, JobFinished, RoundDecided, Starts, TenantChanged
from shockwave.model.job import JobSpec, Regime, TraceJob
from shockwave.model.tenants import Tenant, TypePromise
from shockwave.model.view import View
from shockwave.policies import registry as policies
from shockwave.policies.base import Decision
from shockwave.policies.why import Reasons
from shockwave.predict import registry as predictors
from shockwave.predict.base import Forecast
from shockwave.testing.workloads import elastic_jobs

CLUSTER = Cluster((Node("t0", 4, "T4"), Node("t1", 4, "T4"), Node("a0", 8, "A100")))
TYPE_OF = {node.id: node.gpu_type for node in CLUSTER.nodes}
POLICIES = ["srtf", "shockwave", "sia"]  # requests, the market, a solver


def run(
    jobs: Sequence[TraceJob],
    tenants: Sequence[Tenant],
    policy: str,
    starts: Starts = Starts.ROUNDS,
    observers: tuple[object, ...] = (),
) -> list[Event]:
    chosen = policies.create(policy)
    return simulate(
        jobs,
        CLUSTER,
        chosen,
        predictors.create(chosen.predictor, truth=TraceTruth(list(jobs))),
        starts=starts,
        tenants=tenants,
        observers=observers,  # type: ignore[arg-type]
    )


def job(
    name: str,
    tenant: str,
    hours: float,
    gpu_type: str = "A100",
    arrival: float = 0.0,
    gpus: int = 1,
) -> TraceJob:
    epochs = round(hours * 60)
    spec = JobSpec(
        name, arrival, gpus, epochs, (32,), (60.0,), tenant=tenant, gpu_types=(gpu_type,)
    )
    return TraceJob(spec, (Regime(32, epochs, 60.0),))


Held = dict[tuple[str, str], int]  # GPUs by tenant and type


def held_after_rounds(
    events: Sequence[Event],
) -> Iterator[tuple[float, dict[tuple[str, str], int]]]:
    """After every round, the GPUs of each tenant and type."""
    state = SchedulerState()
    for event in events:
        state.apply(event)
        if isinstance(event, RoundDecided):
            held: Held = {}
            for handle in state.running().tolist():
                for node, slots in state.placer.placement(handle):
                    key = (state.table.spec(handle).tenant, TYPE_OF[node])
                    held[key] = held.get(key, 0) + len(slots)
            yield event.time, held


@pytest.mark.parametrize("policy", POLICIES)
def test_gpus_of_a_type_are_lent_and_are_back_at_the_next_round(policy: str) -> None:
    busy = [job(f"b{n}", "busy", 1.0) for n in range(10)]
    owner = [job(f"o{n}", "owner", 0.5, arrival=1000.0) for n in range(8)]
    promises = [
        Tenant("owner", weight=0.01, types=(TypePromise("A100", guaranteed=6),)),
        Tenant("busy", types=(TypePromise("A100", most=7),)),
    ]
    held = dict(held_after_rounds(run([*busy, *owner], promises, policy)))
    assert held[960.0] == {("busy", "A100"): 7}, "what is idle is lent, up to the limit"
    assert held[1080.0] == {("busy", "A100"): 2, ("owner", "A100"): 6}
    assert max(of.get(("busy", "A100"), 0) for of in held.values()) == 7


@pytest.mark.parametrize("policy", ["fifo", "shockwave"])
def test_a_type_is_shared_by_its_own_weights(policy: str) -> None:
    jobs = [
        job(f"{tenant}-{kind}-{n}", tenant, 5.0, kind)
        for tenant in ("one", "two") for kind in ("T4", "A100") for n in range(8)
    ]  # fmt: skip
    promises = [Tenant("one", types=(TypePromise("A100", weight=3.0),)), Tenant("two")]
    rounds = list(held_after_rounds(run(jobs, promises, policy)))
    all_wait = [held for time, held in rounds if time < 4 * HOUR]  # then some end

    def mean(tenant: str, kind: str) -> float:
        return sum(held.get((tenant, kind), 0) for held in all_wait) / len(all_wait)

    assert [mean("one", "A100"), mean("two", "A100")] == pytest.approx([6.0, 2.0], rel=0.03)
    assert [mean("one", "T4"), mean("two", "T4")] == pytest.approx([4.0, 4.0], rel=0.03)


@pytest.mark.parametrize("policy", POLICIES)
def test_limits_hold_for_jobs_that_have_a_choice_and_all_of_them_end(policy: str) -> None:
    jobs = elastic_jobs(5, count=14)
    red = Tenant("red", most=9, types=(TypePromise("A100", most=4),))
    blue = Tenant("blue", types=(TypePromise("T4", guaranteed=2),))
    events = run(jobs, [red, blue], policy, Starts.IMMEDIATE)
    assert sum(isinstance(event, JobFinished) for event in events) == len(jobs)
    for _, held in held_after_rounds(events):
        assert held.get(("red", "A100"), 0) <= 4
        assert held.get(("red", "A100"), 0) + held.get(("red", "T4"), 0) <= 9


@pytest.mark.parametrize("policy", ["shockwave", "gavel"])
def test_with_one_tenant_nothing_changes_at_all(policy: str) -> None:
    jobs = [replace(j, spec=replace(j.spec, tenant="only")) for j in elastic_jobs(2, count=10)]

    def told(tenants: list[Tenant]) -> list[Event]:
        return [
            replace(event, plan_seconds=0.0) if isinstance(event, RoundDecided) else event
            for event in run(jobs, tenants, policy)
            if not isinstance(event, TenantChanged)
        ]

    alone = Tenant("only", types=(TypePromise("A100", weight=2.0, guaranteed=3),))
    assert told([alone, Tenant("other", weight=5.0)]) == told([])


def test_a_snapshot_in_the_middle_changes_nothing() -> None:
    red = Tenant("red", by_person=True, types=(TypePromise("A100", 2.0, 2, 6),))
    whole = state_after(run(elastic_jobs(4, count=10), [red, Tenant("idle")], "shockwave"))
    assert whole.accounts.tenants["red"] == red
    assert whole.accounts.pools["A100"].balances["idle"].carry_over > 0


def test_somebody_who_waits_for_a_type_is_told_so_and_a_gang_beyond_it_is_refused() -> None:
    told: set[str] = set()

    def listen(view: View, forecast: Forecast, decision: Decision) -> None:
        reasons = Reasons(view, decision)
        told.update(reasons.why(position).reason for position in range(len(view)))

    small = Tenant("small", types=(TypePromise("A100", most=4),))
    run([job(f"a{n}", "small", 1.0) for n in range(6)], [small], "fifo", observers=(listen,))
    assert "waits: tenant small may hold 4 A100 at most" in told
    with pytest.raises(InputError, match="may hold 4 GPUs at most"):
        run([job("large", "small", 1.0, gpus=5)], [small], "fifo")
