"""Every metric by name: what it means, its unit, which way is better, how it is computed.

Percentiles interpolate linearly between the two nearest order statistics. A metric is
``None`` where it does not apply, for instance the gap of a policy that does not plan.
Figures of jobs can be those of some jobs only, in the company of all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from shockwave.measure.fairness import (
    FAIRNESS,
    WITH_OPTIONS,
    envy_ratios,
    finish_time_fairness,
    jain_index,
)
from shockwave.measure.history import RunHistory
from shockwave.model.job import JobState
from shockwave.model.view import Bools, Floats
from shockwave.traces.bounds import makespan_lower_bound

Better = Literal["lower", "higher", "neither"]


@dataclass(frozen=True)
class Metric:
    """One figure of a run."""

    name: str
    unit: Literal["seconds", "ratio", "fraction", "count", "GPU-seconds"]
    better: Better
    description: str
    of: Callable[[RunHistory, Bools], float | None]

    def compute(self, history: RunHistory, counted: Bools | None = None) -> float | None:
        """The figure, over the jobs that ``counted`` marks (all by default) where it is of jobs."""
        every = np.ones(len(history.jobs), dtype=np.bool_)
        return self.of(history, every if counted is None else counted)


def _known(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def _mean(values: Floats) -> float | None:
    known = _known(values)
    return float(known.mean()) if len(known) else None


def _max(values: Floats) -> float | None:
    known = _known(values)
    return float(known.max()) if len(known) else None


def _percentile(values: Floats, percent: float) -> float | None:
    known = _known(values)
    return float(np.percentile(known, percent)) if len(known) else None


def makespan_seconds(history: RunHistory) -> float | None:
    """When the last job finished, from the start of the run."""
    return _max(history.jobs.finish)


def makespan_bound_seconds(history: RunHistory) -> float | None:
    """No schedule finishes these jobs earlier; over the jobs that finished.

    None where a job could have run in several ways: no bound is known that is true and close.
    """
    done = history.jobs.finished
    if not done.any() or history.jobs.alone:
        return None
    jobs = history.jobs
    return float(
        makespan_lower_bound(
            jobs.arrival[done], jobs.exclusive_seconds[done], jobs.gpus[done], history.gpus
        )
    )


def utilization(history: RunHistory) -> float | None:
    """Productive GPU-seconds over those that there were until the last job finished.

    Productive are the exclusive runtimes of finished jobs and, of others, what they held less
    their restarts. Time after the last finish does not count. There were ``M * makespan``,
    unless nodes came and went, or others held GPUs of theirs.
    """
    there_were = history.available_gpu_seconds(makespan_seconds(history) or 0.0)
    return history.productive_gpu_seconds / there_were if there_were > 0 else None


def occupancy(history: RunHistory) -> float | None:
    """GPU-seconds under lease, restarts included, over those that there were."""
    there_were = history.available_gpu_seconds(makespan_seconds(history) or 0.0)
    return float(history.jobs.gpu_seconds.sum()) / there_were if there_were > 0 else None


def planning_seconds(history: RunHistory) -> Floats:
    """Wall-clock time of every decision that the policy was asked for.

    A decision that merely stands for another round takes no time, and is left out.
    """
    seconds = history.decisions.plan_seconds
    asked = seconds > 0
    return seconds[asked] if asked.any() else seconds


_Compute = Callable[[RunHistory, Bools], float | None]


def _of_jobs(
    values: Callable[[RunHistory], Floats], figure: Callable[[Floats], float | None]
) -> _Compute:
    """A figure of the values of the jobs that count."""
    return lambda history, counted: figure(values(history)[counted])


def _of_run(figure: Callable[[RunHistory], float | None]) -> _Compute:
    """A figure of the whole run, whichever jobs count."""
    return lambda history, counted: figure(history)


def _ftf(definition: str) -> Callable[[RunHistory], Floats]:
    return lambda history: finish_time_fairness(history, definition)


def _unfair(above: float) -> Callable[[Floats], float | None]:
    def share(ftf: Floats) -> float | None:
        known = _known(ftf)
        return float((known > above).mean()) if len(known) else None

    return share


def _jct(figure: Callable[[Floats], float | None]) -> _Compute:
    return _of_jobs(lambda history: history.jobs.jct, figure)


def _jct_percentile(percent: float) -> _Compute:
    return _jct(lambda seconds: _percentile(seconds, percent))


def _waited(figure: Callable[[Floats], float | None]) -> _Compute:
    return _of_jobs(lambda history: history.jobs.waited_seconds, figure)


def _count(*states: JobState) -> _Compute:
    return lambda history, counted: int(np.isin(history.jobs.state[counted], states).sum())


def _restart_lost_gpu_seconds(history: RunHistory, counted: Bools) -> float:
    leases, jobs = history.leases, history.jobs
    if leases.options:
        part = np.minimum(jobs.productive_seconds / np.maximum(jobs.held_seconds, 1e-9), 1.0)
        return float(np.dot(jobs.gpu_seconds * counted, 1.0 - part))
    lost = np.minimum(history.settings.restart_seconds, leases.seconds)
    return float(np.dot(leases.gpus * counted[leases.job], lost))


def _fairness_metrics() -> list[Metric]:
    metrics = []
    for name, definition in {**FAIRNESS, **WITH_OPTIONS}.items():
        metrics += [
            Metric(
                f"worst_ftf_{name}", "ratio", "lower",
                f"Largest finish-time fairness, {name}: {definition.description}",
                _of_jobs(_ftf(name), _max),
            ),
            Metric(
                f"unfair_{name}", "fraction", "lower",
                f"Share of finished jobs with {name} finish-time fairness above "
                f"{definition.unfair_above:g}",
                _of_jobs(_ftf(name), _unfair(definition.unfair_above)),
            ),
        ]  # fmt: skip
    return metrics


METRICS = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric("makespan_seconds", "seconds", "lower",
                   "When the last job finished, from the start of the run",
                   _of_run(makespan_seconds)),
            Metric("makespan_lower_bound_seconds", "seconds", "neither",
                   "No schedule can finish these jobs on this cluster earlier",
                   _of_run(makespan_bound_seconds)),
            Metric("mean_jct_seconds", "seconds", "lower",
                   "Mean job completion time: finish less arrival",
                   _jct(_mean)),
            Metric("p50_jct_seconds", "seconds", "lower",
                   "Half of the jobs completed within this time", _jct_percentile(50)),
            Metric("p90_jct_seconds", "seconds", "lower",
                   "90 % of the jobs completed within this time", _jct_percentile(90)),
            Metric("p99_jct_seconds", "seconds", "lower",
                   "99 % of the jobs completed within this time", _jct_percentile(99)),
            *_fairness_metrics(),
            Metric("utilization", "fraction", "higher",
                   "Productive GPU-seconds over those available until the last job finished",
                   _of_run(utilization)),
            Metric("occupancy", "fraction", "neither",
                   "GPU-seconds under lease, restarts included, over those available",
                   _of_run(occupancy)),
            Metric("queueing_mean_seconds", "seconds", "lower",
                   "Mean time that a job was in the system without GPUs",
                   _waited(_mean)),
            Metric("queueing_max_seconds", "seconds", "lower",
                   "Longest time that a job was in the system without GPUs",
                   _waited(_max)),
            Metric("restarts", "count", "lower",
                   "How often a job was started again after it had lost its GPUs",
                   lambda history, counted: int(history.jobs.restarts[counted].sum())),
            Metric("restart_lost_gpu_seconds", "GPU-seconds", "lower",
                   "GPU time without progress after starts, first starts included",
                   _restart_lost_gpu_seconds),
            Metric("envy_max", "ratio", "lower",
                   "Largest envy: what the job would have got with the GPUs of the job it envies "
                   "most, over what it got",
                   _of_jobs(envy_ratios, _max)),
            Metric("envy_mean", "ratio", "lower",
                   "Mean over jobs of the envy towards the job that each envies most",
                   _of_jobs(envy_ratios, _mean)),
            Metric("jain_index", "ratio", "higher",
                   "Jain's index of 1 / egalitarian finish-time fairness: 1 when all jobs were "
                   "served equally well",
                   _of_jobs(_ftf("egalitarian"), lambda ftf: jain_index(1.0 / ftf))),
            Metric("rounds", "count", "neither", "Rounds until the run ended",
                   _of_run(lambda history: history.rounds)),
            Metric("spanning_gangs", "count", "lower",
                   "Starts in which a gang spanned nodes although one node could have held it",
                   _of_run(lambda history: int(history.decisions.spanning.sum()))),
            Metric("plan_seconds_mean", "seconds", "lower",
                   "Mean wall-clock time of a decision, where one had to be taken",
                   _of_run(lambda history: _mean(planning_seconds(history)))),
            Metric("plan_seconds_p95", "seconds", "lower",
                   "95 % of the decisions took at most this long",
                   _of_run(lambda history: _percentile(planning_seconds(history), 95))),
            Metric("plan_seconds_max", "seconds", "lower",
                   "The slowest decision",
                   _of_run(lambda history: _max(planning_seconds(history)))),
            Metric("plan_gap_max", "fraction", "lower",
                   "How far from optimal the worst plan can be at most, relative",
                   _of_run(lambda history: _max(history.decisions.gap))),
            Metric("finished_jobs", "count", "higher", "Jobs that finished",
                   _count(JobState.FINISHED)),
            Metric("failed_jobs", "count", "lower", "Jobs that were given up",
                   _count(JobState.FAILED)),
            Metric("cancelled_jobs", "count", "neither", "Jobs that their users took back",
                   _count(JobState.CANCELLED)),
            Metric("unfinished_jobs", "count", "lower",
                   "Jobs still in the system when the journal ends",
                   _count(JobState.WAITING, JobState.RUNNING)),
        )
    }
)  # fmt: skip
