"""What a cluster added to the work of a live run, from its journal."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from shockwave.executors.replayed import EndSeconds, LaunchSeconds, Overheads
from shockwave.model.events import (
    Event,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    RegimeChanged,
    RoundDecided,
    RunStarted,
)
from shockwave.model.progress import Progressed

_LONGEST_TYPICAL_START = 0.9  # of a round; with more no simulated job would make progress

_Launch = tuple[str, int]  # job and attempt


def measured_overheads(events: Sequence[Event], settings: RunStarted) -> Overheads:
    """How long starts, stops, ends, noticing an end, and looking took.

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
    found = Overheads(
        LaunchSeconds(order, max(start - order, 0.0), *reader.typical_stop_seconds),
        EndSeconds(_mean(end.leave for end in ends.values()),
                   _mean(end.notice for end in ends.values())),
        launches,
        ends,
        reader.typical_look_seconds,
        reader.looks,
        reader.typical_save_seconds,
        tuple(sorted(reader.looked)),
    )  # fmt: skip
    return replace(found, taken_in=reader.taken_in(found.longest_notice))


class _Reader:
    """Follows each job's present launch.

    The first word of a first launch is a :class:`RegimeChanged` at the time when the job said it.
    Later launches report no new regime. What any start took from when it was carried out is in a
    column of :class:`Progressed`. How long a job held its GPUs after it was told to stop is in the
    first progress that tells of it afterwards.

    When a look ended is in no event, but follows from how long jobs held their GPUs by then, and
    from when they were launched, which is their first word less what their start took. And the
    other way round, a look tells when later launches were carried out.
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
        self._stops: dict[_Launch, tuple[float, float]] = {}
        self._progress = Progressed.nothing(0.0)
        self.looks: dict[float, float] = {}  # from the begin of a round to the end of its look
        self.looked: set[float] = set()
        self._late: dict[float, float] = {}  # by how much rounds began too late
        self._ordered: dict[_Launch, float] = {}
        self._first_words: dict[_Launch, float] = {}
        self._launched: dict[_Launch, float] = {}  # when it was carried out, where that is known
        self._presumed: dict[_Launch, float] = {}  # ... if it did not end with the last look
        self._held: dict[_Launch, float] = {}  # that was told of it
        self._arrived: dict[str, float] = {}
        self._worked: dict[_Launch, float] = {}
        self._saves: list[float] = []
        self._unclear: set[_Launch] = set()  # told together with what the launch before it held

    def launches(self) -> dict[_Launch, LaunchSeconds]:
        typical_order, typical_stop = self.typical_order_seconds, self.typical_stop_seconds
        found = {}
        for key in self._since_order.keys() | self._since_launch.keys():
            whole = self._since_order.get(key)
            start = self._since_launch.get(key)
            launched = self._launched.get(key)
            if launched is not None and start is not None:
                order = max(launched - self._ordered[key], 0.0)
            elif whole is None:
                assert start is not None  # it is one of the two
                order = typical_order
            elif start is None or start > whole:
                order, start = 0.0, whole
            else:
                order = whole - start
            found[key] = LaunchSeconds(order, start, *self._stops.get(key, typical_stop))
        return found

    def taken_in(self, longest: float) -> dict[str, float]:
        """[job] the look that took it in: one that started it, or others that had come by then."""
        looks = sorted(set(self._ordered.values()))
        found = {}
        for job, arrived in self._arrived.items():
            index = bisect_left(looks, arrived)
            following = looks[index] if index < len(looks) else math.inf
            look = self._ordered.get((job, 1), math.inf)
            look = look if look <= arrived + longest else following
            if look <= arrived + longest:
                found[job] = look
        return found

    @property
    def typical_order_seconds(self) -> float:
        both = self._since_order.keys() & self._since_launch.keys()
        delays = [max(self._since_order[key] - self._since_launch[key], 0.0) for key in both]
        return float(np.median(delays)) if delays else 0.0

    @property
    def typical_look_seconds(self) -> float:
        """Between rounds; those begin as soon as the last decision has been taken."""
        took = [max(look - self._late.get(time, 0.0), 0.0) for time, look in self.looks.items()]
        return float(np.median(took)) if took else 0.0

    @property
    def typical_save_seconds(self) -> float:
        return float(np.median(self._saves)) if self._saves else 0.0

    @property
    def typical_stop_seconds(self) -> tuple[float, float]:
        """From an order to stop until nothing lived, and how much of that after the last save."""
        stops = self._stops.values()
        return _mean(stop for stop, _ in stops), _mean(leave for _, leave in stops)

    def apply(self, event: Event) -> None:
        match event:
            case JobSubmitted():
                self._names.append(event.job.id)
                self._arrived[event.job.id] = event.job.arrival_seconds
            case JobStarted():
                key = (event.job, event.attempt)
                self._latest[event.job], self._ordered[key] = event, event.time
                self._speechless.add(event.job)
                self.looked.add(event.time)
                if event.job in self._leaving:
                    self._leaving.remove(event.job)
                    self._unclear.add(key)
            case JobStopped():
                self._speechless.discard(event.job)
                self._forget_presumed(event.job)
                if event.reason.ordered:
                    self._leaving.add(event.job)
            case RoundDecided():
                self._late[event.time] = event.overrun_seconds
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
                if event.time not in self.looked:  # else it may have been said during the look
                    self._first_words[event.job, 1] = event.time
                self._since_order[event.job, 1] = max(event.time - start.time, 0.0)

    def _take_progress(self, event: Progressed) -> None:
        self._progress = event
        self.looked.add(event.time)
        self._launched.update(self._presumed)
        self._presumed.clear()
        looked: list[float] = []
        told: list[_Launch] = []
        starts = np.nan if event.restart_seconds is None else event.restart_seconds
        unsaved = np.nan if event.unsaved_seconds is None else event.unsaved_seconds
        worked = event.productive_seconds
        rows = np.broadcast_arrays(event.handle, event.held_seconds, worked, starts, unsaved)
        for handle, held, work, start, left in zip(*(row.tolist() for row in rows), strict=True):
            job = self._names[handle]
            if job not in self._latest:
                continue
            key = (job, self._latest[job].attempt)
            if job in self._leaving:
                self._leaving.remove(job)
                self._stops[key] = (held, 0.0 if math.isnan(left) else min(left, held))
                self._unclear.add(key)
            if not math.isnan(start):
                self._since_launch[key] = start
                if key in self._first_words:
                    self._launched.setdefault(key, self._first_words[key] - start)
            self._held[key] = self._held.get(key, 0.0) + held
            self._worked[key] = self._worked.get(key, 0.0) + work
            save = self._held[key] - start - self._worked[key] - left  # nan if one is not known
            if key[1] == 1 and key not in self._unclear and save >= 0.0:
                self._saves.append(save)  # a later launch goes on within an epoch
            if key not in self._unclear:
                told.append(key)
                if key in self._launched:
                    looked.append(self._launched[key] + self._held[key])
        if looked and self._begins_round(event.time):
            end = min(max(*looked, event.time), event.time + self._round_seconds)
            self.looks[event.time] = end - event.time
            self._presumed = {
                key: end - self._held[key] for key in told if key not in self._launched
            }

    def _take_end(self, event: JobFinished) -> None:
        """The last progress of a job is told with its end, at the time when that was noticed."""
        self._forget_presumed(event.job)
        told = self._progress
        for row, handle in enumerate(told.handle.tolist()):
            if self._names[handle] == event.job:
                leave = math.nan if told.silent_seconds is None else float(told.silent_seconds[row])
                self.ends[event.job] = EndSeconds(
                    leave=0.0 if math.isnan(leave) else leave,
                    notice=told.time - self._end_of(event, told.time),
                    with_round=self._begins_round(told.time),
                )

    def _end_of(self, event: JobFinished, look: float) -> float:
        """An end that is seen by a look that had begun is told as if it had been just then."""
        start = self._latest.get(event.job)
        key = None if start is None else (event.job, start.attempt)
        if key is None or event.time < look or key in self._unclear or key not in self._launched:
            return min(event.time, look)
        return max(self._launched[key] + self._held[key], look)

    def _begins_round(self, time: float) -> bool:
        return time % self._round_seconds == 0

    def _forget_presumed(self, job: str) -> None:
        """It ended before the look did, and held its GPUs for less long."""
        if job in self._latest:
            self._presumed.pop((job, self._latest[job].attempt), None)


def _mean(values: Iterable[float], otherwise: float = 0.0) -> float:
    found = list(values)
    return float(np.mean(found)) if found else otherwise
