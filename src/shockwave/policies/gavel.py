"""Gavel (OSDI '20), max-min fairness: of GPU time, or of throughput where GPUs have types."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import View
from shockwave.plan.sharing import water_level
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import run_by_share
from shockwave.policies.typed_shares import TypedRounds, max_min_shares
from shockwave.predict.base import Forecast


class Gavel(Policy):
    """Maximises the smallest ``g x / weight``: an equal amount of GPU time, water-filled.

    Where there are options, a job takes its request, and a linear program says what part of its
    time it spends on which type, from offline profiles as published. Gavel's other objective, the
    largest sum of throughputs, is the policy ``mst``.
    """

    name = "gavel"
    wants_profiles = True
    needs_solver = "with options"

    def __init__(self) -> None:
        self._typed = TypedRounds(max_min_shares)

    def decide(self, view: View, forecast: Forecast) -> Decision:
        if view.options is not None:
            return self._typed.decide(view, view.options)
        level = water_level(view.gpus.astype(np.float64), view.weight, view.gpus_total)
        share = np.minimum(1.0, view.weight * level / view.gpus)
        run, priority = run_by_share(view, share)
        return Decision(run, priority=priority)
