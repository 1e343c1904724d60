"""Equal shares: the water level, and a fair cluster that runs alongside the real one."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Floats, Ints, View
from shockwave.plan.fluid import fluid_finish_seconds


def water_level(caps: Floats, weights: Floats, capacity: float) -> float:
    """Water-filling: the level ``L`` with ``sum(min(cap, weight * L)) = capacity``.

    Exact, by sorting the levels at which jobs reach their cap. Infinite where all caps
    together stay within the capacity.

    >>> water_level(np.array([1.0, 4.0, 4.0]), np.ones(3), capacity=6.0)
    2.5
    """
    if caps.sum() <= capacity:
        return float("inf")
    full_at = caps / weights
    order = np.argsort(full_at)
    filled = np.concatenate([[0.0], np.cumsum(caps[order])])[:-1]
    open_weight = np.cumsum(weights[order][::-1])[::-1]  # summed from the end: never zero
    level = (capacity - filled) / open_weight
    reached = np.flatnonzero(level <= full_at[order])
    return float(level[reached[0] if len(reached) else -1])


_REMEMBERED_SECONDS = 86_400.0  # after its fair finish a job that is away, backing off, is kept


class FairCluster:
    """Fluid processor sharing of all jobs seen so far, run alongside the real cluster.

    Answers when each job would finish if every active job held an equal share of the GPUs
    (by weight, capped at its gang) at all times: what sharing incentive promises. Jobs that
    have really finished go on here until they finish here too. Runtimes are predictions
    and are corrected at every step; whoever finished here stays finished.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._handle: Ints = np.empty(0, dtype=np.int64)  # ascending
        self._gpus: Floats = np.empty(0)
        self._weight: Floats = np.empty(0)
        self._work: Floats = np.empty(0)  # predicted exclusive seconds
        self._served: Floats = np.empty(0)
        self._finish: dict[int, float] = {}  # of jobs that finished here

    def finish_times(self, view: View, total_seconds: Floats) -> Floats:
        """[job] the fair finish, seconds since the run began; ``total_seconds`` is ``X``."""
        capacity = view.gpus_total
        self._admit(view, total_seconds)
        self._correct(view.handle, total_seconds)
        self._advance(view.now, capacity)
        left = np.maximum(self._work - self._served, 1e-6)
        ahead = fluid_finish_seconds(
            np.zeros(len(left)), left, self._gpus.astype(np.int64), capacity, self._weight
        )
        finish = np.empty(len(view))
        here = np.isin(view.handle, self._handle, assume_unique=True)
        finish[here] = view.now + ahead[np.searchsorted(self._handle, view.handle[here])]
        finish[~here] = [self._finish[handle] for handle in view.handle[~here].tolist()]
        self._forget(view)
        return finish

    def _admit(self, view: View, total_seconds: Floats) -> None:
        """Let in whoever is not known yet, each at its arrival."""
        absent = np.flatnonzero(~np.isin(view.handle, self._handle, assume_unique=True))
        handles = view.handle[absent].tolist()
        known = np.array([handle in self._finish for handle in handles], dtype=np.bool_)
        new = absent[~known]
        enters = np.maximum(view.arrival[new], self._now)
        for time in np.unique(enters).tolist():
            self._advance(time, view.gpus_total)
            rows = new[enters == time]
            at = np.searchsorted(self._handle, view.handle[rows])
            self._handle = np.insert(self._handle, at, view.handle[rows])
            self._gpus = np.insert(self._gpus, at, view.gpus[rows])
            self._weight = np.insert(self._weight, at, view.weight[rows])
            self._work = np.insert(self._work, at, total_seconds[rows])
            self._served = np.insert(self._served, at, 0.0)

    def _correct(self, handles: Ints, work: Floats) -> None:
        here = np.isin(self._handle, handles, assume_unique=True)
        self._work[here] = work[np.searchsorted(handles, self._handle[here])]

    def _forget(self, view: View) -> None:
        """Drop finishes nobody will ask for. Jobs that back off are not in the view."""
        present = set(view.handle.tolist())
        since = view.now - _REMEMBERED_SECONDS
        self._finish = {
            handle: time
            for handle, time in self._finish.items()
            if handle in present or time > since
        }

    def _advance(self, until: float, capacity: int) -> None:
        while self._now < until and len(self._handle):
            level = water_level(self._gpus, self._weight, capacity)
            rate = np.minimum(1.0, self._weight * level / self._gpus)
            wait = np.maximum(self._work - self._served, 0.0) / rate
            step = min(float(wait.min()), until - self._now)
            self._served += rate * step
            self._now += step
            done = wait <= step
            if done.any():
                self._finish.update(dict.fromkeys(self._handle[done].tolist(), self._now))
                for name in ("_handle", "_gpus", "_weight", "_work", "_served"):
                    setattr(self, name, getattr(self, name)[~done])
        self._now = max(self._now, until)
