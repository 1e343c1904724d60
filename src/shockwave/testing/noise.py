"""Ways to disturb a workload, to see how a scheduler bears it.

Real predictions are off, profiles were measured on other machines, jobs come in bursts,
and users declare numbers of epochs that they do not keep. The truth stays what it is:
only what a scheduler gets to know is disturbed, or when the jobs come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from shockwave.model.job import TraceJob
from shockwave.model.view import Floats, Ints, View
from shockwave.predict.base import FinishedJob, Forecast, Predictor, Trajectories


class NoisyPredictor(Predictor):
    """Another predictor's answers, each job's times wrong by a factor of its own.

    The factor is uniform in ``[1 - spread, 1 + spread]`` and the same for the job's whole
    life: an error that no further observation takes away. ``spread`` must be below 1.
    """

    name: ClassVar[str] = "noisy"

    def __init__(self, base: Predictor, spread: float, seed: int) -> None:
        self._base = base
        self._spread = spread
        self._rng = np.random.default_rng(seed)
        self._factor: Floats = np.empty(0)  # by handle

    def forecast(self, view: View) -> Forecast:
        return _ScaledForecast(self._base.forecast(view), self._factors(view.handle))

    def learn(self, finished: Sequence[FinishedJob]) -> None:
        self._base.learn(finished)

    def _factors(self, handles: Ints) -> Floats:
        # Drawn in order of handles, so a job's factor does not depend on who asks when.
        missing = int(handles.max(initial=-1)) + 1 - len(self._factor)
        if missing > 0:
            drawn = self._rng.uniform(1.0 - self._spread, 1.0 + self._spread, missing)
            self._factor = np.concatenate([self._factor, drawn])
        return self._factor[handles]


class _ScaledForecast(Forecast):
    def __init__(self, base: Forecast, factor: Floats) -> None:
        self._base = base
        self._factor = factor

    @property
    def remaining_seconds(self) -> Floats:
        return self._base.remaining_seconds * self._factor

    def quantile(self, q: float) -> Floats:
        return self._base.quantile(q) * self._factor

    def sample(self, count: int, rng: np.random.Generator) -> Trajectories:
        futures = self._base.sample(count, rng)
        return Trajectories(futures.epochs, futures.seconds * self._factor[None, :, None])


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


def is_honest(job: TraceJob) -> bool:
    """Whether the job takes as many epochs as it declared."""
    return job.spec.epochs == sum(regime.epochs for regime in job.regimes)
