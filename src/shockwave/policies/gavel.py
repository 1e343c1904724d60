"""Gavel (OSDI '20), max-min fairness of GPU time."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import View
from shockwave.plan.sharing import water_level
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import run_by_share
from shockwave.predict.base import Forecast


class Gavel(Policy):
    """Maximises the smallest ``g x / weight``: an equal amount of GPU time, water-filled."""

    name = "gavel"

    def decide(self, view: View, forecast: Forecast) -> Decision:
        level = water_level(view.gpus.astype(np.float64), view.weight, view.gpus_total)
        share = np.minimum(1.0, view.weight * level / view.gpus)
        run, priority = run_by_share(view, share)
        return Decision(run, priority=priority)
