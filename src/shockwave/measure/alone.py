"""What a job would have taken by itself, with its share of every type of GPU.

``w_t`` is a type's part of the GPUs that the job can use. With a share of every type it advances
at the mean of its speeds there, so that it takes

    X = 1 / sum_t ( w_t / X_t )

where ``X_t`` is what all of its epochs take on type ``t``. Where there is one type, that is what
they take. The times are those that its :class:`~shockwave.model.events.JobFinished` tells.

The authors of Sia compute theirs in another way, and so does :func:`isolated_seconds`: the job runs
alone on ``M / n`` GPUs of one type after the other, and its times there are averaged by the GPUs of
the types. It holds whole GPUs, and its start takes what starts take.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from shockwave.measure.history import RunHistory
from shockwave.model.view import Floats


@dataclass(frozen=True)
class Alone:
    """What all epochs of a job take: by type, ascending numbers of GPUs and their seconds.

    ``choices`` are the numbers that the job can run on; the request need not be one of them.
    """

    by_type: Mapping[str, tuple[tuple[int, ...], tuple[float, ...]]]
    choices: frozenset[int] = frozenset()

    @staticmethod
    def of(times: tuple[tuple[str, int, float], ...], choices: Collection[int] = ()) -> Alone:
        found: dict[str, list[tuple[int, float]]] = {}
        for gpu_type, gpus, seconds in times:
            found.setdefault(gpu_type, []).append((gpus, seconds))
        return Alone(
            {
                gpu_type: (tuple(g for g, _ in pairs), tuple(s for _, s in pairs))
                for gpu_type, pairs in ((name, sorted(entries)) for name, entries in found.items())
            },
            frozenset(choices),
        )

    def seconds(self, gpu_type: str, gpus: float) -> float:
        """With a share of ``gpus`` GPUs of a type, which need not be a whole number.

        Between two numbers the logarithm is interpolated in that of the number. A job need not
        use all of its share if it is faster with fewer. With less than the fewest that it can use
        it has these for a part of the time.
        """
        counts, seconds = self.by_type[gpu_type]
        if gpus <= counts[0]:
            return seconds[0] * counts[0] / gpus
        above = bisect.bisect_right(counts, gpus)
        best = min(seconds[:above])
        if above == len(counts):
            return best
        low, high = counts[above - 1], counts[above]
        part = math.log(gpus / low) / math.log(high / low)
        between: float = seconds[above - 1] ** (1 - part) * seconds[above] ** part
        return min(best, between)

    def isolated_seconds(self, gpu_type: str, most: int, share: float, start: float) -> float:
        """With ``share`` GPUs of a type that has ``most``, from the start on; ``inf`` if it cannot.

        The job takes the fastest number of GPUs within its share. Between two whole GPUs the time
        is interpolated; less than it can use it has for a part of the time.
        """
        counts, seconds = self.by_type[gpu_type]
        usable = {
            count: time + start
            for count, time in zip(counts, seconds, strict=True)
            if count <= most and (not self.choices or count in self.choices)
        }
        if not usable:
            return math.inf
        least = min(usable)

        def within(gpus: int) -> float:
            return min(time for count, time in usable.items() if count <= gpus)

        if share <= least:
            return usable[least] * least / share
        whole = math.floor(share)
        low, high = within(whole), within(math.ceil(share))
        return low + (high - low) * (share - whole)


def request_seconds(history: RunHistory) -> Floats:
    """[job] exclusive runtime with its request, on a share of every type; ``nan`` if unfinished.

    What was measured, for a job whose speeds nobody knows.
    """
    jobs = history.jobs
    if not jobs.alone:
        return jobs.exclusive_seconds
    seconds = jobs.exclusive_seconds.copy()
    for job, alone in jobs.alone.items():
        gpus = float(jobs.gpus[job])
        seconds[job] = _on_every_type(history, alone, dict.fromkeys(alone.by_type, gpus))
    return seconds


def isolated_seconds(history: RunHistory) -> Floats:
    """[job] what it takes alone on ``M / n`` GPUs of one type, averaged over the types by their
    GPUs, n the mean number of jobs while it was there; ``nan`` where its speeds are not known."""
    jobs = history.jobs
    seconds = np.full(len(jobs), np.nan)
    if not jobs.alone:
        return seconds
    crowd = mean_active(history)
    lost = np.maximum(jobs.held_seconds - jobs.productive_seconds, 0.0)
    start = lost / np.maximum(jobs.starts, 1)
    for job, alone in jobs.alone.items():
        share, total, usable = history.gpus / float(crowd[job]), 0.0, 0
        for gpu_type, gpus in history.type_gpus.items():
            if gpu_type in alone.by_type:
                time = alone.isolated_seconds(gpu_type, gpus, share, float(start[job]))
                if math.isfinite(time):
                    total, usable = total + gpus * time, usable + gpus
        if usable:
            seconds[job] = total / usable
    return seconds


def _on_every_type(history: RunHistory, alone: Alone, share: Mapping[str, float]) -> float:
    usable = {t: gpus for t, gpus in history.type_gpus.items() if t in alone.by_type}
    total = sum(usable.values())
    if total == 0:
        return math.nan
    rate = math.fsum(gpus / total / alone.seconds(t, share[t]) for t, gpus in usable.items())
    return 1.0 / rate


def mean_active(history: RunHistory) -> Floats:
    """[job] how many jobs were in the system while it was, on average over the time; at least 1."""
    jobs = history.jobs
    times = np.concatenate([jobs.arrival, jobs.end])
    steps = np.concatenate([np.ones(len(jobs)), -np.ones(len(jobs))])
    order = np.argsort(times, kind="stable")
    times, active = times[order], np.cumsum(steps[order])
    integral = np.concatenate([[0.0], np.cumsum(active[:-1] * np.diff(times))])
    there = np.maximum(jobs.end - jobs.arrival, 1e-9)
    together = np.interp(jobs.end, times, integral) - np.interp(jobs.arrival, times, integral)
    return np.asarray(np.maximum(together / there, 1.0))
