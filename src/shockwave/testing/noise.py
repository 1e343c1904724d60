"""Predictions that are wrong, to see how a scheduler bears it.

How the workload itself can be disturbed is in :mod:`shockwave.traces.disturb`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

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
