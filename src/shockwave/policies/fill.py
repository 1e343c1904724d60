"""From an order of jobs to the jobs that run: the mechanisms that policies share."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Floats, Ints, View
from shockwave.plan.fitting import first_fit


def fill(order: Ints, view: View) -> Ints:
    """Take gangs in ``order``, skipping those that no longer fit. Work conserving.

    Gangs that stay whatever is decided come first: the others share what these leave.
    """
    if view.must_stay.any():
        stays = view.must_stay[order]
        order = np.concatenate([order[stays], order[~stays]])
    return order[first_fit(view.gpus[order], view.gpus_total)]


def largest_first(priority: Floats) -> Ints:
    """Positions by falling priority; ties go to the job that was submitted first."""
    return np.argsort(-priority, kind="stable")


def run_by_share(view: View, share: Floats) -> tuple[Ints, Floats]:
    """Rounds from shares: whoever is furthest behind its share of time comes first.

    ``priority = x / ((received + round/2) / (elapsed + round))``. Returns the jobs that
    run and the priorities.
    """
    received = view.received_seconds + view.round_seconds / 2
    priority = share * (view.elapsed + view.round_seconds) / received
    return fill(largest_first(priority), view), priority
