"""How early the last job can possibly finish."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shockwave.model.errors import InputError


def makespan_lower_bound(
    arrival: ArrayLike, exclusive: ArrayLike, gpus: ArrayLike, total_gpus: int
) -> float:
    """Seconds before which no schedule on ``total_gpus`` GPUs ends; 0 without jobs.

    The larger of ``max_j (a_j + X_j)`` and ``max_t t + (W - D(t)) / M`` with
    ``D(t) = sum_j g_j * clip(t - a_j, 0, X_j)``, the GPU-seconds that can be done by ``t`` if
    every job starts when it arrives, and ``W = sum_j g_j X_j``: what is left at ``t`` needs
    all ``M`` GPUs for that long. The second term is piecewise linear in ``t``, so its maximum
    is at a breakpoint, an ``a_j`` or an ``a_j + X_j``; one sort visits them all.

    ``arrival`` and ``exclusive`` are seconds, ``gpus`` the gang size, one element per job.
    Raises :class:`InputError` if ``total_gpus`` is not positive.

    >>> makespan_lower_bound([0, 0, 0], [10, 10, 10], [1, 1, 1], total_gpus=2)
    15.0
    """
    if total_gpus < 1:
        raise InputError("must be at least 1", place="--gpus", value=total_gpus)
    starts = np.asarray(arrival, dtype=np.float64)
    runtimes = np.asarray(exclusive, dtype=np.float64)
    gangs = np.asarray(gpus, dtype=np.int64)
    if not len(starts):
        return 0.0
    ends = starts + runtimes

    times = np.concatenate([starts, ends])
    order = np.argsort(times, kind="stable")
    times = times[order]
    # GPUs in use right after each breakpoint; whole numbers, hence free of rounding.
    busy = np.cumsum(np.concatenate([gangs, -gangs])[order])
    done = np.concatenate([[0.0], np.cumsum(busy[:-1] * np.diff(times))])
    left = np.maximum(float(gangs @ runtimes) - done, 0.0)
    return float(max(ends.max(), (times + left / total_gpus).max()))
