"""When will jobs be done that share the cluster, and grow as the others leave?

What an option promises now is no guide to a finish that is hours away: a long job that waits or
holds one GPU today will have many once the crowd is gone. So the jobs that are there are run down
together, each with an equal share of the GPUs at every moment, as fast as that share lets it be.
"""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Floats
from shockwave.plan.elastic.worth import Shares

_SHORTEST_STEP_SECONDS = 60.0
_LONGER = 0.1  # of the time from now: as long is a step at least


def shared_finishes(rest: Floats, shares: Shares) -> Floats:
    """[job] seconds until each is done; ``rest[job, option]`` are seconds with that option.

    Infinite for a job that can use nothing of what is there.
    """
    total = float(shares.capacity.sum())
    finish, left, now = np.full(len(rest), np.inf), np.ones(len(rest)), 0.0
    there = shares.capacity[shares.type] > 0
    active = np.flatnonzero((np.isfinite(rest) & there).any(axis=1))
    while len(active):
        share = np.full(len(active), total / len(active))
        takes = np.maximum(shares.seconds(rest[active], share), 1.0)
        to_end = left[active] * takes
        step = max(float(to_end.min()), _SHORTEST_STEP_SECONDS, _LONGER * now)
        ends = to_end <= step
        finish[active[ends]] = now + to_end[ends]
        left[active] -= step / takes
        active = active[~ends]
        now += step
    return finish
