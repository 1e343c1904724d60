"""Minimum makespan with divisible time (open shop with preemption)."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import View
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import run_by_share
from shockwave.predict.base import Forecast


class Ossp(Policy):
    """All jobs end together at ``H = max(longest remaining, all GPU-seconds / M)``."""

    name = "ossp"

    def decide(self, view: View, forecast: Forecast) -> Decision:
        remaining = forecast.remaining_seconds
        work = (view.gpus * remaining).sum() / view.gpus_total
        horizon = max(float(remaining.max()), float(work), 1e-9)
        run, priority = run_by_share(view, np.minimum(1.0, remaining / horizon))
        return Decision(run, priority=priority)
