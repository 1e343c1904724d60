"""What is in a trace: the figures that tell one workload from another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shockwave.model.errors import InputError
from shockwave.model.job import TraceJob
from shockwave.model.view import Floats
from shockwave.traces.bounds import makespan_lower_bound

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class TraceDescription:
    """A trace in figures. Those that need a cluster are None if none was given.

    ``users`` are those of jobs whose source names one, in the extra field ``user``.
    ``mean_gpus_wanted`` and ``most_gpus_wanted`` are GPUs that jobs would hold if every one
    started when it arrives, until the last of them ended. ``adapting_jobs`` change their
    configuration at least once, whatever they declare.
    ``offered_load`` is all GPU-seconds over what the cluster has while jobs arrive (None
    too if all arrive at once), ``contention`` jobs per GPU (``N/M``), and ``oversized_jobs``
    need more GPUs than there are.
    """

    jobs: int
    arrival_span_seconds: float
    gpu_hours: float
    gang_sizes: Mapping[int, int]
    models: Mapping[str, int]
    adaptations: Mapping[str, int]
    tenants: Mapping[str, int]
    users: Mapping[str, int]
    adapting_jobs: int
    exclusive_seconds_mean: float
    exclusive_seconds_quantiles: Mapping[float, float]
    interarrival_seconds_quantiles: Mapping[float, float]
    mean_gpus_wanted: float
    most_gpus_wanted: int
    gpus: int | None = None
    offered_load: float | None = None
    contention: float | None = None
    makespan_lower_bound_seconds: float | None = None
    oversized_jobs: int | None = None


def describe(jobs: Sequence[TraceJob], gpus: int | None = None) -> TraceDescription:
    """The figures of ``jobs``, relative to a cluster of ``gpus`` GPUs where that is given.

    Counts are ordered: gang sizes by size, everything else by frequency, then by name.
    Raises :class:`InputError` without jobs or if ``gpus`` is not positive.
    """
    if not jobs:
        raise InputError("there are no jobs to describe")
    if gpus is not None and gpus < 1:
        raise InputError("must be at least 1", place="--gpus", value=gpus)
    specs = [job.spec for job in jobs]
    arrival = np.array([spec.arrival_seconds for spec in specs])
    gangs = np.array([spec.gpus for spec in specs], dtype=np.int64)
    exclusive = np.array([job.exclusive_seconds for job in jobs])
    gpu_seconds = float(gangs @ exclusive)
    span_seconds = float(np.ptp(arrival))
    return TraceDescription(
        jobs=len(jobs),
        arrival_span_seconds=span_seconds,
        gpu_hours=gpu_seconds / 3600.0,
        gang_sizes=dict(sorted(Counter(spec.gpus for spec in specs).items())),
        models=_by_frequency(Counter(spec.model for spec in specs)),
        adaptations=_by_frequency(Counter(str(spec.adaptation) for spec in specs)),
        tenants=_by_frequency(Counter(spec.tenant for spec in specs)),
        users=_by_frequency(
            Counter(str(job.extra["user"]) for job in jobs if job.extra.get("user"))
        ),
        adapting_jobs=sum(len(job.regimes) > 1 for job in jobs),
        exclusive_seconds_mean=float(exclusive.mean()),
        exclusive_seconds_quantiles=_quantiles(exclusive),
        interarrival_seconds_quantiles=_quantiles(np.diff(np.sort(arrival))),
        mean_gpus_wanted=gpu_seconds / float((arrival + exclusive).max() - arrival.min()),
        most_gpus_wanted=int(_levels(arrival, exclusive, gangs)[1].max()),
        gpus=gpus,
        offered_load=gpu_seconds / (gpus * span_seconds) if gpus and span_seconds else None,
        contention=len(jobs) / gpus if gpus else None,
        makespan_lower_bound_seconds=(
            makespan_lower_bound(arrival, exclusive, gangs, gpus) if gpus else None
        ),
        oversized_jobs=int((gangs > gpus).sum()) if gpus else None,
    )


def gpus_wanted(
    arrival: Floats, exclusive: Floats, gangs: Floats, bins: int = 220
) -> tuple[Floats, Floats]:
    """(edges, mean level) of GPUs in use over time if every job starts when it arrives."""
    times, levels = _levels(arrival, exclusive, gangs)
    edges = np.linspace(0.0, max(float(times[-1]), 1.0), bins + 1)
    done = np.concatenate([[0.0], np.cumsum(levels[:-1] * np.diff(times))])
    return edges, np.diff(np.interp(edges, times, done)) / np.diff(edges)


def _levels(arrival: Floats, exclusive: Floats, gangs: ArrayLike) -> tuple[Floats, Floats]:
    """Times at which the number of GPUs in use changes, and the number from then on."""
    times = np.concatenate([arrival, arrival + exclusive])
    changes = np.concatenate([gangs, np.negative(gangs)])
    order = np.lexsort((changes, times))  # of those at one time, ends first
    return times[order], np.cumsum(changes[order]).astype(np.float64)


def _quantiles(values: Floats) -> dict[float, float]:
    if not len(values):
        return {}
    return {
        q: float(value) for q, value in zip(QUANTILES, np.quantile(values, QUANTILES), strict=True)
    }


def _by_frequency(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
