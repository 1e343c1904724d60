"""Small simulated runs of jobs that depend on each other, belong together or have limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from shockwave.executors.faults import Fault
from shockwave.executors.simulation import simulate
from shockwave.model.cluster import Cluster
from shockwave.model.events import Event, JobFailed, JobFinished, JobStarted, JobStopped, Starts
from shockwave.model.job import JobSpec, Regime, TraceJob
from shockwave.policies.base import Policy
from shockwave.policies.fifo import Fifo
from shockwave.predict.reactive import Reactive

E = TypeVar("E", bound=Event)


def job(name: str, seconds: float, *, arrival: float = 0.0, gpus: int = 1, **more: Any) -> TraceJob:
    """A job of 10 epochs that takes ``seconds`` alone."""
    spec = JobSpec(name, arrival, gpus, 10, (1,), (seconds / 10,), **more)
    return TraceJob(spec, (Regime(1, 10, seconds / 10),))


def run(
    jobs: Sequence[TraceJob],
    *,
    gpus: int = 4,
    policy: Policy | None = None,
    starts: Starts = Starts.IMMEDIATE,
    faults: Sequence[Fault] = (),
) -> list[Event]:
    cluster = Cluster.uniform(gpus)
    return simulate(jobs, cluster, policy or Fifo(), Reactive(), starts=starts, faults=faults)


def of(events: Sequence[Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def finished(events: Sequence[Event]) -> dict[str, float]:
    return {event.job: event.time for event in of(events, JobFinished)}


def started(events: Sequence[Event]) -> dict[str, float]:
    """When each job started first."""
    first: dict[str, float] = {}
    for event in of(events, JobStarted):
        first.setdefault(event.job, event.time)
    return first


def failed(events: Sequence[Event]) -> dict[str, str]:
    return {event.job: event.reason for event in of(events, JobFailed)}


def most_at_once(events: Sequence[Event], jobs: set[str]) -> int:
    """The largest number of these jobs that held GPUs at any one time."""
    holding: set[str] = set()
    most = 0
    for event in events:
        match event:
            case JobStarted() if event.job in jobs:
                holding.add(event.job)
            case JobStopped() | JobFinished() | JobFailed():
                holding.discard(event.job)
        most = max(most, len(holding))
    return most
