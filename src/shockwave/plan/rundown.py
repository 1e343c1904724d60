"""When waiting jobs can expect to start: the queue run down in its present order."""

from __future__ import annotations

import heapq

import numpy as np

from shockwave.model.view import Floats, Ints


def expected_waits(order: Ints, gpus: Ints, remaining: Floats, gpus_total: int) -> Floats:
    """[job] seconds from now until it starts, if each in ``order`` runs to its end.

    An estimate: nobody overtakes, nobody is preempted, nobody else arrives.

    >>> expected_waits(np.array([0, 1, 2]), np.array([2, 1, 1]), np.array([60.0, 30, 10]), 2)
    array([ 0., 60., 60.])
    """
    waits = np.zeros(len(order))
    running: list[tuple[float, int]] = []
    now, free = 0.0, gpus_total
    for job in order.tolist():
        wanted = int(gpus[job])
        while free < wanted and running:
            now, given_back = heapq.heappop(running)
            free += given_back
        waits[job] = now
        heapq.heappush(running, (now + float(remaining[job]), wanted))
        free -= wanted
    return waits
