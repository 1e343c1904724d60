"""Maximum sum of throughputs: an objective of Gavel (OSDI '20), and Sia's choice of it."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import View
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import largest_first, run_by_share
from shockwave.policies.typed_shares import TypedRounds, max_sum_shares
from shockwave.predict.base import Forecast


class Mst(Policy):
    """A fractional knapsack: GPUs go to the jobs with the most epochs a second per GPU.

    Where there are options, a job takes its request, and a linear program over jobs and types
    says where it spends its time. The simulator of Sia (SOSP '23) calls this Gavel.
    """

    name = "mst"
    wants_profiles = True
    needs_solver = "with options"

    def __init__(self) -> None:
        self._typed = TypedRounds(max_sum_shares)

    def decide(self, view: View, forecast: Forecast) -> Decision:
        if view.options is not None:
            return self._typed.decide(view, view.options)
        remaining = np.maximum(forecast.remaining_seconds, 1e-9)
        throughput = np.maximum(view.epochs_left, 1e-9) / remaining
        order = largest_first(throughput / view.gpus)
        before = np.cumsum(view.gpus[order]) - view.gpus[order]
        share = np.empty(len(view))
        share[order] = np.clip((view.gpus_total - before) / view.gpus[order], 0.0, 1.0)
        run, priority = run_by_share(view, share)
        return Decision(run, priority=priority)
