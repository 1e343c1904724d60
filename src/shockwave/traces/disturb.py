"""Ways to disturb a workload: wrong profiles, bursts, and epochs that are not what was declared.

The truth stays what it is: only what a scheduler gets to know is disturbed, or when jobs come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shockwave.model.job import TraceJob


def wrong_profiles(
    jobs: Sequence[TraceJob], spread: float, rng: np.random.Generator
) -> list[TraceJob]:
    """Every declared epoch time off by a factor of its own in ``[1 - spread, 1 + spread]``."""
    disturbed = []
    for job in jobs:
        declared = np.array(job.spec.epoch_seconds)
        declared = declared * rng.uniform(1.0 - spread, 1.0 + spread, len(declared))
        spec = replace(job.spec, epoch_seconds=tuple(declared.tolist()))
        disturbed.append(replace(job, spec=spec))
    return disturbed


def bursts(jobs: Sequence[TraceJob], count: int, rng: np.random.Generator) -> list[TraceJob]:
    """All jobs arrive at ``count`` random instants within their span, each at the nearest."""
    if not jobs:
        return []
    arrivals = np.array([job.spec.arrival_seconds for job in jobs])
    instants = np.sort(rng.uniform(arrivals.min(), arrivals.max(), count))
    nearest = np.abs(arrivals[:, None] - instants).argmin(axis=1)
    return [
        replace(job, spec=replace(job.spec, arrival_seconds=float(instants[row])))
        for job, row in zip(jobs, nearest.tolist(), strict=True)
    ]


def lying_epochs(
    jobs: Sequence[TraceJob], share: float, factor: float, rng: np.random.Generator
) -> list[TraceJob]:
    """A random ``share`` of the jobs declare ``factor`` times the epochs that they will take."""
    liars = set(rng.permutation(len(jobs))[: round(share * len(jobs))].tolist())
    return [
        replace(job, spec=replace(job.spec, epochs=max(round(job.spec.epochs * factor), 1)))
        if row in liars
        else job
        for row, job in enumerate(jobs)
    ]


def wrong_epochs(
    jobs: Sequence[TraceJob], sigma: float, rng: np.random.Generator
) -> list[TraceJob]:
    """Every job declares its epochs times ``exp(sigma z)``, z from the standard normal."""
    factors = np.exp(sigma * rng.standard_normal(len(jobs))).tolist()
    return [
        replace(job, spec=replace(job.spec, epochs=max(round(job.spec.epochs * factor), 1)))
        for job, factor in zip(jobs, factors, strict=True)
    ]


def is_honest(job: TraceJob) -> bool:
    """Whether the job takes as many epochs as it declared."""
    return job.spec.epochs == sum(regime.epochs for regime in job.regimes)
