"""A live run once more, in the simulator: how faithful is the simulation?

The journal of a run says when jobs came, which regimes they went through, how long their
epochs took, and what went wrong. That makes a trace. The same policy on the same cluster
simulates it, and both journals are measured by the same code. Epoch times are taken from
the run itself: what is compared is the schedule and its costs, not a forecast of speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

import numpy as np

from shockwave.engine.journal import Journal
from shockwave.executors.faults import (
    Fault,
    JobCrash,
    JobFailure,
    NodeFailure,
    NodeOccupation,
    NodeRecovery,
)
from shockwave.executors.replayed import Overheads, ReplayedExecutor, ReplayedFeed
from shockwave.executors.simulated import SimulatedExecutor
from shockwave.executors.simulation import TraceTruth, by_arrival, run_simulation
from shockwave.measure.fold import fold_history
from shockwave.measure.history import RunHistory
from shockwave.measure.metrics import METRICS
from shockwave.measure.observed import ObservedJob
from shockwave.measure.overheads import measured_overheads
from shockwave.measure.replay_diff import Difference, first_difference
from shockwave.measure.told import ToldFigures, WhatIsTold
from shockwave.model.cluster import Node
from shockwave.model.errors import InputError, JournalError
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
from shockwave.model.job import TraceJob
from shockwave.model.options import Option
from shockwave.model.progress import Progressed
from shockwave.model.tenants import Tenant
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors

FIGURES = (
    "makespan_seconds", "mean_jct_seconds",
    "worst_ftf_static", "worst_ftf_themis", "worst_ftf_egalitarian",
)  # fmt: skip


@dataclass(frozen=True)
class RecordedRun:
    """What a journal tells about the world that the scheduler was in."""

    settings: RunStarted
    jobs: tuple[TraceJob, ...]
    faults: tuple[Fault, ...]
    overheads: Overheads
    tenants: tuple[Tenant, ...] = ()  # as they were at the end
    told: Mapping[str, Mapping[int, float]] = field(default_factory=dict)  # see ReplayedExecutor


@dataclass(frozen=True)
class Figure:
    """One figure of the live run and of its simulation; None where it does not apply."""

    name: str
    live: float | None
    simulated: float | None

    @property
    def relative_difference(self) -> float | None:
        """``simulated / live - 1``."""
        if not self.live or self.simulated is None:
            return None
        return self.simulated / self.live - 1.0


@dataclass(frozen=True)
class Replay:
    """Both runs, side by side."""

    run: RecordedRun
    policy: str
    predictor: str
    live: RunHistory
    simulated: RunHistory
    difference: Difference | None  # the first round that was decided otherwise
    told: ToldFigures  # how what people would have been told came out, in the simulation

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The makespan counts from the first arrival: a live scheduler may idle before it."""
        return tuple(
            Figure(name, _figure(self.live, name), _figure(self.simulated, name))
            for name in FIGURES
        )


def replay(
    events: Iterable[Event],
    *,
    policy: str | None = None,
    predictor: str | None = None,
    restart_seconds: float | None = None,
) -> Replay:
    """Simulates the run that a journal tells of; by default under the policy that it names.

    Raises :class:`InputError` if no job did any work in it, and :class:`JournalError` if it
    is not a whole journal.
    """
    recorded = list(events)
    run = recorded_run(recorded)
    if not run.jobs:
        raise InputError("no job in this journal did any work", hint="Replay a longer run")
    settings = run.settings
    chosen = policies.create(policy or settings.policy, seed=settings.seed)
    feeding = predictor or (settings.predictor if policy is None else chosen.predictor)
    overheads = run.overheads
    if restart_seconds is not None:
        overheads = overheads.with_starts(restart_seconds)
    told, journal = WhatIsTold(), _WholeJournal()
    run_simulation(
        # With what the policy believed a start to cost.
        replace(settings, policy=chosen.name, predictor=feeding),
        run.jobs,
        chosen,
        predictors.create(feeding, truth=TraceTruth(by_arrival(run.jobs))),
        executor=replaying_executor(run, overheads),
        feed=ReplayedFeed(run.jobs, overheads),
        tenants=run.tenants,
        journal=journal,
        observers=(told,),
    )
    simulated = journal.events
    kept = {job.spec.id for job in run.jobs}
    live = [event for event in recorded if job_of(event) is None or job_of(event) in kept]
    return Replay(
        run,
        chosen.name,
        feeding,
        fold_history(live),
        fold_history(simulated),
        first_difference(_only(kept, recorded), simulated),
        told.figures(simulated),
    )


def replaying_executor(run: RecordedRun, overheads: Overheads) -> SimulatedExecutor:
    """A simulated run has what a start costs in its settings, and nothing else costs time."""
    if run.settings.started_unix is None:
        return SimulatedExecutor(run.jobs, overheads.start_seconds, run.faults)
    rounds = run.settings.round_seconds
    return ReplayedExecutor(run.jobs, overheads, run.faults, round_seconds=rounds, told=run.told)


