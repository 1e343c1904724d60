"""What people would have been told of starts and finishes, held against what happened.

A policy that explains its decisions says when a job will start and finish, with intervals that
are meant to hold the truth in 80 % of all cases. Whether they do is measured here: every so many
rounds all that would be told is kept, and compared with the events once they are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from shockwave.model.events import Event, JobFinished, JobStarted, JobSubmitted
from shockwave.model.view import Bools, Floats, Ints, View
from shockwave.plan.explain import Explanation
from shockwave.plan.promises import Coverage, Intervals, coverage
from shockwave.policies.base import Decision
from shockwave.predict.base import Forecast

_EVERY = 13  # rounds; few enough to cost little, and in no step with what comes every hour

KINDS = {
    "start": "starts of waiting jobs",
    "finish_waiting": "finishes of waiting jobs",
    "finish_running": "finishes of running jobs",
}
ToldFigures = dict[str, float | int | None]


@dataclass(frozen=True)
class _Told:
    """All that was told in one round, in seconds since the run began."""

    now: float
    handle: Ints
    waits: Bools
    words: Explanation


class WhatIsTold:
    """An observer of decisions that asks to have every ``every``-th explained, and remembers."""

    def __init__(self, every: int = _EVERY) -> None:
        self._every = every
        self._rounds = 0
        self._told: list[_Told] = []

    def __call__(self, view: View, forecast: Forecast, decision: Decision) -> None:
        if view.between_rounds or decision.explain is None:
            return
        self._rounds += 1
        words = decision.explanation if self._rounds % self._every == 0 else None
        if words is not None:
            waits = np.ones(len(view), dtype=np.bool_)
            waits[decision.run] = False
            self._told.append(_Told(view.now, view.handle, waits, words))

    def coverage(self, events: Iterable[Event]) -> dict[str, Coverage]:
        """By what was told; whatever never happened is left out."""
        truth = Truth(events)
        found: dict[str, list[tuple[Intervals, Floats]]] = {}
        for told in self._told:
            for kind, intervals, when in _cases(told, truth):
                known = ~np.isnan(when)
                found.setdefault(kind, []).append((intervals.of(known), when[known]))
        result = {}
        for kind, cases in found.items():
            parts = zip(*(told.parts for told, _ in cases), strict=True)
            came_out = coverage(
                Intervals(*map(np.concatenate, parts)), np.concatenate([when for _, when in cases])
            )
            if came_out is not None:
                result[kind] = came_out
        return result

    def figures(self, events: Iterable[Event]) -> ToldFigures:
        """The same as flat figures of a run; none for a policy that tells nothing."""
        return {
            f"told_{kind}_{name}": value
            for kind, came_out in self.coverage(events).items()
            for name, value in (
                ("cases", came_out.cases),
                ("inside", came_out.inside),
                ("width_seconds", came_out.mean_width_seconds),
                ("error_seconds", came_out.median_error_seconds),
                ("truth_seconds", came_out.median_truth_seconds),
            )
        }


def _cases(told: _Told, truth: Truth) -> Iterator[tuple[str, Intervals, Floats]]:
    """What was told, and what happened, in seconds from when it was told."""
    words, now = told.words, told.now
    start = Intervals(
        (words.expected_start if words.start_low is None else words.start_low) - now,
        words.expected_start - now,
        (words.expected_start if words.start_high is None else words.start_high) - now,
    )
    finish = Intervals(words.finish_low - now, words.finish - now, words.finish_high - now)
    for kind, intervals, who, when in (
        ("start", start, told.waits, truth.start_after),
        ("finish_waiting", finish, told.waits, truth.finish_after),
        ("finish_running", finish, ~told.waits, truth.finish_after),
    ):
        handles = told.handle[who].tolist()
        yield kind, intervals.of(who), np.array([when(h, now) for h in handles]) - now


class Truth:
    """When jobs started and finished, by handle."""

    def __init__(self, events: Iterable[Event]) -> None:
        handle: dict[str, int] = {}
        self._starts: dict[int, list[float]] = {}
        self._finish: dict[int, float] = {}
        for event in events:
            if isinstance(event, JobSubmitted):
                handle[event.job.id] = len(handle)
            elif isinstance(event, JobStarted):
                self._starts.setdefault(handle[event.job], []).append(event.time)
            elif isinstance(event, JobFinished):
                self._finish[handle[event.job]] = event.time

    def start_after(self, handle: int, now: float) -> float:
        return next((time for time in self._starts.get(handle, ()) if time > now), np.nan)

    def finish_after(self, handle: int, now: float) -> float:
        return self._finish.get(handle, np.nan)
