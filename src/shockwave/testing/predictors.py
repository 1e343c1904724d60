"""What every predictor must do."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pytest

from shockwave.executors.simulation import TraceTruth, simulate
from shockwave.model.cluster import Cluster
from shockwave.model.view import View
from shockwave.policies.base import Decision
from shockwave.policies.fifo import Fifo
from shockwave.predict.base import Forecast, Predictor
from shockwave.predict.oracle import Truth
from shockwave.testing.workloads import random_jobs

_SEEDS = range(4)


class PredictorContract(ABC):
    """Subclass it and say how to make the predictor (``truth`` is for clairvoyant ones)."""

    @abstractmethod
    def make(self, truth: Truth) -> Predictor:
        """A fresh predictor."""

    @pytest.mark.parametrize("seed", _SEEDS)
    def test_forecasts_are_finite_ordered_and_complete(self, seed: int) -> None:
        """At every round of a run whose jobs keep to no rule."""
        checked = 0

        def check(view: View, forecast: Forecast, decision: Decision) -> None:
            nonlocal checked
            mean = forecast.remaining_seconds
            assert mean.shape == (len(view),)
            assert np.all(np.isfinite(mean))
            assert np.all(mean >= 0)
            low, middle, high = (forecast.quantile(q) for q in (0.1, 0.5, 0.9))
            assert np.all(low <= middle + 1e-6)
            assert np.all(middle <= high + 1e-6)
            futures = forecast.sample(4, np.random.default_rng(view.round))
            left = np.broadcast_to(view.epochs_left, futures.epochs.shape[:2])
            np.testing.assert_allclose(futures.epochs.sum(axis=2), left, rtol=1e-6, atol=1e-6)
            assert np.all(futures.durations >= 0)
            checked += 1

        self._run(seed, check)
        assert checked > 0

    @pytest.mark.parametrize("seed", _SEEDS)
    def test_sampling_is_reproducible(self, seed: int) -> None:
        def check(view: View, forecast: Forecast, decision: Decision) -> None:
            first, second = (forecast.sample(3, np.random.default_rng(1)) for _ in range(2))
            np.testing.assert_array_equal(first.epochs, second.epochs)

        self._run(seed, check)

    def _run(self, seed: int, check: object) -> None:
        jobs = random_jobs(seed)
        simulate(
            jobs,
            Cluster.uniform(8),
            Fifo(),
            self.make(TraceTruth(jobs)),
            observers=(check,),  # type: ignore[arg-type]
        )
