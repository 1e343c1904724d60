"""What another policy would have done with the jobs of a week, from where they were when it began.

Only the jobs that were there are simulated: those of before go on from the epochs that they had
done, and all count from the beginning of the week.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shockwave.executors.faults import Fault, JobCrash, JobFailure
from shockwave.executors.simulation import TraceTruth, by_arrival, run_simulation
from shockwave.measure.fold import fold_history
from shockwave.measure.history import RunHistory
from shockwave.measure.replay import RecordedRun, recorded_run, replaying_executor
from shockwave.model.events import (
    Event,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
)
from shockwave.model.job import Regime, TraceJob
from shockwave.model.progress import Progressed
from shockwave.model.speeds import Speeds
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors


@dataclass(frozen=True, slots=True)
class WeekOutcome:
    """Figures of the jobs of a week. Seconds count from its beginning; None without such a job."""

    finished: int  # before its end
    mean_jct_seconds: float | None  # of those that finish either way
    p95_jct_seconds: float | None
    mean_wait_seconds: float | None  # until the first start, of those that came in the week


@dataclass(frozen=True, slots=True)
class WeekReplay:
    """A week as it was, and as it would have been."""

    policy: str
    jobs: int
    was: WeekOutcome
    would_be: WeekOutcome


def replay_week(
    events: Sequence[Event], history: RunHistory, begin: float, end: float, chosen: Sequence[str]
) -> list[WeekReplay]:
    """Under each of the chosen policies; none if no job of the week did any work.

    Same arrivals, speeds and failures as in the journal.
    """
    run = of_the_week(recorded_run(events), epochs_done_at(events, begin), history, begin, end)
    return [_replay(run, history, begin, end, name) for name in chosen] if run.jobs else []


def of_the_week(
    run: RecordedRun,
    epochs_done: Mapping[str, float],
    history: RunHistory,
    begin: float,
    end: float,
) -> RecordedRun:
    """The run from ``begin`` on, with the jobs that were there until ``end``."""
    left = dict(zip(history.jobs.id, history.jobs.end.tolist(), strict=True))
    jobs = [
        _from(job, math.floor(epochs_done.get(job.spec.id, 0.0)), begin)
        for job in run.jobs
        if left[job.spec.id] > begin and job.spec.arrival_seconds <= end
    ]
    names = {job.spec.id for job in jobs}
    return replace(run, jobs=tuple(jobs), faults=tuple(_still(run.faults, names, begin)))


def _still(faults: Sequence[Fault], names: set[str], begin: float) -> list[Fault]:
    """What happened to nodes before decides what is up; what happened to jobs has happened."""
    return [
        fault
        for fault in faults
        if not isinstance(fault, JobCrash | JobFailure)
        or (fault.job in names and fault.time >= begin)
    ]


def _from(job: TraceJob, done: int, begin: float) -> TraceJob:
    """What is left of a job; at least its last epoch."""
    total = sum(regime.epochs for regime in job.regimes)
    skipped = done = min(done, total - 1)
    spec = job.spec
    regimes: list[Regime] = []
    for regime in job.regimes:
        gone = min(skipped, regime.epochs)
        skipped -= gone
        if regime.epochs > gone:
            regimes.append(replace(regime, epochs=regime.epochs - gone))
    speeds = job.speeds and Speeds(
        {
            kind: {gpus: seconds[done:] for gpus, seconds in counts.items()}
            for kind, counts in job.speeds.by_type.items()
        }
    )
    arrival = max(spec.arrival_seconds, begin)
    spec = replace(spec, arrival_seconds=arrival, epochs=max(spec.epochs - done, 1))
    return replace(job, spec=spec, regimes=tuple(regimes), speeds=speeds)


def epochs_done_at(events: Sequence[Event], moment: float) -> dict[str, float]:
    """By job. Between two reports of a job that ran, as if it had gone on evenly."""
    names: list[str] = []
    before: dict[str, tuple[float, float]] = {}  # time, epochs
    after: dict[str, tuple[float, float]] = {}
    specs: dict[str, int] = {}

    def told(job: str, time: float, epochs: float) -> None:
        if time <= moment:
            before[job] = (time, epochs)
        else:
            after.setdefault(job, (time, epochs))

    for event in events:
        match event:
            case JobSubmitted():
                names.append(event.job.id)
                specs[event.job.id] = event.job.epochs
            case Progressed():
                for handle, epochs in zip(event.handle.tolist(), event.epochs_done, strict=True):
                    told(names[handle], event.time, float(epochs))
            case JobStarted():  # until then it stood still
                told(event.job, event.time, before.get(event.job, (0.0, 0.0))[1])
            case JobStopped():
                told(event.job, event.time, event.epochs_done)
            case JobFinished():
                told(event.job, event.time, specs[event.job])
            case _:
                pass
    done = {}
    for job, (begin, epochs) in before.items():
        end, then = after.get(job, (moment, epochs))
        part = (moment - begin) / (end - begin) if end > begin else 0.0
        done[job] = epochs + max(then - epochs, 0.0) * part
    return done


def _replay(
    run: RecordedRun, history: RunHistory, begin: float, end: float, name: str
) -> WeekReplay:
    chosen = policies.create(name, seed=run.settings.seed)
    events = run_simulation(
        replace(run.settings, policy=chosen.name, predictor=chosen.predictor),
        run.jobs,
        chosen,
        predictors.create(chosen.predictor, truth=TraceTruth(by_arrival(run.jobs))),
        executor=replaying_executor(run, run.overheads),
        tenants=run.tenants,
    )
    simulated = fold_history(events)
    names = {job.spec.id for job in run.jobs}
    both = names & _finished(history) & _finished(simulated)
    was, would_be = (_outcome(found, names, both, begin, end) for found in (history, simulated))
    return WeekReplay(chosen.name, len(names), was, would_be)


def _finished(history: RunHistory) -> set[str]:
    jobs = history.jobs
    return {name for name, done in zip(jobs.id, jobs.finished.tolist(), strict=True) if done}


def _outcome(
    history: RunHistory, names: set[str], both: set[str], begin: float, end: float
) -> WeekOutcome:
    jobs = history.jobs
    mine, compared = np.isin(jobs.id, list(names)), np.isin(jobs.id, list(both))
    jct = (jobs.finish - np.maximum(jobs.arrival, begin))[compared]
    waits = (jobs.first_start - jobs.arrival)[mine & (jobs.arrival >= begin)]
    waits = waits[~np.isnan(waits)]
    return WeekOutcome(
        int((mine & (jobs.finish >= begin) & (jobs.finish <= end)).sum()),
        float(jct.mean()) if len(jct) else None,
        float(np.percentile(jct, 95)) if len(jct) else None,
        float(waits.mean()) if len(waits) else None,
    )
