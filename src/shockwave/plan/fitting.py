"""Which gangs fit when each, in order, takes what it needs."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Bools, Ints


def first_fit(gpus: Ints, free: int) -> Bools:
    """Which gangs run when each, in order, takes GPUs if enough are still free.

    >>> first_fit(np.array([2, 8, 1, 1, 1]), 4).tolist()
    [True, False, True, True, False]
    """
    chosen = np.zeros(len(gpus), dtype=np.bool_)
    waiting = np.flatnonzero(gpus <= free)
    while len(waiting):
        total = np.cumsum(gpus[waiting])
        fits = int(np.searchsorted(total, free, side="right"))
        chosen[waiting[:fits]] = True
        if fits:
            free -= int(total[fits - 1])
        waiting = waiting[fits + 1 :]  # the first that did not fit waits
        waiting = waiting[gpus[waiting] <= free]
    return chosen
