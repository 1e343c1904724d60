"""Why each job runs or waits, as columns over the jobs of a view."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Bools, Floats, Ints


@dataclass(frozen=True)
class Explanation:
    """The numbers behind a decision, one element per job of the view.

    ``bid`` is what the job offers for one GPU-round and ``price`` what one costs: a job
    runs when its bid is at least the price (and its gang fits). Times are seconds since
    the run began; start and finish are medians, and the intervals around them are meant to
    hold the truth in 80 % of all cases.
    """

    price: float
    bid: Floats
    expected_start: Floats
    finish_low: Floats
    finish: Floats
    finish_high: Floats
    fair_finish: Floats
    note: tuple[str, ...] | None = None  # what else decided, in a few words; "" for nothing
    start_low: Floats | None = None
    start_high: Floats | None = None
    bid_fairness: Floats | None = None  # what fairness adds to the bid, included in it
    bid_end: Floats | None = None  # what the common end adds to the bid, included in it
    starts: Floats | None = None  # [sample, job] in each sampled future, as it was drawn
    finishes: Floats | None = None  # [sample, job]


def first_bids(values: Floats, gpus: Ints) -> Floats:
    """[job] the most welfare per GPU-round that any number of rounds from now on gives.

    ``max_y (V_j(y) - V_j(0)) / (g_j y)``: at a lower price than this the job buys.
    """
    counts = np.arange(1, values.shape[1])
    gain = (values[:, 1:] - values[:, :1]) / counts
    return np.asarray(gain.max(axis=1, initial=0.0) / gpus)


def expected_starts(schedule: Bools, now: float, round_seconds: float) -> Floats:
    """[job] start of the first round in which it runs, in seconds since the run began.

    A job that the window leaves out gets the window's end: the earliest it can start.
    """
    window = schedule.shape[1]
    first = np.where(schedule.any(axis=1), schedule.argmax(axis=1), window)
    return np.asarray(now + first * round_seconds)
