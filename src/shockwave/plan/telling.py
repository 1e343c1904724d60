"""What a policy tells people, followed from round to round and corrected by what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Bools, Floats, Ints, View
from shockwave.plan.promises import Intervals, Promises, Told

_STEADY = 0.2  # of the samples beyond either end: the outer ones of a dozen are mere chance
TELL_EVERY = 13  # rounds; so often what would be told is kept, to be held against the truth


@dataclass(frozen=True)
class Foretold:
    """Starts and finishes, seconds from now, one column per job of the view."""

    start: Intervals
    finish: Intervals

    @staticmethod
    def of_samples(starts: Floats, finishes: Floats) -> Foretold:
        """``[sample, job]``, seconds from now; each sample stands for an equal part of all.

        Only as far as the samples say it steadily: the rest is for the errors to say.
        """
        levels = (_STEADY, 0.5, 1.0 - _STEADY)
        return Foretold(
            *(
                Intervals(*np.quantile(times, levels, axis=0, method="hazen"))
                for times in (starts, finishes)
            )
        )


class Teller:
    """Remembers now and then what a policy foresees, and corrects what it tells by the errors."""

    def __init__(self) -> None:
        self._promises = Promises()
        self._rounds = 0
        self._present = np.empty(0, dtype=np.int64)  # handles at the last round
        self._ends = np.empty(0)  # of these, when each would end if it ran from there on
        self._chosen = self._present  # of these, those that ran

    def follow(self, view: View, run: Ints, ends: Floats) -> None:
        """Compare what was foretold with what happened; ``ends`` is to be expected from now on."""
        promises, unit = self._promises, view.round_seconds
        self._rounds += 1
        gone = ~np.isin(self._present, view.handle, assume_unique=True)
        # Nobody tells a policy when within the round: as was to be expected, as far as it can be.
        ended = np.clip(self._ends[gone], view.now - unit, view.now)
        promises.finished(self._present[gone], ended, unit)
        between = np.setdiff1d(view.handle[view.running], self._chosen, assume_unique=True)
        promises.started(between, np.full(len(between), view.now - 0.5 * unit), unit)
        new = view.handle[run][~view.running[run]]
        promises.started(new, np.full(len(new), view.now), unit)
        self._present, self._chosen, self._ends = view.handle, view.handle[run], ends

    def remember(self, view: View, run: Ints, foretell: Callable[[], Foretold]) -> None:
        """In one round out of so many, what is foretold, before any correction."""
        if self._rounds % TELL_EVERY:
            return
        told, waits, now = foretell(), waiting(view, run), view.now
        for about, jobs, intervals in (
            (Told.START, waits, told.start),
            (Told.FINISH_WAITING, waits, told.finish),
            (Told.FINISH_RUNNING, ~waits, told.finish),
        ):
            self._promises.remember(about, view.handle[jobs], now, intervals.of(jobs))

    def corrected(self, view: View, run: Ints, told: Foretold) -> Foretold:
        """As people should be told."""
        waits = waiting(view, run)
        start, waiting_finish, running_finish = (
            self._promises.corrected(about, intervals, view.now, view.round_seconds)
            for about, intervals in (
                (Told.START, told.start),
                (Told.FINISH_WAITING, told.finish),
                (Told.FINISH_RUNNING, told.finish),
            )
        )
        return Foretold(start.where(waits, told.start), waiting_finish.where(waits, running_finish))


def waiting(view: View, run: Ints) -> Bools:
    """[job] who is not among those that ``run``."""
    waits = np.ones(len(view), dtype=np.bool_)
    waits[run] = False
    return waits
