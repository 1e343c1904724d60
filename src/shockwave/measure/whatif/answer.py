"""Before and after, over all sampled futures: figures of the whole and effects on each job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shockwave.measure.fairness import UNFAIR_ABOVE
from shockwave.measure.whatif.roll import Rolled
from shockwave.model.view import Floats
from shockwave.plan.promises import TAIL

_SAME_SECONDS = 1.0  # a difference below this is none


@dataclass(frozen=True, slots=True)
class Interval:
    """The middle, and what the truth lies between in four of five cases."""

    low: float
    middle: float
    high: float

    @staticmethod
    def of(values: Floats, margin: float = 0.0) -> Interval | None:
        """Over samples: what four in five lie between, and a ``margin`` at either end.

        None where there is no value.
        """
        known = values[~np.isnan(values)]
        if not len(known):
            return None
        low, middle, high = np.quantile(known, (TAIL, 0.5, 1.0 - TAIL))
        return Interval(float(low) - margin, float(middle), float(high) + margin)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the jobs that are there now. ``difference`` is after less before, by sample."""

    name: str
    unit: str  # seconds, ratio or fraction
    before: Interval | None
    after: Interval | None
    difference: Interval | None
    mean_difference: float | None  # over the samples: the best guess at the effect


@dataclass(frozen=True, slots=True)
class Effect:
    """What becomes of one job. Seconds since the run began; a running job has no start to come."""

    job: str
    is_new: bool  # it is one of those asked about
    start_before: Interval | None
    start_after: Interval | None
    finish_before: Interval | None
    finish_after: Interval | None
    later_seconds: Interval | None  # finish after less before, by sample
    is_affected: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """All that was asked for. ``now`` is in seconds since the run began."""

    now: float
    samples: int
    figures: tuple[Figure, ...]
    effects: tuple[Effect, ...]  # on every job, those that change most first
    never: tuple[str, ...]  # jobs that no sample saw finish, as they are held for instance
    guessed: int = 0  # jobs whose length nobody knows: no epoch was declared or has ended


def answer(
    before: Sequence[Rolled],
    after: Sequence[Rolled],
    arrivals: dict[str, float],
    extra: Sequence[str],
    *,
    now: float,
    round_seconds: float,
) -> Answer:
    """``arrivals`` are those of all jobs, the ``extra`` ones included."""
    jobs = [job for job in arrivals if job not in extra]
    effects = [
        _effect(job, before, after, is_new=job in extra, round_seconds=round_seconds)
        for job in arrivals
    ]
    effects.sort(key=lambda effect: (not effect.is_new, -_size(effect)))
    arrived = np.array([arrivals[job] for job in jobs])
    there = [_Outcomes(rolled, jobs, arrived) for rolled in (before, after)]
    # Only jobs that finish both times can be compared.
    for one, other in (there, there[::-1]):
        one.finish[np.isnan(other.finish)] = np.nan
    return Answer(
        now,
        len(before),
        (
            _figure("makespan_seconds", "seconds", *(o.makespan(now) for o in there)),
            _figure("mean_jct_seconds", "seconds", *(o.mean_jct() for o in there)),
            _figure("worst_ftf_themis", "ratio", *(o.worst_ftf() for o in there)),
            _figure("unfair_fraction_themis", "fraction", *(o.unfair() for o in there)),
        ),
        tuple(effects),
        tuple(effect.job for effect in effects if effect.finish_after is None),
    )


class _Outcomes:
    """Columns [sample, job] of the jobs that are there now."""

    def __init__(self, rolled: Sequence[Rolled], jobs: Sequence[str], arrival: Floats) -> None:
        def column(of: str) -> Floats:
            rows = [[getattr(one, of).get(job, np.nan) for job in jobs] for one in rolled]
            return np.array(rows, dtype=np.float64).reshape(len(rolled), len(jobs))

        self.finish = column("finish")
        self._exclusive, self._active = column("exclusive_seconds"), column("mean_active")
        self._gpus = np.array([[max(one.gpus, 1)] for one in rolled])
        self._arrival = arrival

    def makespan(self, now: float) -> Floats:
        """[sample] until the last of them has finished."""
        return _over_jobs(np.nanmax, self.finish) - now

    def mean_jct(self) -> Floats:
        return _over_jobs(np.nanmean, self.finish - self._arrival)

    def worst_ftf(self) -> Floats:
        return _over_jobs(np.nanmax, self._ftf())

    def unfair(self) -> Floats:
        ftf = self._ftf()
        return _over_jobs(np.nanmean, np.where(np.isnan(ftf), np.nan, ftf > UNFAIR_ABOVE))

    def _ftf(self) -> Floats:
        """By ``themis``: JCT over the exclusive runtime times the mean number of active jobs."""
        fair = self._exclusive * np.maximum(1.0, self._active / self._gpus)
        return np.asarray((self.finish - self._arrival) / fair)


def _over_jobs(figure: np.ufunc | object, values: Floats) -> Floats:
    """[sample] of those rows that have a value at all."""
    result = np.full(len(values), np.nan)
    known = ~np.isnan(values).all(axis=1) if values.size else np.zeros(len(values), dtype=np.bool_)
    if known.any():
        result[known] = figure(values[known], axis=1)  # type: ignore[operator]
    return result


def _figure(name: str, unit: str, before: Floats, after: Floats) -> Figure:
    difference = after - before
    known = difference[~np.isnan(difference)]
    mean = float(known.mean()) if len(known) else None
    return Figure(
        name, unit, Interval.of(before), Interval.of(after), Interval.of(difference), mean
    )


def _effect(
    job: str,
    before: Sequence[Rolled],
    after: Sequence[Rolled],
    *,
    is_new: bool,
    round_seconds: float,
) -> Effect:
    def times(rolled: Sequence[Rolled], of: str) -> Floats:
        return np.array([getattr(one, of).get(job, np.nan) for one in rolled])

    finish_before, finish_after = times(before, "finish"), times(after, "finish")
    later = Interval.of(finish_after - finish_before)
    moved = later is not None and (
        abs(later.middle) >= round_seconds / 2
        or later.low > _SAME_SECONDS
        or later.high < -_SAME_SECONDS
    )
    half = round_seconds / 2  # nobody knows it more exactly than that
    return Effect(
        job,
        is_new,
        Interval.of(times(before, "start"), half),
        Interval.of(times(after, "start"), half),
        Interval.of(finish_before, half),
        Interval.of(finish_after, half),
        later,
        is_new or moved,
    )


def _size(effect: Effect) -> float:
    return 0.0 if effect.later_seconds is None else abs(effect.later_seconds.middle)
