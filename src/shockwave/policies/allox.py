"""AlloX (EuroSys '20): minimise the mean completion time by matching."""

from __future__ import annotations

import math

import numpy as np

from shockwave.model.view import View
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import fill
from shockwave.predict.base import Forecast


class Allox(Policy):
    """Assigns jobs to (GPU, position from the end) at cost position x remaining time.

    On identical GPUs the cheapest matching has a closed form: the k-th longest job takes
    the k-th position from the end, so the shortest ones start now. As published, a job
    that holds GPUs keeps them until it ends, and only the fraction ``alpha`` of the waiting
    jobs that were served least (none of them was: those that wait longest) takes part in the
    matching, for fairness. The others backfill what is left in order of arrival.
    """

    name = "allox"

    def __init__(self, alpha: float = 0.1) -> None:
        self.alpha = alpha

    def decide(self, view: View, forecast: Forecast) -> Decision:
        remaining = forecast.remaining_seconds
        waiting = np.flatnonzero(~view.running)
        by_arrival = waiting[np.argsort(view.arrival[waiting], kind="stable")]
        matched = by_arrival[: math.ceil(self.alpha * len(waiting))]
        backfill = by_arrival[len(matched) :]
        order = np.concatenate(
            [
                np.flatnonzero(view.running),
                matched[np.argsort(remaining[matched], kind="stable")],
                backfill,
            ]
        )
        priority = np.empty(len(view))
        priority[order] = -np.arange(len(view), dtype=np.float64)
        return Decision(fill(order, view), stable=True, priority=priority)
