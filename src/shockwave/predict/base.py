"""What a predictor is: a view in, a distribution over every job's future out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from shockwave.model.job import JobSpec
from shockwave.model.view import Floats, View


@dataclass(frozen=True)
class FinishedJob:
    """The history of a job that is done: experience for the jobs after it."""

    spec: JobSpec
    kind: int  # View.kind
    regimes: tuple[tuple[int, float], ...]  # (index of the configuration, epochs) in order
    tenant: int = -1  # View.tenant


@dataclass(frozen=True)
class Trajectories:
    """Sampled futures of every job as a list of segments.

    ``epochs[s, j, k]`` epochs at ``seconds[s, j, k]`` seconds per epoch, in order of ``k``;
    segments of zero epochs pad the rows.
    """

    epochs: Floats
    seconds: Floats

    @cached_property
    def durations(self) -> Floats:
        """[sample, job, segment] seconds of each segment."""
        return self.epochs * self.seconds

    @cached_property
    def remaining_seconds(self) -> Floats:
        """[sample, job] seconds until the last epoch is done."""
        return np.asarray(self.durations.sum(axis=2))

    def epochs_within(self, seconds: Floats) -> Floats:
        """[sample, job, t] epochs done within ``seconds[j, t]`` of productive time."""
        ends = np.cumsum(self.durations, axis=2)
        starts = ends - self.durations
        rate = np.where(self.durations > 0, 1.0 / np.maximum(self.seconds, 1e-12), 0.0)
        done = np.zeros((*self.epochs.shape[:2], seconds.shape[1]))
        for segment in range(self.epochs.shape[2]):
            inside = np.clip(
                seconds[None, :, :] - starts[:, :, segment, None],
                0.0,
                self.durations[:, :, segment, None],
            )
            done += inside * rate[:, :, segment, None]
        return done


class Forecast(ABC):
    """A distribution over the remaining exclusive runtime of every job in a view."""

    @property
    @abstractmethod
    def remaining_seconds(self) -> Floats:
        """[job] mean seconds of exclusive running that are left."""

    @abstractmethod
    def quantile(self, q: float) -> Floats:
        """[job] the ``q``-quantile of the remaining seconds."""

    @abstractmethod
    def sample(self, count: int, rng: np.random.Generator) -> Trajectories:
        """``count`` futures of every job."""


class Predictor(ABC):
    """Predicts from what a view shows, and learns from jobs that finished.

    A predictor with ``clairvoyant = True`` knows the truth; whatever uses one is an upper
    bound, not a scheduler, and is labelled so.
    """

    name: ClassVar[str]
    clairvoyant: ClassVar[bool] = False

    @abstractmethod
    def forecast(self, view: View) -> Forecast:
        """The future of every job in ``view``. Cheap: work happens when it is asked for."""

    def learn(self, finished: Sequence[FinishedJob]) -> None:  # noqa: B027
        """Take in the histories of jobs that finished. Most predictors do not."""
