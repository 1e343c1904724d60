"""Equal shares: the water level, and a fair cluster that runs alongside the real one."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Floats, Ints, View
from shockwave.plan.fluid import fluid_finish_seconds, fluid_progress


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
        self._gpus: Ints = np.empty(0, dtype=np.int64)
        self._weight: Floats = np.empty(0)
        self._work: Floats = np.empty(0)  # predicted exclusive seconds
        self._served: Floats = np.empty(0)
        self._finish: dict[int, float] = {}  # of jobs that finished here

    def finish_times(self, view: View, total_seconds: Floats) -> Floats:
        """[job] the fair finish, seconds since the run began; ``total_seconds`` is ``X``."""
        enters = self._admit(view, total_seconds)
        self._correct(view.handle, total_seconds)
        finish, left = fluid_progress(
            enters - self._now,
            np.maximum(self._work - self._served, 1e-6),
            self._gpus,
            view.gpus_total,
            self._weight,
            at=view.now - self._now,
        )
        finish += self._now
        answer = np.empty(len(view))
        here = np.isin(view.handle, self._handle, assume_unique=True)
        answer[here] = finish[np.searchsorted(self._handle, view.handle[here])]
        answer[~here] = [self._finish[handle] for handle in view.handle[~here].tolist()]
        self._now = view.now
        self._served = self._work - left
        self._retire(finish)
        self._forget(view)
        return answer

    def delays(self, view: View, after: Floats, work: Floats, gpus: Floats, jobs: Floats) -> Floats:
        """[sample, job] how much later each fair finish is if others come, ``[sample, place]``.

        In a place come so many ``jobs`` alike, infinitely late where nobody does.
        """
        left = np.maximum(self._work - self._served, 1e-6)
        here = np.isin(view.handle, self._handle, assume_unique=True)
        which = np.searchsorted(self._handle, view.handle[here])

        def finishes(after: Floats, work: Floats, gpus: Floats, jobs: Floats) -> Floats:
            return fluid_finish_seconds(
                np.concatenate([np.zeros(len(left)), after]),
                np.concatenate([left, work]),
                np.concatenate([self._gpus, (gpus * jobs).astype(np.int64)]),
                view.gpus_total,
                np.concatenate([self._weight, jobs * view.weight.mean()]),
                first=len(left),
            )[which]

        nobody = np.empty(0)
        alone = finishes(nobody, nobody, nobody, nobody)
        delays = np.zeros((len(after), len(view)))
        for row, come in enumerate(np.isfinite(after)):
            beside = finishes(after[row, come], work[row, come], gpus[row, come], jobs[row, come])
            delays[row, here] = np.maximum(beside - alone, 0.0)
        return delays

    def _admit(self, view: View, total_seconds: Floats) -> Floats:
        """Let in whoever is not known yet. Returns when each job enters, at the earliest now."""
        absent = np.flatnonzero(~np.isin(view.handle, self._handle, assume_unique=True))
        handles = view.handle[absent].tolist()
        known = np.array([handle in self._finish for handle in handles], dtype=np.bool_)
        new = absent[~known]
        at = np.searchsorted(self._handle, view.handle[new])
        enters = np.full(len(self._handle), self._now)
        self._handle = np.insert(self._handle, at, view.handle[new])
        self._gpus = np.insert(self._gpus, at, view.gpus[new])
        self._weight = np.insert(self._weight, at, view.weight[new])
        self._work = np.insert(self._work, at, total_seconds[new])
        self._served = np.insert(self._served, at, 0.0)
        return np.insert(enters, at, np.maximum(view.arrival[new], self._now))

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

    def _retire(self, finish: Floats) -> None:
        """Take out whoever has finished here by now."""
        done = finish <= self._now
        ended = zip(self._handle[done].tolist(), finish[done].tolist(), strict=True)
        self._finish.update(ended)
        for name in ("_handle", "_gpus", "_weight", "_work", "_served"):
            setattr(self, name, getattr(self, name)[~done])
