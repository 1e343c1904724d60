"""What a cluster added to the work of a live run, from its journal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from shockwave.executors.replayed import EndSeconds, LaunchSeconds, Overheads
from shockwave.model.events import (
    Event,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    Progressed,
    RegimeChanged,
    RunStarted,
)

_LONGEST_TYPICAL_START = 0.9  # of a round; with more no simulated job would make progress

_Launch = tuple[str, int]  # job and attempt


def measured_overheads(events: Sequence[Event], settings: RunStarted) -> Overheads:
    """How long starts, stops, ends, and noticing an end took.

    Nothing is taken from the time that jobs held GPUs less what their epochs took, on purpose:
    that would make the simulated completion times add up to the live ones by construction, and
    the comparison would prove nothing. A simulated run has all of it in its settings.
    """
    if settings.started_unix is None:
        return Overheads(LaunchSeconds(start=settings.restart_seconds))
    reader = _Reader(settings.round_seconds)
    for event in events:
        reader.apply(event)
    launches, ends = reader.launches(), reader.ends
    order = reader.typical_order_seconds
    start = _mean((launch.order + launch.start for launch in launches.values()), math.nan)
    if math.isnan(start):
        order, start = 0.0, settings.restart_seconds
    start = min(start, _LONGEST_TYPICAL_START * settings.round_seconds)
    return Overheads(
        LaunchSeconds(order, max(start - order, 0.0), reader.typical_stop_seconds),
        EndSeconds(_mean(end.leave for end in ends.values()),
                   _mean(end.notice for end in ends.values())),
        launches,
        ends,
    )  # fmt: skip


class _Reader:
    """Follows each job's present launch.

    The first word of a first launch is a :class:`RegimeChanged` at the time when the job said it.
    Later launches report no new regime. What any start took from when it was carried out is in a
    column of :class:`Progressed`; from the order until then a later one is taken to have waited as
    long as first ones do. How long a job held its GPUs after it was told to stop is in the first
    progress that tells of it afterwards.
    """

    def __init__(self, round_seconds: float) -> None:
        self._round_seconds = round_seconds
        self.ends: dict[str, EndSeconds] = {}
        self._names: list[str] = []  # by handle
        self._latest: dict[str, JobStarted] = {}
        self._speechless: set[str] = set()  # those that have said nothing since they were started
        self._leaving: set[str] = set()  # told to stop, and what they still held was not told
        self._since_order: dict[_Launch, float] = {}
        self._since_launch: dict[_Launch, float] = {}
        self._stops: dict[_Launch, float] = {}
        self._progress = Progressed.nothing(0.0)

    def launches(self) -> dict[_Launch, LaunchSeconds]:
        typical_order, typical_stop = self.typical_order_seconds, self.typical_stop_seconds
        found = {}
        for key in self._since_order.keys() | self._since_launch.keys():
            whole = self._since_order.get(key)
            start = self._since_launch.get(key)
            if whole is None:
                assert start is not None  # it is one of the two
                order = typical_order
            elif start is None or start > whole:
                order, start = 0.0, whole
            else:
                order = whole - start
            found[key] = LaunchSeconds(order, start, self._stops.get(key, typical_stop))
        return found

    @property
    def typical_order_seconds(self) -> float:
        both = self._since_order.keys() & self._since_launch.keys()
        delays = [max(self._since_order[key] - self._since_launch[key], 0.0) for key in both]
        return float(np.median(delays)) if delays else 0.0

    @property
    def typical_stop_seconds(self) -> float:
        return _mean(self._stops.values())

    def apply(self, event: Event) -> None:
        match event:
            case JobSubmitted():
                self._names.append(event.job.id)
            case JobStarted():
                self._latest[event.job] = event
                self._speechless.add(event.job)
                self._leaving.discard(event.job)  # what it holds from now on is another launch's
            case JobStopped():
                self._speechless.discard(event.job)
                if event.reason.ordered:
                    self._leaving.add(event.job)
            case RegimeChanged():
                self._take_word(event)
            case Progressed():
                self._take_progress(event)
            case JobFinished():
                self._take_end(event)
            case _:
                pass  # nothing in it is an overhead

    def _take_word(self, event: RegimeChanged) -> None:
        if event.job in self._speechless:
            self._speechless.discard(event.job)
            start = self._latest[event.job]
            if start.attempt == 1:
                self._since_order[event.job, 1] = max(event.time - start.time, 0.0)

    def _take_progress(self, event: Progressed) -> None:
        self._progress = event
        starts = np.nan if event.restart_seconds is None else event.restart_seconds
        rows = np.broadcast_arrays(event.handle, event.held_seconds, starts)
        for handle, held, start in zip(*(row.tolist() for row in rows), strict=True):
            job = self._names[handle]
            if job not in self._latest:
                continue
            key = (job, self._latest[job].attempt)
            if job in self._leaving:
                self._leaving.remove(job)
                self._stops[key] = held
            if not math.isnan(start):
                self._since_launch[key] = start

    def _take_end(self, event: JobFinished) -> None:
        """The last progress of a job is told with its end, at the time when that was noticed."""
        told = self._progress
        for row, handle in enumerate(told.handle.tolist()):
            if self._names[handle] == event.job:
                leave = math.nan if told.silent_seconds is None else float(told.silent_seconds[row])
                self.ends[event.job] = EndSeconds(
                    leave=0.0 if math.isnan(leave) else leave,
                    notice=max(told.time - event.time, 0.0),
                    with_round=told.time % self._round_seconds == 0,
                )


def _mean(values: Iterable[float], otherwise: float = 0.0) -> float:
    found = list(values)
    return float(np.mean(found)) if found else otherwise
