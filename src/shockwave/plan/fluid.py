"""Fluid processor sharing: what an ideal fair cluster would have given every job.

At every instant each active job ``j`` holds ``min(g_j, w_j * level)`` GPUs, with the level
chosen so that all GPUs are used (or every job holds its whole gang), and progresses at the
rate held / ``g_j``. With equal weights that is an equal share of the GPUs, capped at ``g``,
what a job cannot use going to the others.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from shockwave.model.view import Floats, Ints


def fluid_finish_seconds(
    arrival: Floats,
    work_seconds: Floats,
    gpus: Ints,
    total_gpus: int,
    weight: Floats | None = None,
    *,
    first: int | None = None,
) -> Floats:
    """[job] when each job finishes under fluid processor sharing, exactly.

    ``work_seconds`` is the exclusive runtime ``X`` on the job's own gang. Only of the ``first``
    jobs if that is given: what comes after these have finished is not looked at.
    """
    found = fluid_progress(arrival, work_seconds, gpus, total_gpus, weight, at=np.inf, first=first)
    return found[0][:first]


def fluid_progress(
    arrival: Floats,
    work_seconds: Floats,
    gpus: Ints,
    total_gpus: int,
    weight: Floats | None = None,
    *,
    at: float,
    first: int | None = None,
) -> tuple[Floats, Floats]:
    """[job] when each job finishes, and the exclusive seconds that it still needs ``at`` a time.

    Ends when the ``first`` jobs have finished, if that is given.
    Jobs with the same gang and weight always hold the same share, so each such class has one
    virtual clock of progress and one heap of the clock readings at which its jobs finish:
    O(n (log n + classes)).
    """
    count = len(arrival)
    left = np.where(arrival > at, work_seconds, 0.0)
    looked = False
    weights = np.ones(count) if weight is None else weight
    keys, class_of = np.unique(
        np.stack([gpus.astype(np.float64), weights], axis=1), axis=0, return_inverse=True
    )
    class_of = class_of.reshape(-1)
    caps: list[float] = keys[:, 0].tolist()
    shares: list[float] = keys[:, 1].tolist()
    # Classes in the order in which they reach their caps as the level rises.
    by_cap = sorted(range(len(caps)), key=lambda c: caps[c] / shares[c])

    heaps: list[list[tuple[float, int]]] = [[] for _ in caps]
    clock = [0.0] * len(caps)
    rate = [0.0] * len(caps)
    finish = np.full(count, np.nan)
    order = np.argsort(arrival, kind="stable").tolist()
    arrivals: list[float] = arrival.tolist()
    work: list[float] = work_seconds.tolist()
    classes: list[int] = class_of.tolist()

    now, upcoming = 0.0, 0
    watched = count if first is None else first
    unfinished = watched
    while unfinished:
        soonest, soonest_class = np.inf, -1
        for c, heap in enumerate(heaps):
            if heap:
                wait = max((heap[0][0] - clock[c]) / rate[c], 0.0)
                if wait < soonest:
                    soonest, soonest_class = wait, c
        arrives = arrivals[order[upcoming]] if upcoming < count else np.inf
        if not looked and min(arrives, now + soonest) > at:
            looked = True
            for c, heap in enumerate(heaps):
                reading = clock[c] + rate[c] * (at - now)
                for end, job in heap:
                    left[job] = max(end - reading, 0.0)
        if upcoming < count and arrives <= now + soonest:
            elapsed = max(arrives - now, 0.0)
            now = arrives
            _advance(clock, rate, heaps, elapsed)
            while upcoming < count and arrivals[order[upcoming]] == now:
                job = order[upcoming]
                c = classes[job]
                if not heaps[c]:
                    clock[c] = 0.0  # keeps the clock's rounding error from growing
                heapq.heappush(heaps[c], (clock[c] + work[job], job))
                upcoming += 1
        elif soonest_class >= 0:
            now += soonest
            _advance(clock, rate, heaps, soonest)
            heap = heaps[soonest_class]
            clock[soonest_class] = heap[0][0]
            while heap and heap[0][0] <= clock[soonest_class]:
                job = heapq.heappop(heap)[1]
                finish[job] = now
                unfinished -= job < watched
        else:
            break
        _share(rate, heaps, caps, shares, by_cap, float(total_gpus))
    return finish, left


def _advance(
    clock: list[float],
    rate: list[float],
    heaps: Sequence[Sequence[tuple[float, int]]],
    seconds: float,
) -> None:
    for c, heap in enumerate(heaps):
        if heap:
            clock[c] += rate[c] * seconds


def _share(
    rate: list[float],
    heaps: Sequence[Sequence[tuple[float, int]]],
    caps: Sequence[float],
    shares: Sequence[float],
    by_cap: Sequence[int],
    total_gpus: float,
) -> None:
    """Water-fill: classes below the level hold their caps, the others share what is left."""
    left = total_gpus
    claims = sum(len(heaps[c]) * shares[c] for c in by_cap)
    for position, c in enumerate(by_cap):
        jobs = len(heaps[c])
        if jobs and caps[c] * claims > left * shares[c]:
            level = left / claims
            for below in by_cap[position:]:
                rate[below] = shares[below] * level / caps[below]
            return
        rate[c] = 1.0
        left -= jobs * caps[c]
        claims -= jobs * shares[c]
