"""Maximum sum of throughputs."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import View
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import largest_first, run_by_share
from shockwave.predict.base import Forecast


class Mst(Policy):
    """A fractional knapsack: GPUs go to the jobs with the most epochs a second per GPU."""

    name = "mst"

    def decide(self, view: View, forecast: Forecast) -> Decision:
        remaining = np.maximum(forecast.remaining_seconds, 1e-9)
        throughput = np.maximum(view.epochs_left, 1e-9) / remaining
        order = largest_first(throughput / view.gpus)
        before = np.cumsum(view.gpus[order]) - view.gpus[order]
        share = np.empty(len(view))
        share[order] = np.clip((view.gpus_total - before) / view.gpus[order], 0.0, 1.0)
        run, priority = run_by_share(view, share)
        return Decision(run, priority=priority)
