"""A live run once more, in the simulator: how faithful is the simulation?

The journal of a run says when jobs came, which regimes they went through, how long their
epochs took, and what went wrong. That makes a trace. The same policy on the same cluster
simulates it, and both journals are measured by the same code. Epoch times are taken from
the run itself: what is compared is the schedule and its costs, not a forecast of speed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

import numpy as np

from shockwave.executors.faults import (
    Fault,
    JobCrash,
    JobFailure,
    NodeFailure,
    NodeOccupation,
    NodeRecovery,
)
from shockwave.executors.simulation import TraceTruth, by_arrival, run_simulation
from shockwave.measure.fold import fold_history
from shockwave.measure.history import RunHistory
from shockwave.measure.metrics import METRICS
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
    Progressed,
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
from shockwave.model.job import JobSpec, Preemptible, Regime, TraceJob
from shockwave.model.options import Option
from shockwave.model.speeds import Speeds
from shockwave.model.tenants import Tenant
from shockwave.model.view import Floats
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors

_LONGEST_RESTART = 0.9  # of a round; with more no simulated job would make progress
_UNKNOWN_EPOCH_SECONDS = 1.0  # of a job of which nothing was ever measured
_SAME = 1e-9  # relative; what sums differ by when they are the same

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
    restart_seconds: float  # see measured_restart_seconds
    tenants: tuple[Tenant, ...] = ()  # as they were at the end


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
    told = WhatIsTold()
    simulated = run_simulation(
        # With what the policy believed a start to cost.
        replace(settings, policy=chosen.name, predictor=feeding),
        run.jobs,
        chosen,
        predictors.create(feeding, truth=TraceTruth(by_arrival(run.jobs))),
        faults=run.faults,
        tenants=run.tenants,
        restart_seconds=run.restart_seconds if restart_seconds is None else restart_seconds,
        whole_epochs=settings.started_unix is not None,
        observers=(told,),
    )
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


@dataclass
class _Observed:
    """What a journal says about one job."""

    spec: JobSpec
    regimes: list[tuple[int, int]] = field(default_factory=list)  # (epoch, configuration)
    measured: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    epochs_done: float = 0.0
    exclusive_seconds: float | None = None  # of a finished job
    given_up: tuple[float, str] | None = None
    option: Option | None = None  # that it held last
    measured_with: dict[Option, list[tuple[float, float]]] = field(default_factory=dict)
    alone: dict[Option, float] = field(default_factory=dict)  # all epochs, where that is known
    saves: bool = False  # whether it ever told of a checkpoint

    def enter(self, epoch: int, configuration: int) -> None:
        """A crash may have taken the job back behind regimes that it had entered."""
        self.regimes = [item for item in self.regimes if item[0] < epoch]
        if not self.regimes or self.regimes[-1][1] != configuration:
            self.regimes.append((epoch, configuration))

    def progress(self, epochs_done: float, index: int, epoch_seconds: float) -> None:
        done = epochs_done - self.epochs_done
        self.epochs_done = epochs_done
        if not math.isnan(epoch_seconds):
            values = self.measured.setdefault(self.spec.configurations[index], [])
            values.append((epoch_seconds, max(done, 0.0)))
            if self.option is not None:
                with_it = self.measured_with.setdefault(self.option, [])
                with_it.append((epoch_seconds, max(done, 0.0)))

    def epoch_seconds(self, configuration: int) -> float:
        """Measured, each measurement weighted by the epochs it stands for; else declared."""
        values = self.measured.get(configuration)
        if not values:
            return self.spec.epoch_seconds[self.spec.configurations.index(configuration)]
        return _mean(values)

    def speeds(self, types: Iterable[str]) -> Speeds | None:
        """With every option that it was measured with, or that the journal tells the times of.

        Every epoch is slower or faster by the same factor. A type that it never ran on is taken
        for one on which it did.
        """
        truth = self.truth()
        total = sum(regime.seconds for regime in truth)
        factors = {option: seconds / total for option, seconds in self.alone.items()}
        if not factors and self.measured_with:
            usual = _mean([entry for found in self.measured_with.values() for entry in found])
            factors = {option: _mean(found) / usual for option, found in self.measured_with.items()}
        by_type: dict[str, dict[int, tuple[float, ...]]] = {}
        for option, factor in factors.items():
            times = tuple(r.epoch_seconds * factor for r in truth for _ in range(r.epochs))
            by_type.setdefault(option.gpu_type, {})[option.gpus] = times
        if not by_type:
            return None
        first = next(iter(by_type.values()))
        return Speeds({**dict.fromkeys(types, first), **by_type})

    def spec_to_simulate(self) -> JobSpec:
        """Simulated jobs save whenever an epoch is over; one that never did must not be stopped."""
        if not self.saves and self.spec.preemptible is Preemptible.WHEN_SAVED:
            return replace(self.spec, preemptible=Preemptible.NEVER)
        return self.spec

    def truth(self) -> tuple[Regime, ...]:
        """Its regimes, with epoch times that add up to what the job took as a whole.

        A job that did not end is assumed to have gone on as it was.
        """
        entered = self.regimes or [(0, self.spec.configurations[0])]
        ends = [epoch for epoch, _ in entered[1:]] + [self.spec.epochs]
        lengths = [max(end - begin, 0) for (begin, _), end in zip(entered, ends, strict=True)]
        seconds = np.array([self.epoch_seconds(configuration) for _, configuration in entered])
        epochs = np.array(lengths, dtype=np.float64)
        seconds = _completed(seconds, epochs, self.exclusive_seconds)
        return tuple(
            Regime(configuration, length, float(each))
            for (_, configuration), length, each in zip(entered, lengths, seconds, strict=True)
            if length > 0
        )


def _mean(values: list[tuple[float, float]]) -> float:
    """The mean of measurements, each weighted by the epochs it stands for."""
    seconds, weights = np.array(values).T
    return float(np.average(seconds, weights=weights if weights.sum() > 0 else None))


def _completed(seconds: Floats, epochs: Floats, total: float | None) -> Floats:
    """Epoch times without gaps that add up to ``total`` seconds, where that is known."""
    known = ~np.isnan(seconds)
    if total is None:
        typical = float(np.mean(seconds[known])) if known.any() else _UNKNOWN_EPOCH_SECONDS
        return np.where(known, seconds, typical)
    left = total - float(np.dot(seconds[known], epochs[known]))
    gap = float(epochs[~known].sum())
    filled = np.where(known, seconds, left / gap if gap and left > 0 else total / epochs.sum())
    summed = float(np.dot(filled, epochs))
    if summed <= 0 or total <= 0:
        return np.full(len(seconds), max(total, _SAME) / epochs.sum())
    return filled if math.isclose(summed, total, rel_tol=_SAME) else filled * (total / summed)


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
        self.jobs: dict[str, _Observed] = {}  # in order of submission
        self.by_handle: list[_Observed] = []
        self.nodes: dict[str, Node] = {node.id: node for node in settings.nodes}
        self.faults: list[Fault] = []
        self.crashes: list[JobCrash] = []
        self.tenants: dict[str, Tenant] = {}

    def apply(self, event: Event) -> None:
        match event:
            case Progressed():
                columns = (event.epochs_done, event.configuration, event.epoch_seconds)
                rows = zip(event.handle.tolist(), *(c.tolist() for c in columns), strict=True)
                for handle, epochs_done, index, epoch_seconds in rows:
                    self.by_handle[handle].progress(epochs_done, index, epoch_seconds)
                if event.unsaved_seconds is not None:
                    for handle in event.handle[~np.isnan(event.unsaved_seconds)].tolist():
                        self.by_handle[handle].saves = True
            case JobSubmitted():
                self.jobs[event.job.id] = _Observed(event.job)
                self.by_handle.append(self.jobs[event.job.id])
            case JobChanged():
                self.of(event.job.id).spec = event.job
            case RegimeChanged():
                self.of(event.job).enter(event.epoch, event.configuration)
            case JobStopped():
                self.of(event.job).epochs_done = event.epochs_done
                if event.reason in (StopReason.CRASHED, StopReason.KILLED):
                    self.crashes.append(JobCrash(event.time, event.job))
            case JobFinished():
                job = self.of(event.job)
                job.exclusive_seconds = event.exclusive_seconds
                job.alone = {Option(t, gpus): s for t, gpus, s in event.alone_seconds}
            case JobStarted():
                if event.option is not None:
                    self.of(event.job).option = event.option
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

    def of(self, job: str) -> _Observed:
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
            measured_restart_seconds(events, self.settings),
            tuple(self.tenants.values()),
        )


def measured_restart_seconds(events: Sequence[Event], settings: RunStarted) -> float:
    """What a start cost a job of this run, in seconds: until it said that it goes on.

    The mean over first starts of the time from :class:`JobStarted` to the job's first
    :class:`RegimeChanged`, which it reports when its state is restored. Later starts report
    no new regime and are assumed to cost the same. Nothing else goes in, on purpose: an
    estimate from the time that jobs held GPUs less what their epochs took would make the
    simulated completion times add up to the live ones by construction, and the comparison
    would prove nothing. A simulated run has it in its settings.
    """
    if settings.started_unix is None:
        return settings.restart_seconds
    begun: dict[str, float] = {}
    costs = []
    for event in events:
        if isinstance(event, JobStarted) and event.attempt == 1:
            begun[event.job] = event.time
        elif isinstance(event, JobStopped):
            begun.pop(event.job, None)  # it never got as far
        elif isinstance(event, RegimeChanged) and event.job in begun:
            costs.append(max(event.time - begun.pop(event.job), 0.0))
    if not costs:
        return settings.restart_seconds
    return min(float(np.mean(costs)), _LONGEST_RESTART * settings.round_seconds)


def _figure(history: RunHistory, name: str) -> float | None:
    value = METRICS[name].compute(history)
    if name == "makespan_seconds" and value is not None:
        finished = history.jobs.finished
        value -= float(history.jobs.arrival[finished].min())
    return value
