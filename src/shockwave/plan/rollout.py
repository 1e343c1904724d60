"""Roll the index forward through sampled futures: what each stance would lead to.

A fluid cluster: in every step the GPUs go to the jobs in the order of the index, the last one
that fits getting what is left. Steps grow with the distance from now, and the order is made
anew every few of them. All stances and samples advance together, as rows of arrays, and jobs
that have ended in every row are dropped on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.futures import Futures
from shockwave.plan.stance import Index, Singles

_REORDER = 1.5  # the order is made anew when the time from now has grown by this factor
OVERHEAD_ROUNDS = 0.5  # what a job takes on top of its work, its last round half used
_NEVER = np.float32(np.inf)


@dataclass(frozen=True)
class Outcome:
    """What happens under each stance in each sample: rounds from now, ``[stance, sample, job]``."""

    start: Singles
    finish: Singles

    def beside(self, other: Outcome) -> Outcome:
        """Both outcomes, as if they were of different stances."""
        return Outcome(
            np.concatenate([self.start, other.start]), np.concatenate([self.finish, other.finish])
        )


def roll(futures: Futures, index: Index, steps: int) -> Outcome:
    """Advance every stance of ``index`` through every sample until all jobs have ended."""
    unit = futures.round_seconds
    starting = np.where(futures.running, 0.0, futures.restart / unit)
    work = (futures.remaining / unit + starting + OVERHEAD_ROUNDS).astype(np.float32)
    cluster = _Cluster(futures, index, work)
    for length in _steps(futures, work, steps).tolist():
        if cluster.now >= cluster.reorder_at and not cluster.reorder():
            break
        cluster.advance(length)
    return cluster.outcome()


class _Cluster:
    """Rows of jobs (one per stance and sample) that advance together; times in rounds."""

    def __init__(self, futures: Futures, index: Index, work: Singles) -> None:
        shape = (index.stances, *work.shape)
        self.now = 0.0
        self.reorder_at = 0.0
        self._futures = futures
        self._index = index
        self._work = work
        self._gpus_total = np.float32(futures.gpus_total)
        self._demand = (futures.gpus * futures.copies).astype(np.float32)
        self._release = (futures.release / futures.round_seconds).astype(np.float32)
        self._last_release = float(self._release.max(initial=0.0))
        self._left = np.broadcast_to(work, shape).copy()
        self._running: Bools = np.broadcast_to(futures.running, shape)
        self._start: Singles = np.full(shape, _NEVER)
        self._finish: Singles = np.full(shape, _NEVER)
        self._order: Ints | None = None

    def reorder(self) -> bool:
        """Sort the jobs that are left by the index as it is now. False if none is left."""
        if self._order is not None:
            self._put_back()
        left = self._left
        executed = np.minimum(self._work - left, np.maximum(self._work - 0.25, 0.0))
        seconds = self.now * self._futures.round_seconds
        worth = self._index.at(seconds, executed, self._running).total
        worth *= self._release <= self.now
        ended = left <= 0.0
        worth[ended] = -1.0
        active = left.shape[2] - int(ended.sum(axis=2).min(initial=left.shape[2]))
        if not active:
            return False
        self._order = order = np.argsort(-worth, axis=2)[:, :, :active]
        self._own_left = np.take_along_axis(left, order, 2)
        self._own_start = np.take_along_axis(self._start, order, 2)
        self._own_finish = np.take_along_axis(self._finish, order, 2)
        self._own_demand = self._demand[order]
        self._own_release = self._release[order] if self.now < self._last_release else None
        self.reorder_at = _REORDER * self.now + 1.0
        return True

    def advance(self, length: float) -> None:
        """Let one step of ``length`` rounds pass."""
        now, most = np.float32(self.now), np.float32(length)
        left = self._own_left
        run = np.minimum(left, most)
        if self._own_release is not None:
            run *= self._own_release < now + 0.5 * most
        asked = self._own_demand * run
        upto = np.cumsum(asked, axis=2)
        before = upto - asked
        share = np.clip((self._gpus_total * most - before) / np.maximum(asked, 1e-9), 0.0, 1.0)
        share *= run > 0.0
        ended = (share >= 1.0) & (left <= most)
        # Whoever is further down the order waits for those before it within the step.
        queued = now + np.minimum(before / self._gpus_total, most) if self.now else now
        first = (share > 0.5) & (self._own_start == _NEVER)
        self._own_start = np.where(first, queued, self._own_start)
        behind = np.minimum(upto / self._gpus_total, most)
        self._own_finish = np.where(ended, now + np.maximum(left, behind), self._own_finish)
        self._own_left = np.where(ended, np.float32(0.0), left - run * share)
        self._share = share
        self.now += length

    def outcome(self) -> Outcome:
        """What the steps did not reach ends as if it ran from there on."""
        self._put_back()
        now = np.float32(self.now)
        return Outcome(
            start=np.where(self._start == _NEVER, now, self._start),
            finish=np.where(self._finish == _NEVER, now + self._left, self._finish),
        )

    def _put_back(self) -> None:
        assert self._order is not None
        np.put_along_axis(self._left, self._order, self._own_left, 2)
        np.put_along_axis(self._start, self._order, self._own_start, 2)
        np.put_along_axis(self._finish, self._order, self._own_finish, 2)
        self._running = np.zeros(self._left.shape, dtype=np.bool_)
        np.put_along_axis(self._running, self._order, self._share > 0.5, 2)


def _steps(futures: Futures, work: Singles, count: int) -> Floats:
    """Lengths of the steps in rounds, growing by a factor, from one to the end of everything."""
    together = float((futures.gpus * futures.copies * work).sum(axis=1).max())
    alone = float((futures.release / futures.round_seconds + work.max(axis=0)).max(initial=0.0))
    horizon = futures.horizon / futures.round_seconds
    end = max(1.2 * together / futures.gpus_total, 1.1 * alone, 1.1 * horizon)
    if count >= end:
        return np.ones(count)
    low, high = 1.0, 2.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        short = (middle**count - 1.0) / (middle - 1.0) < end
        low, high = (middle, high) if short else (low, middle)
    return np.asarray(high ** np.arange(count))
