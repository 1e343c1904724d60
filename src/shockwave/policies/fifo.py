"""First in, first out, with backfilling of gangs that fit the gaps."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import View
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import fill
from shockwave.predict.base import Forecast


class Fifo(Policy):
    """Runs jobs in order of arrival."""

    name = "fifo"

    def decide(self, view: View, forecast: Forecast) -> Decision:
        order = np.argsort(view.arrival, kind="stable")
        return Decision(fill(order, view), stable=True, priority=-view.arrival)
