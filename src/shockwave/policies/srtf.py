"""Shortest remaining time first."""

from __future__ import annotations

from shockwave.model.view import View
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import fill, largest_first
from shockwave.predict.base import Forecast


class Srtf(Policy):
    """Runs the jobs that are predicted to end soonest if they run.

    The choice is stable: while nothing changes, those that run only get shorter.
    """

    name = "srtf"

    def decide(self, view: View, forecast: Forecast) -> Decision:
        priority = -forecast.remaining_seconds
        order = largest_first(priority)
        return Decision(fill(order, view), stable=True, priority=priority)


class SrtfOracle(Srtf):
    """The same with the true remaining time: a clairvoyant bound, not a scheduler."""

    name = "srtf-oracle"
    predictor = "oracle"
