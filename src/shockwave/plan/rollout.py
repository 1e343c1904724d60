"""Roll the index forward through sampled futures: what each stance would lead to.

A fluid cluster: in every step the GPUs go to the jobs in the order of the index, the last one
that fits getting what is left. Steps grow with the distance from now, and the order is made
anew in each of them: jobs that decide the common end take turns, and a rollout in which they
cannot ends much later than the cluster does. All stances and samples advance together, as rows
of arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Bools, Floats
from shockwave.plan.futures import Futures
from shockwave.plan.stance import Index, Singles

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
        if not cluster.advance(length):
            break
    return cluster.outcome()


class _Cluster:
    """Rows of jobs (one per stance and sample) that advance together; times in rounds."""

    def __init__(self, futures: Futures, index: Index, work: Singles) -> None:
        shape = (index.stances, *work.shape)
        self._now = 0.0
        self._unit = futures.round_seconds
        self._index = index
        self._work = work
        self._most_executed = np.maximum(work - 0.25, 0.0)
        self._gpus_total = float(futures.gpus_total)
        self._demand = (futures.gpus * futures.copies).astype(np.float32)
        self._release = (futures.release / futures.round_seconds).astype(np.float32)
        self._last_release = float(self._release.max(initial=0.0))
        self._left = np.broadcast_to(work, shape).copy()
        self._running: Bools = np.broadcast_to(futures.running, shape)
        self._start: Singles = np.full(shape, _NEVER)
        self._finish: Singles = np.full(shape, _NEVER)
        rows = shape[0] * shape[1]
        self._first = np.arange(0, rows * shape[2], shape[2]).reshape(*shape[:2], 1)

    def advance(self, length: float) -> bool:
        """Let one step of ``length`` rounds pass. False if nobody is left to run."""
        now, left = self._now, self._left
        if not left.any():
            return False
        run = np.minimum(left, length)
        if now < self._last_release:
            run *= self._release < now + 0.5 * length
        asked = self._demand * run
        before = self._before(asked)
        share = (self._gpus_total * length - before) / np.maximum(asked, 1e-9)
        share = np.minimum(np.maximum(share, 0.0, out=share), 1.0, out=share)
        share *= run > 0.0
        ended = (share >= 1.0) & (left <= length)
        self._running = share > 0.5
        # Whoever is further down the order waits for those before it within the step.
        queued = now + np.minimum(before / self._gpus_total, length) if now else 0.0
        first = self._running & (self._start == _NEVER)
        np.copyto(self._start, queued, where=first)
        behind = np.minimum((before + asked) / self._gpus_total, length)
        np.copyto(self._finish, now + np.maximum(left, behind), where=ended)
        left -= run * share
        left[ended] = 0.0
        self._now += length
        return True

    def _before(self, asked: Singles) -> Singles:
        """[stance, sample, job] what those ahead of each job ask for, by the index as it is now."""
        executed = np.minimum(self._work - self._left, self._most_executed)
        worth = self._index.at(self._now * self._unit, executed, self._running).total
        worth[asked <= 0.0] = -1.0
        order = np.argsort(-worth, axis=2)
        order += self._first
        sorted_asked = asked.ravel()[order]
        before = np.empty_like(asked)
        before.ravel()[order] = np.cumsum(sorted_asked, axis=2) - sorted_asked
        return before

    def outcome(self) -> Outcome:
        """What the steps did not reach ends as if it ran from there on."""
        now = np.float32(self._now)
        return Outcome(
            start=np.where(self._start == _NEVER, now, self._start),
            finish=np.where(self._finish == _NEVER, now + self._left, self._finish),
        )


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
