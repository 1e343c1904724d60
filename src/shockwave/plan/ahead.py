"""Round by round ahead: when each job starts and ends, for the stances of each sample.

What people are told has to be closer than what stances are compared by. In the fluid cluster of
:mod:`shockwave.plan.rollout` a gang waits until all before it in the order have what they ask
for; in rounds whole gangs are chosen, and a small one goes into the gap that a large one leaves.
So the next rounds are gone through one by one here, gangs chosen as the policy chooses them;
what is further away than those is left to the fluid.
"""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.futures import Futures
from shockwave.plan.rollout import Outcome
from shockwave.plan.stance import Index, Singles

_LONGER = 1.06  # each step after the exact ones is so much longer than the one before
_REORDER = 1.05  # the order is made anew when the time from now has grown by this factor
_PASSES = 4  # over the order: so often what is left is offered to those behind
_NEVER = np.float32(np.inf)


def roll_rounds(
    futures: Futures, index: Index, exact: int, steps: int, stances: Ints | None = None
) -> Outcome:
    """The first ``exact`` rounds one by one, then longer steps, ``steps`` in all.

    ``stances[sample, round]`` says by which stance of the index each sample goes, again from the
    first one after the last; always by the first of the index if not given. Where jobs are left
    after the last step, they end as if they ran from there on.
    """
    always = np.zeros((futures.samples, 1), dtype=np.int64)
    queue = _Queue(futures, index, always if stances is None else stances)
    length = 1.0
    for step in range(steps):
        if queue.now >= queue.reorder_at and not queue.reorder():
            break
        queue.advance(length)
        if step >= exact:
            length *= _LONGER
    return queue.outcome()


class _Queue:
    """One row per sample; times in rounds. ``own`` columns stand in the order of the index."""

    def __init__(self, futures: Futures, index: Index, stances: Ints) -> None:
        unit, shape = futures.round_seconds, futures.remaining.shape
        self.now = 0.0
        self.reorder_at = 0.0
        self._unit = unit
        self._index = index
        self._stances = stances
        self._gpus_total = np.float32(futures.gpus_total)
        self._work = (futures.remaining / unit).astype(np.float32)
        # Who stands for several that are expected asks for all, as far as there are GPUs.
        asked = np.minimum(futures.gpus * futures.copies, futures.gpus_total)
        self._demand = _for_each_sample(asked, shape)
        self._release = _for_each_sample(futures.release / unit, shape)
        self._restart = _for_each_sample(futures.restart / unit, shape)
        self._left = self._work.copy()
        self._running: Bools = np.broadcast_to(futures.running, shape)
        self._start: Singles = np.full(shape, _NEVER)
        self._finish: Singles = np.full(shape, _NEVER)
        self._first = shape[1] * np.arange(shape[0])[:, None]
        self._order = np.empty((shape[0], 0), dtype=np.int64)  # flat: place of ``own`` columns

    def reorder(self) -> bool:
        """Sort the jobs that are left by the index as it is now. False if none is left."""
        self._put_back()
        executed = (self._work - self._left)[None]
        index = self._index.by_sample(self._stances[:, int(self.now) % self._stances.shape[1]])
        worth = index.at(self.now * self._unit, executed, self._running[None]).total[0]
        ended = self._left <= 0.0
        worth[ended] = -1.0
        active = ended.shape[1] - int(ended.sum(axis=1).min())
        if not active:
            return False
        order = np.argsort(-worth, axis=1, kind="stable")[:, :active]
        self._order = order = order + self._first
        self._own_left = self._left.ravel()[order]
        self._own_running = self._running.ravel()[order]
        self._own_start = self._start.ravel()[order]
        self._own_finish = self._finish.ravel()[order]
        self._own_demand = self._demand.ravel()[order]
        self._own_restart = self._restart.ravel()[order]
        self._own_release = self._release.ravel()[order]
        self.reorder_at = _REORDER * self.now + 0.5
        return True

    def advance(self, length: float) -> None:
        """Let one step of ``length`` rounds pass."""
        now, most = np.float32(self.now), np.float32(length)
        left = self._own_left
        chosen = _fitting(
            self._own_demand, (left > 0.0) & (self._own_release <= now), self._gpus_total
        )
        left = left + self._own_restart * (chosen & ~self._own_running)
        self._own_start = np.where(chosen & (self._own_start == _NEVER), now, self._own_start)
        ended = chosen & (left <= most)
        self._own_finish = np.where(ended, now + left, self._own_finish)
        self._own_left = np.where(ended, np.float32(0.0), left - most * chosen)
        self._own_running = chosen & ~ended
        self.now += length

    def outcome(self) -> Outcome:
        """``[1, sample, job]``."""
        self._put_back()
        now = np.float32(self.now)
        start = np.where(self._start == _NEVER, now, self._start)
        finish = np.where(self._finish == _NEVER, now + self._left, self._finish)
        return Outcome(start[None], finish[None])

    def _put_back(self) -> None:
        if not self._order.shape[1]:
            return
        self._left.ravel()[self._order] = self._own_left
        self._start.ravel()[self._order] = self._own_start
        self._finish.ravel()[self._order] = self._own_finish
        self._running = np.zeros(self._left.shape, dtype=np.bool_)
        self._running.ravel()[self._order] = self._own_running


def _for_each_sample(values: Floats, shape: tuple[int, ...]) -> Singles:
    """[sample, job] the same in every sample where nothing else is given."""
    return np.ascontiguousarray(np.broadcast_to(values.astype(np.float32), shape))


def _fitting(demand: Singles, can: Bools, gpus_total: np.float32) -> Bools:
    """[row, place] the gangs that get GPUs: each in its turn, if what is left holds it."""
    free = np.full((len(demand), 1), gpus_total + np.float32(1e-3))
    chosen = np.zeros(demand.shape, dtype=np.bool_)
    for _ in range(_PASSES):
        asked = np.where(can & (demand <= free), demand, np.float32(0.0))
        taken = (asked > 0.0) & (np.cumsum(asked, axis=1) <= free)
        if not taken.any():
            break
        chosen |= taken
        can = can & ~taken
        free = free - (asked * taken).sum(axis=1, keepdims=True)
    return chosen
