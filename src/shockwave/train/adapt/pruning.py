"""Lottery ticket: train, remove the smallest neurons, rewind or go on, repeat.

Whole neurons (or channels) go, so that the model is really smaller and faster, not just sparse.
A job's configurations are its model sizes: the percentage of neurons that is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shockwave.model.errors import InputError

Floats = NDArray[np.floating]
Indices = NDArray[np.intp]


def strongest(scores: Floats, keep: int) -> Indices:
    """The indices of the ``keep`` largest scores in ascending order; ties keep the first.

    >>> strongest(np.array([0.3, 2.0, 0.1, 1.0]), 2).tolist()
    [1, 3]
    """
    if not 1 <= keep <= len(scores):
        raise InputError(f"must be from 1 to {len(scores)}", place="keep", value=keep)
    return np.sort(np.argsort(-scores, kind="stable")[:keep])


def neuron_scores(incoming: Floats, outgoing: Floats) -> Floats:
    """How much each neuron matters: the norm of what enters it times the norm of what leaves.

    ``incoming`` has a row a neuron, ``outgoing`` a column a neuron. The product does not change
    when a ReLU neuron's inputs are scaled up and its outputs down, which changes nothing in
    what the network computes.
    """
    scores: Floats = np.linalg.norm(incoming, axis=1) * np.linalg.norm(outgoing, axis=0)
    return scores


def prune_dense(
    incoming: Floats, bias: Floats, outgoing: Floats, keep: Indices
) -> tuple[Floats, Floats, Floats]:
    """A hidden layer with only the neurons ``keep``; they compute exactly what they did."""
    return incoming[keep].copy(), bias[keep].copy(), outgoing[:, keep].copy()


class LotteryTicket:
    """Says when to prune, and to which percentage of the original neurons.

    >>> ticket = LotteryTicket((100, 50, 25), every_epochs=2)
    >>> [ticket.at_epoch_end() for _ in range(6)]
    [None, 50, None, 25, None, None]
    """

    def __init__(self, percents: Sequence[int], *, every_epochs: int) -> None:
        shrinking = all(a > b for a, b in pairwise(percents))
        if not percents or percents[0] != 100 or percents[-1] < 1 or not shrinking:
            raise InputError(
                "must begin with 100 and shrink", place="percents", value=tuple(percents)
            )
        if every_epochs < 1:
            raise InputError("must be 1 or more", place="every_epochs", value=every_epochs)
        self.percents = tuple(percents)
        self.every_epochs = every_epochs
        self._epochs = 0
        self._round = 0

    @property
    def percent(self) -> int:
        """The size in use, in percent of the original: the job's configuration."""
        return self.percents[self._round]

    def at_epoch_end(self) -> int | None:
        """The percentage to prune to now, or None when the model stays as it is."""
        self._epochs += 1
        last = self._round == len(self.percents) - 1
        if last or self._epochs < (self._round + 1) * self.every_epochs:
            return None
        self._round += 1
        return self.percent

    def width(self, original: int) -> int:
        """How many of ``original`` neurons are left at the size in use; at least one."""
        return max(1, round(original * self.percent / 100))

    def state_dict(self) -> dict[str, int]:
        return {"epochs": self._epochs, "round": self._round}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        if not 0 <= state["round"] < len(self.percents):
            raise InputError(
                f"there are {len(self.percents)} sizes", place="round", value=state["round"]
            )
        self._epochs = state["epochs"]
        self._round = state["round"]
