"""How many epochs a job will really take: what it says, and what jobs of its model took.

A job declares its epochs. Jobs of its model that have ended show two things: how far off such
claims are, and how much the models' jobs differ from each other anyhow. The logarithm of the
epochs is taken to be normal around both, so that the estimate is a mean of the claim and of what
was usual, each counting by how well it did. While nothing has ended, the claim is all there is.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from shockwave.model.view import Floats, Ints

_KEPT = 32  # jobs that are remembered of each model
_HONEST = 0.1  # deviation of a claim (of the logarithm) before any was checked
_DIFFERENT = 1.0  # ... and of the jobs of one model from each other
_PRIOR_COUNT = 2.0  # jobs that these count for
_OVERRUN = 0.1  # who is beyond what is believed needs so much more


class LengthLearner:
    """Takes in who is there every round; who is gone has ended."""

    def __init__(self) -> None:
        self._handle: Ints = np.empty(0, dtype=np.int64)
        self._kind: Ints = self._handle
        self._claimed: Floats = np.empty(0)
        self._reached: Floats = np.empty(0)  # epochs that it may have done by the next round
        self._ended: dict[int, deque[tuple[float, float]]] = {}  # by kind: logs of claim and truth

    def learn(
        self, handle: Ints, kind: Ints, claimed: Floats, done: Floats, per_round: Floats
    ) -> None:
        """``per_round`` are the epochs that each job does in a round at its present speed."""
        gone = np.flatnonzero(~np.isin(self._handle, handle))
        for row in gone.tolist():
            logs = float(np.log(self._claimed[row])), float(np.log(self._reached[row]))
            self._ended.setdefault(int(self._kind[row]), deque(maxlen=_KEPT)).append(logs)
        self._handle, self._kind, self._claimed = handle, kind, np.maximum(claimed, 1e-9)
        # On average it ends in the middle of a round; a claim that this may meet was kept.
        reached = done + 0.5 * per_round
        kept = (claimed > done) & (claimed <= done + per_round)
        self._reached = np.maximum(np.where(kept, claimed, reached), 1e-9)

    def epochs(self, kind: Ints, claimed: Floats, done: Floats) -> Floats:
        """[job] in all, and more than it has done."""
        believed = claimed.astype(np.float64)
        for number in np.unique(kind).tolist():
            logs = self._ended.get(number)
            if logs:
                own = np.flatnonzero(kind == number)
                believed[own] = _believed(np.array(logs), claimed[own])
        return np.where(done < believed, believed, (1.0 + _OVERRUN) * done)


def _believed(logs: Floats, claimed: Floats) -> Floats:
    claim, truth = logs[:, 0], logs[:, 1]
    count = len(logs) + _PRIOR_COUNT
    off = (_PRIOR_COUNT * _HONEST**2 + ((truth - claim) ** 2).sum()) / count
    usual = float(truth.mean())
    apart = (_PRIOR_COUNT * _DIFFERENT**2 + ((truth - usual) ** 2).sum()) / count
    weight = apart / (apart + off)
    return np.asarray(np.exp(weight * np.log(np.maximum(claimed, 1e-9)) + (1.0 - weight) * usual))
