"""Bids for one round: how welfare and deadlines become one number per GPU-round.

Four classes of need, each worth ten times the next; within a class the bid grows with what
the GPU-round is worth there. A round is sold to the highest bids, and its price is the
highest bid that got nothing.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from shockwave.model.view import Bools, Floats, Ints


class Need(IntEnum):
    """Why a job needs the coming round, weakest first."""

    PROGRESS = 0  # nothing presses: the sooner it ends, the better
    BOOKED = 1  # its deadline collides with others', it has to start early
    URGENT = 2  # it can still be on time, but not if it waits much longer
    MUST_RUN = 3  # it is about to delay the end of all, or to miss its fair finish


WORDS = {
    Need.PROGRESS: "",
    Need.BOOKED: "its deadline collides with others'",
    Need.URGENT: "can be on time only if it runs soon",
    Need.MUST_RUN: "about to miss its deadline",
}


def bids(need: Ints, worth: Floats) -> Floats:
    """[job] ``10^need * (1 + 9 w / (1 + w))`` for the worth ``w >= 0`` within the class.

    The first class bids between 1 and 10, the next between 10 and 100, and so on.

    >>> bids(np.array([0, 0, 3]), np.array([1.0, 3.0, 1.0])).tolist()
    [5.5, 7.75, 5500.0]
    """
    return np.asarray(10.0**need * (1.0 + 9.0 * worth / (1.0 + worth)))


def price_of_round(bid: Floats, sold: Bools) -> float:
    """The highest bid that got nothing; 0 where GPUs are left for everybody."""
    return float(bid[~sold].max(initial=0.0))


def auction_gap(bid: Floats, gpus: Ints, sold: Bools, gpus_total: int) -> float:
    """How much the sale can fall short of the best one, relative to its upper bound.

    The bound sells GPUs one by one to the highest bids, as if gangs could be split.
    """
    order = np.argsort(-bid, kind="stable")
    before = np.cumsum(gpus[order]) - gpus[order]
    taken = np.clip(gpus_total - before, 0, gpus[order])
    best = float((bid[order] * taken).sum())
    got = float((bid * gpus)[sold].sum())
    return max(best - got, 0.0) / best if best > 0 else 0.0
