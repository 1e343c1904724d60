"""GPUs that others would take are not given up, and the journal is all that is needed to say so."""

from __future__ import annotations

from shockwave.engine import snapshot
from shockwave.engine.state import SchedulerState
from shockwave.executors.faults import NodeOccupation
from shockwave.executors.simulation import simulate
from shockwave.model.cluster import Cluster
from shockwave.model.events import Event, JobFinished, JobStopped, NodeOccupied
from shockwave.model.job import TraceJob
from shockwave.policies.las import Las
from shockwave.predict.reactive import Reactive
from shockwave.testing.workloads import random_jobs

JOBS = random_jobs(1, count=16)


def run(jobs: list[TraceJob], *faults: NodeOccupation) -> list[Event]:
    return list(simulate(jobs, Cluster.uniform(8, 4), Las(), Reactive(), faults=faults))


def contested(time: float, value: bool) -> tuple[NodeOccupation, NodeOccupation]:
    return NodeOccupation(time, "n0", 0, value), NodeOccupation(time, "n1", 0, value)


def test_nobody_is_preempted_while_others_wait() -> None:
    free = run(JOBS)
    assert any(isinstance(event, JobStopped) for event in free)
    events = run(JOBS, *contested(0.0, True))
    assert not any(isinstance(event, JobStopped) for event in events)
    assert sum(isinstance(event, JobFinished) for event in events) == len(JOBS)


def test_preemption_begins_again_when_nobody_waits_any_more() -> None:
    until = 3000.0
    events = run(JOBS, *contested(0.0, True), *contested(until, False))
    stops = [event.time for event in events if isinstance(event, JobStopped)]
    assert stops
    assert min(stops) >= until


def test_a_snapshot_keeps_it() -> None:
    state = SchedulerState()
    for event in run(JOBS, *contested(0.0, True)):
        state.apply(event)
        if isinstance(event, NodeOccupied):
            back, _ = snapshot.load(snapshot.dump(state))
            assert back.nodes[event.node].contested
