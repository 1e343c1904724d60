"""Restatement with equal shares: the prior before anything was learned.

A job's regimes occupy shares of its epochs. When a regime ends after ``m`` epochs its
share is restated to exactly that, and the epochs left are split by the prior over the
ongoing configuration and those still reachable,

    remaining seconds = epochs_left * sum_c s_c d(c),    s ~ Dirichlet(1/2, ..., 1/2)

so that the ongoing regime has at least the epochs seen so far, every configuration that
is possible gets an equal share in the mean, and a job in its last configuration is known
exactly. One half is Jeffreys' prior for proportions: it expects that some configurations
take nearly everything and others nearly nothing, and so they do.
"""

from __future__ import annotations

from functools import cached_property
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from shockwave.model.view import Bools, Floats, Ints, View
from shockwave.predict.base import Forecast, Predictor, Trajectories
from shockwave.predict.forecasts import ViewForecast
from shockwave.predict.transitions import current, reachable


class EqualShares(Predictor):
    """Equal shares of the epochs left for the ongoing and every reachable configuration."""

    name: ClassVar[str] = "equal-shares"

    def forecast(self, view: View) -> Forecast:
        return SharesForecast(view)


class SharesForecast(ViewForecast):
    """Epochs left divided by a Dirichlet(1/2) over what is possible."""

    @cached_property
    def _possible(self) -> Bools:
        possible = reachable(self._view)
        possible[np.arange(len(possible)), current(self._view)] = True
        return possible

    @cached_property
    def _order(self) -> Ints:
        """[job, position] configurations in the order of their regimes, the current first."""
        columns = np.arange(self._possible.shape[1])
        ahead = (columns[None, :] - current(self._view)[:, None]) % len(columns)
        return np.argsort(np.where(self._possible, ahead, len(columns)), axis=1, kind="stable")

    @cached_property
    def remaining_seconds(self) -> Floats:
        seconds = np.where(self._possible, self.seconds, 0.0).sum(axis=1)
        return np.asarray(self._view.epochs_left * seconds / self._possible.sum(axis=1))

    @cached_property
    def survival(self) -> Floats:
        """[job] probability that an ongoing regime lasts as long as it has, if it is to end.

        With ``K`` configurations to share ``L`` epochs that began with this regime, it
        exceeds ``m`` of them with probability ``(1 - m / L) ** (K - 1)``: ``K - 1`` points
        of change fall anywhere in ``L``, none of them into ``m``.
        """
        lasted = np.maximum(self._view.regime_epochs, 0.0)
        left = self._view.epochs_left / np.maximum(self._view.epochs_left + lasted, 1e-12)
        return np.asarray(left ** (self._possible.sum(axis=1) - 1))

    def trajectories(self, uniforms: Floats) -> Trajectories:
        count, jobs, width = len(uniforms), self.jobs, self.dimensions
        every = np.tile(np.arange(jobs), count)
        spread = np.broadcast_to(uniforms, (count, jobs, width)).reshape(-1, width)
        epochs, seconds = self.draw(every, spread)
        shape = (count, jobs, width)
        return Trajectories(epochs=epochs.reshape(shape), seconds=seconds.reshape(shape))

    def draw(self, jobs: Ints, uniforms: Floats) -> tuple[Floats, Floats]:
        """[draw, regime] epochs and seconds of a future of ``jobs[draw]`` each."""
        order = self._order[jobs]
        possible = np.take_along_axis(self._possible[jobs], order, axis=1)
        weights = gamma_half_quantile(uniforms) * possible
        scale = self._view.epochs_left[jobs] / weights.sum(axis=1)
        return weights * scale[:, None], np.take_along_axis(self.seconds[jobs], order, axis=1)


def _gamma_half_table() -> tuple[Floats, Floats]:
    # If z is standard normal, z ** 2 / 2 has the Gamma(1/2) distribution.
    normal = NormalDist()
    at = np.concatenate([np.linspace(0.0, 0.99, 2000)[:-1], 1.0 - np.geomspace(0.01, 1e-9, 300)])
    return at, np.array([normal.inv_cdf((1.0 + p) / 2.0) ** 2 / 2.0 for p in at.tolist()])


_GAMMA_HALF = _gamma_half_table()


def gamma_half_quantile(p: Floats) -> Floats:
    """Quantiles of the Gamma(1/2) distribution, interpolated from a table; above zero."""
    return np.maximum(np.interp(p, *_GAMMA_HALF), 1e-12)
