"""What a job would have taken by itself, with its share of every type of GPU.

``w_t`` is a type's part of the GPUs that the job can use. With a share of every type it advances
at the mean of its speeds there, so that it takes

    X = 1 / sum_t ( w_t / X_t )

where ``X_t`` is what all of its epochs take on type ``t``. Where there is one type, that is what
they take. The times are those that its :class:`~shockwave.model.events.JobFinished` tells.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shockwave.measure.history import RunHistory
from shockwave.model.view import Floats


@dataclass(frozen=True)
class Alone:
    """What all epochs of a job take: by type, ascending numbers of GPUs and their seconds."""

    by_type: Mapping[str, tuple[tuple[int, ...], tuple[float, ...]]]

    @staticmethod
    def of(times: tuple[tuple[str, int, float], ...]) -> Alone:
        found: dict[str, list[tuple[int, float]]] = {}
        for gpu_type, gpus, seconds in times:
            found.setdefault(gpu_type, []).append((gpus, seconds))
        return Alone(
            {
                gpu_type: (tuple(g for g, _ in pairs), tuple(s for _, s in pairs))
                for gpu_type, pairs in ((name, sorted(entries)) for name, entries in found.items())
            }
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
    """[job] what it takes alone on ``1 / n`` of every type, n the mean number of jobs while it
    was there; ``nan`` where its speeds are not known."""
    jobs = history.jobs
    seconds = np.full(len(jobs), np.nan)
    if not jobs.alone:
        return seconds
    crowd = mean_active(history)
    for job, alone in jobs.alone.items():
        share = {t: gpus / crowd[job] for t, gpus in history.type_gpus.items()}
        seconds[job] = _on_every_type(history, alone, share)
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
