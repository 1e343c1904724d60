"""How arrivals will go on: the jobs that are not there yet but will compete."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Floats, Ints
from shockwave.plan.futures import scrambled

_MOST_DRAWN = 1024  # arrivals of one sample
_FURTHEST = 4  # times as many as those that show the habit, at most


@dataclass(frozen=True)
class ExpectedArrivals:
    """Jobs like the latest ones, at the rate of the latest ones."""

    after_seconds: Floats  # from now
    gpus: Floats
    total_seconds: Floats  # exclusive runtime

    def __len__(self) -> int:
        return len(self.after_seconds)


@dataclass(frozen=True)
class SampledArrivals:
    """Who comes in each sample, ``[sample, place]``; in a place without work nobody comes."""

    after_seconds: Floats  # from now
    gpus: Floats
    total_seconds: Floats
    copies: Floats  # how many jobs stand in this place


@dataclass(frozen=True)
class ArrivalHabits:
    """Arrivals are taken to go on for ``share_of_span`` of the time that they have lasted.

    A workload that has been arriving for an hour is expected to go on for half an hour
    more, unless nothing came for ``patience`` mean gaps: then it is taken to be over.
    """

    share_of_span: float = 0.5
    patience: float = 6.0
    recent_per_gpu: int = 4
    least_recent: int = 20

    def expect(
        self,
        now: float,
        arrival: Floats,
        gpus: Ints,
        total_seconds: Floats,
        *,
        gpus_total: int,
        round_seconds: float,
        horizon_seconds: float,
    ) -> ExpectedArrivals:
        """``arrival``, ``gpus``, ``total_seconds``: all jobs seen so far, in order."""
        nobody = ExpectedArrivals(np.empty(0), np.empty(0), np.empty(0))
        count = self._recent(arrival, gpus_total)
        if not count:
            return nobody
        gap = max((now - float(arrival[-count])) / count, 1e-3)
        if now - arrival[-1] >= max(self.patience * gap, round_seconds):
            return nobody
        lasts = min((now - float(arrival[0])) * self.share_of_span, horizon_seconds)
        coming = min(int(lasts / gap), 2 * count)
        like = len(arrival) - 1 - np.arange(coming) % count
        return ExpectedArrivals(
            gap * np.arange(1.0, coming + 1.0), gpus[like].astype(np.float64), total_seconds[like]
        )

    def sample(
        self,
        samples: int,
        now: float,
        arrival: Floats,
        gpus: Ints,
        total_seconds: Floats,
        *,
        gpus_total: int,
        most: int,
    ) -> SampledArrivals:
        """How it may go on, in ``most`` places: as different as nobody knows which it will be.

        Jobs and gaps are drawn from the latest ones. That which has lasted so long lasts as long
        again with a chance of a quarter, twice as long with one of a ninth, and so on; or is over,
        the more likely the longer the present gap is beside those before. The n-th job
        since the beginning is drawn alike whenever it is asked for.
        """
        count = self._recent(arrival, gpus_total)
        if not count:
            nothing = np.empty((samples, 0))
            return SampledArrivals(nothing, nothing, nothing, nothing)
        seen = len(arrival)
        drawn = min(_FURTHEST * count, _MOST_DRAWN)
        recent = arrival[-count:]
        silence, gaps = now - float(recent[-1]), np.diff(recent)
        gap = max((now - float(recent[0])) / count, 1e-3)
        longer = gaps[gaps >= silence]
        goes_on = _levels(samples, 1) > 1.0 / (
            1.0 + max(len(longer), seen * np.exp(-silence / gap))
        )
        level = _levels(samples, 2)
        lasts = goes_on * (now - arrival[0]) * ((1.0 - level) ** -0.5 - 1.0)
        which = (seen + np.arange(drawn)) * samples + np.arange(samples)[:, None]
        after = gaps[_chances(which, 3, count - 1)] * (gap / max(float(gaps.mean()), 1e-3))
        if len(longer):  # the present gap is like those that were as long
            after[:, 0] = longer[_chances(which[:, 0], 5, len(longer))] - silence
        after = np.cumsum(np.maximum(after, 1e-3), axis=1)
        comes = np.sum(after <= lasts[:, None], axis=1, keepdims=True)
        upto = _crowding(comes, most)
        standing = np.diff(upto, axis=1, prepend=0)
        used = standing > 0
        place = np.minimum(upto - (standing + 1) // 2, drawn - 1)
        like = seen - 1 - np.take_along_axis(_chances(which, 4, count), place, 1)
        return SampledArrivals(
            np.where(used, np.take_along_axis(after, place, 1), np.inf),
            gpus[like].astype(np.float64),
            np.where(used, total_seconds[like], 0.0),
            np.maximum(standing, 1).astype(np.float64),
        )

    def _recent(self, arrival: Floats, gpus_total: int) -> int:
        """How many of the latest jobs show the habit; none if there is none."""
        count = min(len(arrival), max(self.recent_per_gpu * gpus_total, self.least_recent))
        return 0 if len(arrival) <= 3 or arrival[-1] <= arrival[-count] else count


def _crowding(comes: Ints, most: int) -> Ints:
    """[sample, place] how many of those who come are in this place or one before it.

    One by one at first, and the more in a place the later: what is far away need not be close.
    """
    place = np.arange(1, min(int(comes.max()), most) + 1)
    far = np.ceil(comes * (place / most) ** 2).astype(np.int64)
    return np.minimum(np.maximum(place, far), comes)


def _levels(samples: int, what: int) -> Floats:
    """[sample] the middles of as many equal parts of 0 to 1, in an order for each purpose."""
    keys = np.arange(samples, dtype=np.uint64) + np.uint64(what << 32)
    return (np.argsort(scrambled(keys)) + 0.5) / samples


def _chances(which: Ints, what: int, below: int) -> Ints:
    """A number from 0 to ``below`` for each of the keys, as if by chance."""
    mixed = scrambled(which.astype(np.uint64) + np.uint64(what << 48))
    return (mixed % np.uint64(below)).astype(np.int64)
