"""The two shapes that forecasts take: certain, and sampled from regime trajectories."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np

from shockwave.model.view import Floats, View
from shockwave.predict.base import Forecast, Trajectories
from shockwave.predict.epoch_times import epoch_seconds

GRID = 64  # points of the fixed grid that quantiles are read from


class CertainForecast(Forecast):
    """One future per job, without doubt: ``epochs[j, k]`` at ``seconds[j, k]`` each."""

    def __init__(self, epochs: Floats, seconds: Floats) -> None:
        self._epochs = epochs
        self._seconds = seconds

    @cached_property
    def remaining_seconds(self) -> Floats:
        return np.asarray((self._epochs * self._seconds).sum(axis=1))

    def quantile(self, q: float) -> Floats:
        check_probability(q)
        return self.remaining_seconds.copy()

    def sample(self, count: int, rng: np.random.Generator) -> Trajectories:
        shape = (count, *self._epochs.shape)
        return Trajectories(
            epochs=np.broadcast_to(self._epochs, shape),
            seconds=np.broadcast_to(self._seconds, shape),
        )


class UncertainForecast(Forecast):
    """Futures drawn by pushing uniform numbers through :meth:`trajectories`.

    Samples use random uniforms. Quantiles use a fixed low-discrepancy grid instead, so
    that they need no generator and the same view always has the same quantiles.
    """

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """How many uniform numbers one future of one job takes."""

    @abstractmethod
    def trajectories(self, uniforms: Floats) -> Trajectories:
        """Futures from ``uniforms[sample, job or 1, dimension]``, each in (0, 1)."""

    @property
    @abstractmethod
    def jobs(self) -> int:
        """How many jobs the forecast covers."""

    def sample(self, count: int, rng: np.random.Generator) -> Trajectories:
        return self.trajectories(rng.random((count, self.jobs, self.dimensions)))

    @cached_property
    def sorted_grid(self) -> Floats:
        """[point, job] remaining seconds at evenly spread points of the distribution."""
        uniforms = low_discrepancy(GRID, self.dimensions)[:, None, :]
        return np.sort(self.trajectories(uniforms).remaining_seconds, axis=0)

    def quantile(self, q: float) -> Floats:
        check_probability(q)
        grid = self.sorted_grid
        # Midpoint plotting positions: grid point i stands for the quantile (i + 1/2) / n.
        position = np.clip(q * GRID - 0.5, 0.0, GRID - 1.0)
        below = int(position)
        above = min(below + 1, GRID - 1)
        between = grid[below] + (position - below) * (grid[above] - grid[below])
        return np.asarray(np.minimum(between, grid[above]))


class ViewForecast(UncertainForecast):
    """Of the jobs in a view; a future takes one uniform number for every configuration."""

    def __init__(self, view: View) -> None:
        self._view = view

    @property
    def jobs(self) -> int:
        return len(self._view)

    @property
    def dimensions(self) -> int:
        return int(self._view.profile.shape[1])

    @cached_property
    def seconds(self) -> Floats:
        """[job, configuration] seconds per epoch."""
        return epoch_seconds(self._view)


def low_discrepancy(count: int, dimensions: int) -> Floats:
    """[point, dimension] evenly spread points in the open unit cube, the same every time.

    The first coordinate is an exact stratified grid; the others follow the additive
    recurrence of the generalised golden ratio.
    """
    index = np.arange(count)
    points = np.empty((count, dimensions))
    points[:, 0] = (index + 0.5) / count
    if dimensions > 1:
        ratio = 2.0
        for _ in range(60):  # fixed point of ratio ** dimensions == ratio + 1
            ratio = (1.0 + ratio) ** (1.0 / dimensions)
        for axis in range(1, dimensions):
            points[:, axis] = (0.5 + (index + 1) * ratio**-axis) % 1.0
    return np.clip(points, 1e-9, 1.0 - 1e-9)


def check_probability(q: float) -> None:
    """Raise :class:`ValueError` unless ``q`` is a probability."""
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"a quantile lies between 0 and 1, not at {q}")
