"""What is in a trace: the figures that tell one workload from another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shockwave.model.errors import InputError
from shockwave.model.job import TraceJob
from shockwave.traces.bounds import makespan_lower_bound

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class TraceDescription:
    """A trace in figures. Those that need a cluster are None if none was given.

    ``adapting_jobs`` change their configuration at least once, whatever they declare.
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
    adapting_jobs: int
    exclusive_seconds_mean: float
    exclusive_seconds_quantiles: Mapping[float, float]
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
        adapting_jobs=sum(len(job.regimes) > 1 for job in jobs),
        exclusive_seconds_mean=float(exclusive.mean()),
        exclusive_seconds_quantiles={
            q: float(seconds)
            for q, seconds in zip(QUANTILES, np.quantile(exclusive, QUANTILES), strict=True)
        },
        gpus=gpus,
        offered_load=gpu_seconds / (gpus * span_seconds) if gpus and span_seconds else None,
        contention=len(jobs) / gpus if gpus else None,
        makespan_lower_bound_seconds=(
            makespan_lower_bound(arrival, exclusive, gangs, gpus) if gpus else None
        ),
        oversized_jobs=int((gangs > gpus).sum()) if gpus else None,
    )


def _by_frequency(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
