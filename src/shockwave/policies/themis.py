"""Themis (NSDI '20): minimise the largest finish-time unfairness."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Floats, View
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import run_by_share
from shockwave.predict.base import Forecast


class Themis(Policy):
    """Finds the smallest ``rho`` at which everybody can be served, by bisection.

    Projected unfairness at share ``x`` is ``(elapsed + remaining / x) / fair``, so a job
    needs ``x = remaining / (rho * fair - elapsed)``. ``fair`` is the time its work would
    have taken, and will take, at the fair share ``min(1, M / (active jobs * g))``.
    """

    name = "themis"

    def decide(self, view: View, forecast: Forecast) -> Decision:
        remaining = forecast.remaining_seconds
        fair_share = np.minimum(1.0, view.gpus_total / (len(view) * view.gpus))
        fair = view.fair_seconds + remaining / fair_share
        share = fairest_shares(remaining, fair, view)
        run, priority = run_by_share(view, share)
        return Decision(run, priority=priority)


def fairest_shares(remaining: Floats, fair: Floats, view: View) -> Floats:
    """The shares at the smallest feasible ``rho``; at most 1 each."""

    def shares(rho: float) -> Floats:
        time_left = rho * fair - view.elapsed
        with np.errstate(divide="ignore", invalid="ignore"):
            wanted = np.where(time_left > 0, remaining / time_left, 1.0)
        # A job without work left needs no share; nor could any rho make it fair.
        return np.where(remaining > 0, np.minimum(wanted, 1.0), 0.0)

    low, high = 0.0, 1.0
    while (view.gpus * shares(high)).sum() > view.gpus_total:
        low, high = high, 2.0 * high
    for _ in range(50):
        middle = (low + high) / 2
        if (view.gpus * shares(middle)).sum() > view.gpus_total:
            low = middle
        else:
            high = middle
    return shares(high)
