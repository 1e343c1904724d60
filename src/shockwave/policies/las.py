"""Least attained service first."""

from __future__ import annotations

from shockwave.model.view import View
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import fill, largest_first
from shockwave.predict.base import Forecast


class Las(Policy):
    """Runs the jobs that have held the fewest GPU-seconds so far."""

    name = "las"

    def decide(self, view: View, forecast: Forecast) -> Decision:
        priority = -view.received_seconds * view.gpus
        return Decision(fill(largest_first(priority), view), priority=priority)
