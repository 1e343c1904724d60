"""Gradient noise scale: the batch size beyond which more samples stop helping.

With the true gradient ``G`` and the covariance ``Sigma`` of one sample's gradient, the noise
scale is ``tr(Sigma) / |G|^2``. The gradients of one step at two batch sizes ``B1 < B2`` give
unbiased estimates of both parts, because ``E|g_B|^2 = |G|^2 + tr(Sigma) / B``:

    |G|^2 = (B2 |g2|^2 - B1 |g1|^2) / (B2 - B1)
    S     = (|g1|^2 - |g2|^2) / (1/B1 - 1/B2)

Each is smoothed over steps and only then divided: the quotient of two noisy estimates is
biased, that of two means much less so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from shockwave.model.errors import InputError


def unbiased_parts(
    small_batch: int, small_squared_norm: float, large_batch: int, large_squared_norm: float
) -> tuple[float, float]:
    """Estimates ``(|G|^2, tr(Sigma))`` from the squared gradient norms at two batch sizes."""
    if not 0 < small_batch < large_batch:
        raise InputError(
            "the batch sizes must grow", place="batches", value=(small_batch, large_batch)
        )
    signal = (large_batch * large_squared_norm - small_batch * small_squared_norm) / (
        large_batch - small_batch
    )
    noise = (small_squared_norm - large_squared_norm) / (1.0 / small_batch - 1.0 / large_batch)
    return signal, noise


class NoiseScaleEstimator:
    """Smooths both parts over steps: exponential means, corrected for their start at zero.

    ``memory_steps`` is the number of steps that the mean remembers.
    """

    def __init__(self, memory_steps: float = 100.0) -> None:
        if not memory_steps >= 1.0:
            raise InputError("must be 1 or more", place="memory_steps", value=memory_steps)
        self._decay = 1.0 - 1.0 / memory_steps
        self._steps = 0
        self._signal = 0.0
        self._noise = 0.0

    def observe(
        self,
        small_batch: int,
        small_squared_norm: float,
        large_batch: int,
        large_squared_norm: float,
    ) -> None:
        """Takes the squared norms of one step. Those that are not finite are left out.

        In data-parallel training the gradient of one rank (averaged over ranks, if they can be
        had) and the all-reduced one are such a pair; in one process, that of a micro-batch and
        of the whole batch.
        """
        signal, noise = unbiased_parts(
            small_batch, small_squared_norm, large_batch, large_squared_norm
        )
        if not (math.isfinite(signal) and math.isfinite(noise)):
            return
        self._steps += 1
        self._signal += (1.0 - self._decay) * (signal - self._signal)
        self._noise += (1.0 - self._decay) * (noise - self._noise)

    def observe_micro_batches(self, gradients: NDArray[np.float64], micro_batch: int) -> None:
        """Takes one step's mean gradients of equal micro-batches, one a row (two at least)."""
        count = len(gradients)
        small = float(np.mean(np.sum(gradients**2, axis=1)))
        large = float(np.sum(np.mean(gradients, axis=0) ** 2))
        self.observe(micro_batch, small, micro_batch * count, large)

    @property
    def squared_gradient(self) -> float:
        """The estimate of ``|G|^2``; nan before the first step."""
        return self._signal / self._weight() if self._steps else math.nan

    @property
    def trace(self) -> float:
        """The estimate of ``tr(Sigma)``; nan before the first step."""
        return self._noise / self._weight() if self._steps else math.nan

    @property
    def noise_scale(self) -> float:
        """``tr(Sigma) / |G|^2`` in samples; nan before the first step.

        Infinite where the noise drowns the gradient so far that its estimate is not positive.
        """
        if not self._steps:
            return math.nan
        if self._noise <= 0.0:
            return 0.0
        return self._noise / self._signal if self._signal > 0.0 else math.inf

    def _weight(self) -> float:
        return 1.0 - self._decay**self._steps

    def state_dict(self) -> dict[str, float | int]:
        return {"steps": self._steps, "signal": self._signal, "noise": self._noise}

    def load_state_dict(self, state: Mapping[str, float | int]) -> None:
        self._steps = int(state["steps"])
        self._signal = float(state["signal"])
        self._noise = float(state["noise"])


class GradientNoiseScale:
    """Doubles the batch at an epoch boundary when the noise scale has outgrown it.

    The rule: smoothed noise scale ``> factor * batch size``, up to ``maximum``. The batch never
    shrinks. A noise scale that is infinite (see :class:`NoiseScaleEstimator`) counts as large.
    """

    def __init__(
        self,
        batch_size: int,
        maximum: int,
        *,
        factor: float = 1.0,
        memory_steps: float = 100.0,
    ) -> None:
        if not 1 <= batch_size <= maximum:
            raise InputError(
                "must be from 1 to the maximum", place="batch_size", value=(batch_size, maximum)
            )
        if not factor > 0:
            raise InputError("must be above 0", place="factor", value=factor)
        self.estimator = NoiseScaleEstimator(memory_steps)
        self.batch_size = batch_size
        self.initial_batch_size = batch_size
        self.maximum = maximum
        self.factor = factor

    @property
    def configurations(self) -> tuple[int, ...]:
        """Every batch size this may ever use: what the job declares at submission."""
        sizes = [self.initial_batch_size]
        while sizes[-1] < self.maximum:
            sizes.append(min(2 * sizes[-1], self.maximum))
        return tuple(sizes)

    @property
    def learning_rate_scale(self) -> float:
        """What to multiply the learning rate with: the batch's growth so far."""
        return self.batch_size / self.initial_batch_size

    def at_epoch_end(self) -> int:
        """The batch size of the next epoch."""
        if self.estimator.noise_scale > self.factor * self.batch_size:  # False for nan
            self.batch_size = min(2 * self.batch_size, self.maximum)
        return self.batch_size

    def state_dict(self) -> dict[str, float | int]:
        return {"batch_size": self.batch_size, **self.estimator.state_dict()}

    def load_state_dict(self, state: Mapping[str, float | int]) -> None:
        if state["batch_size"] not in self.configurations:
            raise InputError(
                f"is none of {self.configurations}", place="batch_size", value=state["batch_size"]
            )
        self.batch_size = int(state["batch_size"])
        self.estimator.load_state_dict(state)
