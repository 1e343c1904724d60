"""What people were told about starts and finishes, how it came out, and what to tell next.

An interval that is called 80 % must hold the truth in 80 % of all cases, whatever the reasons
for which it would not: futures that were sampled too alike, orders that changed, gangs that did
not fit. So what was told is remembered until the truth is known, and its errors correct the next
intervals (split conformal prediction, each end by itself). Errors count in units that grow with
the time foretold and with how far that end was from the middle, as the root of both: where samples
agreed, a small error is a surprise, but a job that was to run alone and was stopped is late by
more than any sample said. Starts of waiting jobs and finishes of waiting and of running jobs have
errors of their own. The middle is moved only as far as the errors agree on: those that are known
first are not like those that come later, and a guess from samples is worth more than a correction
by unlike cases. Before there are errors of this run, there are those that are usual.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan import usual_errors

TAIL = 0.1  # of the cases beyond either end of an interval
_AGREED = 0.3  # of the errors may be on the other side of what the middle is moved by
_ALONE = 0.1  # of the time foretold: errors where all samples agree count as if they did so far
_REMEMBERED = 2000  # errors of each kind
_USUAL = 2  # times that each of the usual errors counts, as if it had been seen in this run
_AT_ONCE = 64  # jobs of which it is remembered what was told of them, spread over all
_OPEN = 8192  # intervals of which nobody knows the truth yet; of more, every second is forgotten
_RESOLUTION_ROUNDS = 0.25  # nothing is told more exactly than this


class Told(IntEnum):
    """What an interval is about."""

    START = 0  # of a job that waits
    FINISH_WAITING = 1  # of a job that waits
    FINISH_RUNNING = 2  # of a job that runs


# Of the errors so far, beyond either end. The first ones known are of jobs that ended early, so
# finishes are told a little wider than those errors ask for.
_AIM = {Told.START: TAIL, Told.FINISH_WAITING: 0.085, Told.FINISH_RUNNING: 0.09}


@dataclass(frozen=True)
class Intervals:
    """One column per job, seconds from when it was told."""

    low: Floats
    middle: Floats
    high: Floats

    @staticmethod
    def exactly(seconds: Floats) -> Intervals:
        """Where one time is known and no spread: that has to come from errors of the past."""
        return Intervals(seconds, seconds, seconds)

    @property
    def parts(self) -> tuple[Floats, Floats, Floats]:
        return self.low, self.middle, self.high

    def of(self, jobs: Ints | Bools) -> Intervals:
        return Intervals(self.low[jobs], self.middle[jobs], self.high[jobs])

    def where(self, jobs: Bools, other: Intervals) -> Intervals:
        """These for ``jobs``, the others' for the rest."""
        return Intervals(
            np.where(jobs, self.low, other.low),
            np.where(jobs, self.middle, other.middle),
            np.where(jobs, self.high, other.high),
        )


@dataclass(frozen=True)
class Coverage:
    """How intervals came out."""

    cases: int
    inside: float  # share of the cases within their interval
    mean_width_seconds: float
    median_error_seconds: float  # of the middle
    median_truth_seconds: float  # how far away the truth was, to compare the error with


def coverage(told: Intervals, truth: Floats) -> Coverage | None:
    """Intervals against what really happened, all in seconds from when each was told.

    >>> told = Intervals(np.array([1.0, 1.0]), np.array([2.0, 2.0]), np.array([3.0, 3.0]))
    >>> coverage(told, np.array([2.5, 4.0])).inside
    0.5
    """
    if not len(truth):
        return None
    within = (told.low - 1e-6 <= truth) & (truth <= told.high + 1e-6)
    return Coverage(
        cases=len(truth),
        inside=float(within.mean()),
        mean_width_seconds=float((told.high - told.low).mean()),
        median_error_seconds=float(np.median(np.abs(told.middle - truth))),
        median_truth_seconds=float(np.median(truth)),
    )


