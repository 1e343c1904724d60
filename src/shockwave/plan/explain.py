"""Why each job runs or waits, as columns over the jobs of a view."""

from __future__ import annotations

from dataclasses import dataclass

from shockwave.model.view import Floats


@dataclass(frozen=True)
class Explanation:
    """The numbers behind a decision, one element per job of the view.

    ``bid`` is what the job offers for one GPU-round and ``price`` what one costs: a job
    runs when its bid is at least the price (and its gang fits). Times are seconds since
    the run began; the interval of the predicted finish covers 80 %.
    """

    price: float
    bid: Floats
    expected_start: Floats
    finish_low: Floats
    finish: Floats
    finish_high: Floats
    fair_finish: Floats