class _WholeJournal(Journal):
    """With the progress of every round, which is what decisions were taken on."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, events: Sequence[Event]) -> None:
        self.events += events


def _only(kept: set[str], events: Iterable[Event]) -> Iterator[Event]:
    """Without the jobs that are not replayed; columns go by the handles that are left."""
    handles: dict[int, int] = {}
    submitted = 0
    for event in events:
        if isinstance(event, JobSubmitted):
            if event.job.id in kept:
                handles[submitted] = len(handles)
            submitted += 1
        if isinstance(event, Progressed):
            mine = np.isin(event.handle, list(handles))
            some = event.only(mine)
            renamed = np.array([handles[h] for h in some.handle.tolist()], dtype=np.int64)
            yield replace(some, handle=renamed)
        elif job_of(event) is None or job_of(event) in kept:
            yield event


def recorded_run(events: Sequence[Event]) -> RecordedRun:
    """The trace, the faults and the cost of a start, from a journal.

    Jobs that never made progress and did not finish are left out. Crashes, nodes that failed
    or were drained, what others held, and jobs that were given up or cancelled become faults at
    the time when it happened; a job that had not ended when the journal does is given up then.
    """
    settings = events[0] if events else None
    if not isinstance(settings, RunStarted):
        raise JournalError("a journal begins with a run-started event, but this one does not")
    recorder = _Recorder(settings)
    for event in events:
        recorder.apply(event)
    return recorder.run(events)


class _Recorder:
    """Collects what happened to jobs and nodes."""

    def __init__(self, settings: RunStarted) -> None:
        self.settings = settings
        self.jobs: dict[str, ObservedJob] = {}  # in order of submission
        self.by_handle: list[ObservedJob] = []
        self.nodes: dict[str, Node] = {node.id: node for node in settings.nodes}
        self.faults: list[Fault] = []
        self.crashes: list[JobCrash] = []
        self.tenants: dict[str, Tenant] = {}

    def apply(self, event: Event) -> None:
        match event:
            case Progressed():
                columns = (
                    event.epochs_done, event.configuration, event.epoch_seconds,
                    event.productive_seconds,
                )  # fmt: skip
                rows = zip(event.handle.tolist(), *(c.tolist() for c in columns), strict=True)
                for handle, *row in rows:
                    self.by_handle[handle].progress(*row)
                if event.restart_seconds is not None:
                    spent = (event.held_seconds, event.productive_seconds, event.restart_seconds)
                    rows = zip(event.handle.tolist(), *(c.tolist() for c in spent), strict=True)
                    for handle, *row in rows:
                        self.by_handle[handle].held(*row)
                if event.unsaved_seconds is not None:
                    for handle in event.handle[~np.isnan(event.unsaved_seconds)].tolist():
                        self.by_handle[handle].saves = True
            case JobSubmitted():
                self.jobs[event.job.id] = ObservedJob(event.job)
                self.by_handle.append(self.jobs[event.job.id])
            case JobChanged():
                self.of(event.job.id).spec = event.job
            case RegimeChanged():
                self.of(event.job).enter(event.epoch, event.configuration, self.measured_at(event))
            case JobStopped():
                self.of(event.job).stop(event.epochs_done, ordered=event.reason.ordered)
                if event.reason in (StopReason.CRASHED, StopReason.KILLED):
                    self.crashes.append(JobCrash(event.time, event.job))
            case JobFinished():
                job = self.of(event.job)
                job.exclusive_seconds = event.exclusive_seconds
                job.alone = {Option(t, gpus): s for t, gpus, s in event.alone_seconds}
            case JobStarted():
                self.of(event.job).start(event.attempt, event.option)
            case JobFailed():
                self.of(event.job).given_up = (event.time, event.reason)
            case JobCancelled():
                self.of(event.job).given_up = (event.time, "cancelled")
            case NodeDown() | NodeDrained():
                self.faults.append(NodeFailure(event.time, event.node))
            case NodeUp():
                self.nodes[event.node.id] = event.node
                self.faults.append(NodeRecovery(event.time, event.node))
            case NodeResumed():
                self.faults.append(NodeRecovery(event.time, self.nodes[event.node]))
            case NodeOccupied():
                self.faults.append(
                    NodeOccupation(event.time, event.node, event.gpus, event.contested)
                )
            case SettingsChanged():
                pass  # simulated with the settings of the beginning
            case TenantChanged():
                self.tenants[event.tenant.name] = event.tenant
            case RunStarted() | RunEnded() | RoundDecided() | JobRunning():
                pass  # decisions are taken anew
            case JobNoted() | JobHeld() | JobReleased() | CancelRequested() | RequeueRequested():
                pass  # what came of it is told by other events
            case JobSilent():
                pass
            case _:
                assert_never(event)

    def measured_at(self, event: Event) -> float | None:
        """A simulated job takes what it declared, which no measurement could tell as exactly."""
        return None if self.settings.started_unix is None else event.time

    def of(self, job: str) -> ObservedJob:
        try:
            return self.jobs[job]
        except KeyError:
            raise JournalError(f"job {job!r} has events but was never submitted") from None

    def run(self, events: Sequence[Event]) -> RecordedRun:
        worked = {
            name: job
            for name, job in self.jobs.items()
            if job.spec.gpus > 0
            and (job.exclusive_seconds is not None or job.epochs_done > 0 or job.regimes)
        }
        end = events[-1].time
        types = dict.fromkeys(node.gpu_type for node in self.nodes.values())
        failures = []
        for name, job in worked.items():
            if job.exclusive_seconds is None:
                time, reason = job.given_up or (end, "the journal ends")
                failures.append(JobFailure(time, name, reason))
        last_straw = {(failure.time, failure.job) for failure in failures}
        kept = [c for c in self.crashes if c.job in worked and (c.time, c.job) not in last_straw]
        faults: list[Fault] = [*self.faults, *kept, *failures]
        return RecordedRun(
            self.settings,
            tuple(
                TraceJob(job.spec_to_simulate(), job.truth(), speeds=job.speeds(types))
                for job in worked.values()
            ),
            tuple(sorted(faults, key=lambda fault: fault.time)),
            measured_overheads(events, self.settings),
            tuple(self.tenants.values()),
            {name: job.told for name, job in worked.items()},
        )


def _figure(history: RunHistory, name: str) -> float | None:
    value = METRICS[name].compute(history)
    if name == "makespan_seconds" and value is not None:
        finished = history.jobs.finished
        value -= float(history.jobs.arrival[finished].min())
    return value
