"""From a journal to a :class:`RunHistory`, in one pass over its events."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

import numpy as np

from shockwave.measure.alone import Alone
from shockwave.measure.history import Decisions, Jobs, LeaseEnd, Leases, RunHistory
from shockwave.model.cluster import Node
from shockwave.model.errors import JournalError
from shockwave.model.events import (
    CancelRequested,
    Event,
    JobCancelled,
    JobChanged,
    JobFailed,
    JobFinished,
    JobHeld,
    JobNoted,
    JobReleased,
    JobRunning,
    JobSilent,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeDown,
    NodeDrained,
    NodeOccupied,
    NodeResumed,
    NodeUp,
    Placement,
    RegimeChanged,
    RequeueRequested,
    RoundDecided,
    RunEnded,
    RunStarted,
    SettingsChanged,
    StopReason,
    TenantChanged,
    job_of,
)
from shockwave.model.job import JobState
from shockwave.model.options import Option
from shockwave.model.progress import Progressed
from shockwave.model.tenants import Tenant
from shockwave.model.view import Floats, Ints

_STOPPED = {
    StopReason.PREEMPTED: LeaseEnd.PREEMPTED,
    StopReason.CRASHED: LeaseEnd.CRASHED,
    StopReason.KILLED: LeaseEnd.CRASHED,
    StopReason.NODE_LOST: LeaseEnd.NODE_LOST,
    StopReason.KILLED: LeaseEnd.KILLED,
    StopReason.NOT_STARTED: LeaseEnd.NOT_STARTED,
    StopReason.RESIZED: LeaseEnd.RESIZED,
}


def fold_history(events: Iterable[Event]) -> RunHistory:
    """Fold a journal. Raises :class:`JournalError` where events contradict each other."""
    fold = _Fold()
    last_seconds = 0.0
    for event in events:
        fold.apply(event)
        if event.time > last_seconds:
            last_seconds = event.time
    return fold.finish(last_seconds)


class _Fold:
    """The lists that grow while a journal is read."""

    def __init__(self) -> None:
        self.settings: RunStarted | None = None
        self.ended_rounds: int | None = None
        self.index: dict[str, int] = {}
        self.submitted: list[JobSubmitted] = []
        self.end: list[float] = []
        self.state: list[int] = []
        self.exclusive: list[float] = []
        self.last_end: list[int] = []  # LeaseEnd of the job's latest lease
        self.open_lease: dict[int, int] = {}
        self.lease_job: list[int] = []
        self.lease_start: list[float] = []
        self.lease_stop: list[float] = []
        self.lease_attempt: list[int] = []
        self.lease_end: list[int] = []
        self.lease_placement: list[Placement] = []
        self.lease_option: list[Option | None] = []
        self.any_option = False
        self.alone: dict[int, Alone] = {}
        self.decided: list[RoundDecided] = []
        self.nodes: dict[str, Node] = {}
        self.up: dict[str, int] = {}  # GPUs of a node that others do not hold
        self.drained: set[str] = set()
        self.capacity: list[tuple[float, int]] = []
        self.reasons: dict[str, int] = {}
        self.without_gpus: set[str | None] = set()  # jobs that need none
        self.tenants: dict[str, Tenant] = {}

    def apply(self, event: Event) -> None:
        if self.without_gpus and job_of(event) in self.without_gpus:
            return  # it shared nothing with anybody
        match event:
            case RoundDecided():
                self.decided.append(event)
            case JobSubmitted():
                self.job_submitted(event)
            case JobStarted():
                self.job_started(event)
            case JobStopped():
                self.job_stopped(event)
            case JobFinished():
                self.job_left(event, JobState.FINISHED, LeaseEnd.FINISHED)
                job = self.index[event.job]
                self.exclusive[job] = event.exclusive_seconds
                if event.alone_seconds:
                    spec = self.submitted[job].job
                    self.alone[job] = Alone.of(event.alone_seconds, spec.gpu_counts)
            case JobFailed():
                self.job_left(event, JobState.FAILED, LeaseEnd.FAILED)
            case JobCancelled():
                self.job_left(event, JobState.CANCELLED, LeaseEnd.CANCELLED)
            case JobChanged():
                job = self.position(event.job.id)
                self.submitted[job] = replace(self.submitted[job], job=event.job)
            case NodeUp():
                self.nodes[event.node.id] = event.node
                self.up[event.node.id] = event.node.gpus
                self.count_gpus(event.time)
            case NodeDown():
                self.up.pop(event.node, None)
                self.count_gpus(event.time)
            case NodeOccupied():
                if event.node in self.up:
                    self.up[event.node] = max(self.nodes[event.node].gpus - event.gpus, 0)
                    self.count_gpus(event.time)
            case NodeDrained():
                self.drained.add(event.node)
                self.count_gpus(event.time)
            case NodeResumed():
                self.drained.discard(event.node)
                self.count_gpus(event.time)
            case RunStarted():
                self.run_started(event)
            case TenantChanged():
                self.tenants[event.tenant.name] = event.tenant
            case RunEnded():
                self.ended_rounds = event.rounds
            case Progressed() | RegimeChanged() | JobRunning() | JobNoted() | SettingsChanged():
                pass  # nothing that a lease or a decision would not tell
            case JobHeld() | JobReleased() | CancelRequested() | RequeueRequested() | JobSilent():
                pass  # what comes of it is told by other events
            case _:
                assert_never(event)

    def count_gpus(self, time: float) -> None:
        usable = sum(gpus for node, gpus in self.up.items() if node not in self.drained)
        self.capacity.append((time, usable))

    def run_started(self, event: RunStarted) -> None:
        if self.settings is not None:
            raise JournalError("a journal holds one run, but this one starts a second")
        self.settings = event
        for node in event.nodes:
            self.nodes[node.id] = node
            self.up[node.id] = node.gpus
        self.count_gpus(event.time)

    def job_submitted(self, event: JobSubmitted) -> None:
        if event.job.gpus == 0:
            self.without_gpus.add(event.job.id)
            return
        if event.job.id in self.index:
            raise JournalError(f"job {event.job.id!r} was submitted twice")
        self.index[event.job.id] = len(self.submitted)
        self.submitted.append(event)
        self.end.append(math.nan)
        self.state.append(JobState.WAITING)
        self.exclusive.append(math.nan)
        self.last_end.append(LeaseEnd.OPEN)

    def job_started(self, event: JobStarted) -> None:
        job = self.position(event.job)
        if job in self.open_lease:
            self.close(job, event.time, LeaseEnd.MOVED)
        if event.attempt > 1:
            reason = LeaseEnd(self.last_end[job]).name.lower().replace("_", "-")
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        self.open_lease[job] = len(self.lease_job)
        self.lease_job.append(job)
        self.lease_start.append(event.time)
        self.lease_stop.append(math.nan)
        self.lease_attempt.append(event.attempt)
        self.lease_end.append(LeaseEnd.OPEN)
        self.lease_placement.append(event.placement)
        self.lease_option.append(event.option)
        self.any_option |= event.option is not None
        self.state[job] = JobState.RUNNING

    def job_stopped(self, event: JobStopped) -> None:
        job = self.position(event.job)
        self.close(job, event.time, _STOPPED[event.reason])
        self.state[job] = JobState.WAITING

    def job_left(
        self, event: JobFinished | JobFailed | JobCancelled, state: JobState, lease_end: LeaseEnd
    ) -> None:
        job = self.position(event.job)
        self.close(job, event.time, lease_end)
        self.state[job] = state
        self.end[job] = event.time

    def close(self, job: int, time: float, lease_end: LeaseEnd) -> None:
        lease = self.open_lease.pop(job, None)
        if lease is not None:
            self.lease_stop[lease] = time
            self.lease_end[lease] = lease_end
            self.last_end[job] = lease_end

    def position(self, job_id: str) -> int:
        try:
            return self.index[job_id]
        except KeyError:
            raise JournalError(f"job {job_id!r} has events but was never submitted") from None

    def finish(self, last_seconds: float) -> RunHistory:
        if self.settings is None:
            raise JournalError("a journal begins with a run-started event, but there is none")
        leases = self.leases(last_seconds)
        decisions = self.decisions()
        rounds = self.ended_rounds
        if rounds is None:
            rounds = int((decisions.round + decisions.rounds).max()) if len(decisions) else 0
        peak = max(gpus for _, gpus in self.capacity)
        return RunHistory(
            settings=self.settings,
            complete=self.ended_rounds is not None,
            horizon_seconds=last_seconds,
            rounds=rounds,
            gpus=sum(node.gpus for node in self.settings.nodes) or peak,
            nodes=tuple(self.nodes.values()),
            jobs=self.jobs(leases, last_seconds, self.settings.restart_seconds),
            leases=leases,
            decisions=decisions,
            capacity_time=np.array([time for time, _ in self.capacity]),
            capacity_gpus=np.array([gpus for _, gpus in self.capacity], dtype=np.int64),
            restart_reasons=dict(sorted(self.reasons.items())),
            tenants=tuple(self.tenants.values()),
        )

    def leases(self, last_seconds: float) -> Leases:
        stop = np.array(self.lease_stop, dtype=np.float64)
        gpus = [sum(len(slots) for _, slots in placement) for placement in self.lease_placement]
        return Leases(
            job=np.array(self.lease_job, dtype=np.int64),
            start=np.array(self.lease_start, dtype=np.float64),
            stop=np.where(np.isnan(stop), last_seconds, stop),
            gpus=np.array(gpus, dtype=np.int64),
            attempt=np.array(self.lease_attempt, dtype=np.int64),
            end=np.array(self.lease_end, dtype=np.int64),
            placement=tuple(self.lease_placement),
            options=tuple(self.lease_option) if self.any_option else (),
        )

    def jobs(self, leases: Leases, last_seconds: float, restart_seconds: float) -> Jobs:
        specs = [event.job for event in self.submitted]
        count = len(specs)
        end = np.array(self.end, dtype=np.float64)
        state = np.array(self.state, dtype=np.int64)
        exclusive = np.array(self.exclusive, dtype=np.float64)
        first_start = np.full(count, np.inf)
        np.minimum.at(first_start, leases.job, leases.start)
        first_start[np.isinf(first_start)] = np.nan

        def per_job(values: Floats | None = None) -> Floats:
            return np.bincount(leases.job, values, minlength=count).astype(np.float64)

        seconds = leases.seconds
        working = np.maximum(seconds - restart_seconds, 0.0)
        finished = state == JobState.FINISHED
        return Jobs(
            id=tuple(spec.id for spec in specs),
            model=tuple(spec.model for spec in specs),
            tenant=tuple(spec.tenant for spec in specs),
            adaptation=tuple(spec.adaptation for spec in specs),
            arrival=np.array([spec.arrival_seconds for spec in specs], dtype=np.float64),
            gpus=np.array([spec.gpus for spec in specs], dtype=np.int64),
            weight=np.array([spec.weight for spec in specs], dtype=np.float64),
            epochs=np.array([spec.epochs for spec in specs], dtype=np.int64),
            finish=np.where(finished, end, np.nan),
            end=np.where(np.isnan(end), last_seconds, end),
            state=state,
            exclusive_seconds=exclusive,
            first_start=first_start,
            starts=per_job().astype(np.int64),
            restarts=per_job((leases.attempt > 1).astype(np.float64)).astype(np.int64),
            held_seconds=per_job(seconds),
            gpu_seconds=per_job(seconds * leases.gpus),
            productive_seconds=np.where(finished, exclusive, per_job(working)),
            alone=self.alone,
            owner=tuple(spec.owner for spec in specs),
        )

    def decisions(self) -> Decisions:
        def ints(name: str) -> Ints:
            return np.array([getattr(event, name) for event in self.decided], dtype=np.int64)

        def floats(name: str) -> Floats:  # None becomes nan
            return np.array([getattr(event, name) for event in self.decided], dtype=np.float64)

        return Decisions(
            time=floats("time"),
            round=ints("round"),
            rounds=ints("rounds"),
            active=ints("active"),
            running=ints("running"),
            gpus_up=ints("gpus_up"),
            gpus_busy=ints("gpus_busy"),
            spanning=ints("spanning"),
            plan_seconds=floats("plan_seconds"),
            welfare=floats("welfare"),
            gap=floats("gap"),
            price=floats("price"),
        )
