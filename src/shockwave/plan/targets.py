"""What a plan must not miss: the end of the whole workload."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Bools, Floats, Ints, View
from shockwave.traces.bounds import makespan_lower_bound

_REMEMBERED = 20_000  # jobs that have left; older ones no longer move the bound much


class Workload:
    """All jobs of the present busy period: who came when, with the latest prediction of X.

    A cluster that ran empty has nothing left to be judged by, so the period starts anew. One
    that never does forgets its oldest jobs, except for their number.
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self.handle: Ints = np.empty(0, dtype=np.int64)
        self.arrival: Floats = np.empty(0)
        self.gpus: Ints = np.empty(0, dtype=np.int64)
        self.total_seconds: Floats = np.empty(0)
        self._forgotten = 0

    @property
    def jobs(self) -> int:
        """How many jobs the period has seen."""
        return len(self.handle) + self._forgotten

    def update(self, view: View, total_seconds: Floats) -> None:
        """Take in who arrived, and what is now predicted of those who are there."""
        self.admit(view, total_seconds)
        self.total_seconds[np.searchsorted(self.handle, view.handle)] = total_seconds

    def admit(self, view: View, total_seconds: Floats) -> None:
        """Take in who arrived."""
        # Not only later handles: a job that backed off while its period began is new to it.
        new = ~self._knows(view.handle)
        if new.all():
            self._forget()
        if not new.any():
            return
        at = np.searchsorted(self.handle, view.handle[new])
        self.handle = np.insert(self.handle, at, view.handle[new])
        self.arrival = np.insert(self.arrival, at, view.arrival[new])
        self.gpus = np.insert(self.gpus, at, view.gpus[new])
        self.total_seconds = np.insert(self.total_seconds, at, total_seconds[new])
        self._forget_the_oldest(view)

    def _knows(self, handles: Ints) -> Bools:
        if not len(self.handle):
            return np.zeros(len(handles), dtype=np.bool_)
        at = np.searchsorted(self.handle, handles)
        return np.asarray(self.handle[np.minimum(at, len(self.handle) - 1)] == handles)

    def _forget_the_oldest(self, view: View) -> None:
        excess = len(self.handle) - len(view) - _REMEMBERED
        if excess <= _REMEMBERED // 10:  # not a few at a time: copying costs
            return
        left = np.flatnonzero(~np.isin(self.handle, view.handle, assume_unique=True))
        for name in ("handle", "arrival", "gpus", "total_seconds"):
            setattr(self, name, np.delete(getattr(self, name), left[:excess]))
        self._forgotten += excess

    def makespan_bound(self, gpus_total: int) -> float:
        """No schedule of the jobs seen so far can end earlier, if the predictions hold."""
        return makespan_lower_bound(self.arrival, self.total_seconds, self.gpus, gpus_total)
