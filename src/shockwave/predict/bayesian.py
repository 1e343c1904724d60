"""Standard Bayesian: every epoch is one observation of a Dirichlet-multinomial.

    share(c) = (prior(c) + epochs seen in c) / (sum of priors + epochs seen)

and the epochs left are split by these shares. A baseline: epochs of a training job are
not exchangeable, what it did so far says little about what comes next, so the past
configurations keep too much weight.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from shockwave.model.view import Floats, View
from shockwave.predict.base import Forecast, Predictor, Trajectories
from shockwave.predict.forecasts import ViewForecast
from shockwave.predict.shares import gamma_half_quantile
from shockwave.predict.transitions import declared


class Bayesian(Predictor):
    """Dirichlet-multinomial over the declared configurations, prior ``E / K`` epochs each."""

    name: ClassVar[str] = "bayesian"

    def forecast(self, view: View) -> Forecast:
        return _MultinomialForecast(view)


class _MultinomialForecast(ViewForecast):
    @cached_property
    def _evidence(self) -> Floats:
        """[job, configuration] pseudo-counts: the prior's and the epochs seen."""
        possible = declared(self._view)
        prior = self._view.epochs / np.maximum(self._view.configurations, 1)
        return np.where(possible, prior[:, None] + self._view.configuration_epochs, 0.0)

    @cached_property
    def remaining_seconds(self) -> Floats:
        total = self._evidence.sum(axis=1)
        shares = self._evidence / np.maximum(total, 1e-12)[:, None]
        return np.asarray(self._view.epochs_left * (shares * self.seconds).sum(axis=1))

    def trajectories(self, uniforms: Floats) -> Trajectories:
        # Gamma variates by the Wilson-Hilferty cube: close for the counts that occur here
        # (at least E / K epochs), and they come from uniforms without an inverse gamma.
        counts = np.maximum(self._evidence, 1e-12)
        ninth = 1.0 / (9.0 * counts)
        normal = _normal_quantile(uniforms)
        gamma = counts * np.maximum(1.0 - ninth + normal * np.sqrt(ninth), 1e-6) ** 3
        gamma = np.where(self._evidence > 0, gamma, 0.0)
        shares = gamma / np.maximum(gamma.sum(axis=2, keepdims=True), 1e-300)
        return Trajectories(
            epochs=shares * self._view.epochs_left[:, None],
            seconds=np.broadcast_to(self.seconds, shares.shape),
        )


def _normal_quantile(p: Floats) -> Floats:
    """Quantiles of the standard normal distribution."""
    tail = 1.0 - 2.0 * np.minimum(p, 1.0 - p)
    return np.asarray(np.sign(p - 0.5) * np.sqrt(2.0 * gamma_half_quantile(tail)))