class Promises:
    """Remembers what was told, and corrects by what came of it. ``unit`` is a round's length."""

    def __init__(self) -> None:
        self._open = _Open.empty()
        self._errors = {
            about: _Errors(*(np.repeat(part, _USUAL) for part in parts))
            for about, parts in (
                (Told.START, usual_errors.START),
                (Told.FINISH_WAITING, usual_errors.FINISH_WAITING),
                (Told.FINISH_RUNNING, usual_errors.FINISH_RUNNING),
            )
        }

    def remember(self, about: Told, handles: Ints, now: float, told: Intervals) -> None:
        """What was told of these jobs at ``now``, before any correction."""
        count = len(handles)
        if count > _AT_ONCE:
            some = np.arange(_AT_ONCE) * count // _AT_ONCE
            handles, told, count = handles[some], told.of(some), _AT_ONCE
        kind = np.full(count, int(about))
        self._open = self._open.joined(_Open(kind, handles, np.full(count, now), *told.parts))
        if len(self._open.handle) > _OPEN:
            self._open = self._open.of(slice(None, None, 2))

    def started(self, handles: Ints, when: Floats, unit: float) -> None:
        """These jobs began to run."""
        self._resolve(self._open.about == Told.START, handles, when, unit)

    def finished(self, handles: Ints, when: Floats, unit: float) -> None:
        """These jobs have left."""
        self._resolve(self._open.about != Told.START, handles, when, unit)

    def corrected(self, about: Told, told: Intervals, now: float, unit: float) -> Intervals:
        """The intervals with the errors of their kind taken into account."""
        low, middle, high = self._shift(about, now, unit)
        below, ahead, above = units_of(told, unit)
        centre = np.maximum(told.middle + middle * ahead, 0.0)
        about_it = _RESOLUTION_ROUNDS * unit
        # What was foretold is held whatever the errors say: they may be of unlike cases.
        earliest = np.minimum(centre - about_it, told.middle)
        latest = np.maximum(centre + about_it, told.middle)
        return Intervals(
            low=np.maximum(np.minimum(told.low + low * below, earliest), 0.0),
            middle=centre,
            high=np.maximum(told.high + high * above, latest),
        )

    def _resolve(self, concerned: Bools, handles: Ints, when: Floats, unit: float) -> None:
        if not len(handles):
            return
        order = np.argsort(handles)
        hit = concerned & np.isin(self._open.handle, handles)
        if hit.any():
            known = self._open.of(hit)
            truth = when[order][np.searchsorted(handles[order], known.handle)] - known.told_at
            errors = _Errors.of(known, truth, unit)
            for about in Told:
                self._errors[about] = self._errors[about].joined(errors.rows(known.about == about))
            self._open = self._open.of(~hit)

    def _shift(self, about: Told, now: float, unit: float) -> tuple[float, float, float]:
        """By how much to move low, middle and high, each in its own units.

        What has not come true although its interval is over counts already, or only the early
        ones would count while the late ones are still to come.
        """
        waited = now - self._open.told_at
        overdue = self._open.of((self._open.about == about) & (waited > self._open.high))
        errors = self._errors[about].joined(_Errors.of(overdue, now - overdue.told_at, unit))
        least, most = np.quantile(errors.middle, (_AGREED, 1.0 - _AGREED))
        return (
            float(np.quantile(errors.low, _AIM[about])),
            float(np.clip(0.0, least, most)),
            float(np.quantile(errors.high, 1.0 - _AIM[about])),
        )


@dataclass(frozen=True)
class _Errors:
    """How far the truth was from each part, in the units of that part; one row per case."""

    low: Floats
    middle: Floats
    high: Floats

    @staticmethod
    def of(told: _Open, truth: Floats, unit: float) -> _Errors:
        intervals = Intervals(told.low, told.middle, told.high)
        parts = zip(intervals.parts, units_of(intervals, unit), strict=True)
        return _Errors(*((truth - part) / scale for part, scale in parts))

    def rows(self, rows: Bools) -> _Errors:
        return _Errors(self.low[rows], self.middle[rows], self.high[rows])

    def joined(self, other: _Errors) -> _Errors:
        """Both, the other's last; the oldest are forgotten."""
        pairs = zip(
            (self.low, self.middle, self.high), (other.low, other.middle, other.high), strict=True
        )
        return _Errors(*(np.concatenate(pair)[-_REMEMBERED:] for pair in pairs))


def units_of(told: Intervals, unit: float) -> tuple[Floats, Floats, Floats]:
    """The units in which errors of low, middle and high count."""
    ahead = np.maximum(told.middle, unit)
    below, above = (
        np.sqrt(ahead * (side + _ALONE * ahead))
        for side in (told.middle - told.low, told.high - told.middle)
    )
    return below, ahead, above


@dataclass(frozen=True)
class _Open:
    """Intervals that nobody knows the truth of yet, as columns."""

    about: Ints
    handle: Ints
    told_at: Floats
    low: Floats
    middle: Floats
    high: Floats

    @staticmethod
    def empty() -> _Open:
        whole, real = np.empty(0, dtype=np.int64), np.empty(0)
        return _Open(whole, whole, real, real, real, real)

    def of(self, rows: Bools | slice) -> _Open:
        return _Open(*(getattr(self, column.name)[rows] for column in fields(self)))

    def joined(self, other: _Open) -> _Open:
        return _Open(
            *(
                np.concatenate([getattr(self, column.name), getattr(other, column.name)])
                for column in fields(self)
            )
        )
