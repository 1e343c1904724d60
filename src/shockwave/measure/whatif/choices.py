"""How fast the jobs of a sampled future run with each type and number of GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import numpy as np

from shockwave.model.job import Regime
from shockwave.model.options import Option
from shockwave.model.speeds import Speeds
from shockwave.model.view import Floats, View
from shockwave.predict.speeds import SpeedLearner

_MOST_DEVIATION = 0.7  # of the logarithm: nobody believes that a type is unlike all others
_UNKNOWN_KIND = 1.0  # deviation of the logarithm from which on nothing was learned of a kind
_LOST_PER_DOUBLING = 0.08  # of the speed, where nothing is known but the number of GPUs


class OptionSpeeds:
    """Seconds per epoch of the jobs of a view with every option.

    As measured, else as ``claimed`` for just that option, else as the ``learner`` found it with
    jobs of the same kind; that is uncertain, and so many deviations ``off`` in each sample.
    """

    def __init__(self, view: View, claimed: Floats, learner: SpeedLearner, off: Floats) -> None:
        options = view.options
        assert options is not None  # whoever asks has a choice
        learned = deepcopy(learner).see(view, options, claimed)
        # Of a kind that nobody has run, what a job says of its request is all there is.
        said = deepcopy(learner).see(view, options)
        by_word = (learned.unknown.min(axis=1) > _UNKNOWN_KIND)[:, None]
        told = np.where(options.measured > 0, options.measured, claimed)
        known = told > 0
        median = np.where(by_word, said.median, learned.median)
        deviation = np.where(by_word, said.deviation, learned.deviation)
        self._keys = options.keys
        self._seconds = np.where(known, told, median)
        self._deviation = np.where(known, 0.0, np.minimum(deviation, _MOST_DEVIATION))
        self._off = off

    def of(self, row: int, sample: int, regimes: Sequence[Regime], base: float) -> Speeds:
        """Of one job; ``base`` are the seconds per epoch of its present regime."""
        seconds = self._seconds[row] * np.exp(self._off[sample] * self._deviation[row])
        return _speeds(self._keys, (seconds / base).tolist(), regimes)


def speeds_by_law(options: Sequence[Option], gpus: int, regimes: Sequence[Regime]) -> Speeds:
    """Of a job of which only the speed with its request is known: all types are alike."""
    doublings = np.log2(np.array([option.gpus for option in options]) / gpus)
    slower = 0.5 ** (doublings * (1.0 - _LOST_PER_DOUBLING))
    return _speeds(options, slower.tolist(), regimes)


def _speeds(keys: Sequence[Option], slower: Sequence[float], regimes: Sequence[Regime]) -> Speeds:
    """With each option so many times as slow as the regimes say."""
    by_type: dict[str, dict[int, tuple[float, ...]]] = {}
    for key, times in zip(keys, slower, strict=True):
        epochs: tuple[float, ...] = ()
        for regime in regimes:
            epochs += (times * regime.epoch_seconds,) * regime.epochs
        by_type.setdefault(key.gpu_type, {})[key.gpus] = epochs
    return Speeds(by_type)
