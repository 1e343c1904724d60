"""The best allocation of a small market, exactly: a knapsack over what the prices leave open.

With a bound ``D`` at some prices and an allocation worth ``V``, no allocation that is better than
``V`` gives a job an option that falls behind the job's best one by more than ``D - V`` after
paying. Most options are ruled out so; the rest is a multiple-choice knapsack with one capacity per
type, filled by dynamic programming over the GPUs of every type that may be used.
"""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.elastic.market import Market

_MOST_CELLS = 40_000_000  # open options times states: some tens of milliseconds


def better(market: Market, prices: Floats, choice: Ints) -> Ints | None:
    """[job] the best allocation, at least as good as ``choice``; ``None`` if that is too large."""
    left = market.reduced(prices)
    best = left.max(axis=1, initial=0.0)
    excess = float(best.sum() + prices @ market.capacity) - market.worth(choice)
    tolerance = 1e-9 * max(1.0, float(best.sum()))
    open_options = left >= (best - excess)[:, None] - tolerance
    may_wait = best <= excess + tolerance
    states = int(np.prod(market.capacity + 1))
    if int(open_options.sum() + may_wait.sum()) * states > _MOST_CELLS:
        return None
    undecided = np.flatnonzero(open_options.sum(axis=1) + may_wait > 1)
    found = choice.copy()
    fixed = np.ones(len(market), dtype=np.bool_)
    fixed[undecided] = False
    sole = open_options.argmax(axis=1)
    found[fixed] = np.where(may_wait[fixed], -1, sole[fixed])
    room = market.capacity - market.used(np.where(fixed, found, -1))
    if (room < 0).any():  # then no allocation is better
        return choice
    solved = _fill(market, room, undecided, open_options, may_wait)
    if solved is None:
        return choice
    found[undecided] = solved
    return found if market.worth(found) >= market.worth(choice) else choice


def _fill(
    market: Market, room: Ints, jobs: Ints, open_options: Bools, may_wait: Bools
) -> Ints | None:
    """[job of ``jobs``] its option in the best way to use ``room``."""
    best = np.zeros(tuple((room + 1).tolist()))
    chosen = np.empty((len(jobs), *best.shape), dtype=np.int16)
    for position, job in enumerate(jobs.tolist()):
        gained = best.copy() if may_wait[job] else np.full_like(best, -np.inf)
        taken = chosen[position]
        taken[...] = -1
        for option in np.flatnonzero(open_options[job]).tolist():
            axis, gpus = int(market.type[option]), int(market.gpus[option])
            if gpus > room[axis]:
                continue
            after: list[slice] = [slice(None)] * best.ndim
            before = after.copy()
            after[axis], before[axis] = slice(gpus, None), slice(None, int(room[axis]) + 1 - gpus)
            with_it = best[tuple(before)] + market.values[job, option]
            more = with_it > gained[tuple(after)]
            gained[tuple(after)][more] = with_it[more]
            taken[tuple(after)][more] = option
        best = gained
    state = room.copy()
    if not np.isfinite(best[tuple(state)]):
        return None
    solved = np.empty(len(jobs), dtype=np.int64)
    for position in range(len(jobs) - 1, -1, -1):
        option = int(chosen[position][tuple(state)])
        solved[position] = option
        if option >= 0:
            state[market.type[option]] -= market.gpus[option]
    return solved
