"""From an order of jobs to the jobs that run: the mechanisms that policies share."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Floats, Ints, View
from shockwave.plan.fitting import first_fit


def fill(order: Ints, gpus: Ints, capacity: int) -> Ints:
    """Take gangs in ``order``, skipping those that no longer fit. Work conserving.

    >>> fill(np.array([2, 0, 1, 3]), gpus=np.array([4, 8, 2, 1]), capacity=7).tolist()
    [2, 0, 3]
    """
    return order[first_fit(gpus[order], capacity)]


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
    return fill(largest_first(priority), view.gpus, view.gpus_total), priority
