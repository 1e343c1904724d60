"""Counts to rounds: which job runs in which round of the window.

Round by round, highest class first, skipping gangs that no longer fit:

1. jobs whose count needs every round that is left,
2. jobs that run already (a restart costs time), so that blocks stay together,
3. jobs with rounds to come, by weight,
4. jobs beyond their count, running ones first: no GPU idles while a waiting job fits.

For jobs of one GPU this realises all counts whenever they can be realised at all: every
round is full or nobody waits. Gangs may not fit; what is missing is reported, not hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.fitting import first_fit


@dataclass(frozen=True)
class Packing:
    """A schedule of the window."""

    schedule: Bools  # [job, round]
    missing: Ints  # [job] rounds of the count that found no place

    @property
    def rounds(self) -> Ints:
        """[job] rounds realised, those beyond the count included."""
        return np.asarray(self.schedule.sum(axis=1, dtype=np.int64))

    def starts(self, running: Bools) -> Ints:
        """[job] how often it starts or restarts, given which jobs run before the window."""
        before = np.concatenate([running[:, None], self.schedule[:, :-1]], axis=1)
        return np.asarray((self.schedule & ~before).sum(axis=1, dtype=np.int64))


def pack(
    counts: Ints,
    gpus: Ints,
    gpus_total: int,
    window: int,
    *,
    running: Bools | None = None,
    weight: Floats | None = None,
    limit: Ints | None = None,
    large_gangs_first: bool = False,
) -> Packing:
    """Realises ``counts`` rounds of ``gpus`` GPUs for every job within ``window`` rounds.

    Args:
        counts: [job] rounds wanted, at most ``window``.
        running: [job] runs in the round before the window.
        weight: [job] larger goes first; equal weights keep the order of the jobs.
        limit: [job] never more rounds than this, also where GPUs idle; default ``window``.
        large_gangs_first: within class 3 large gangs go before heavy ones. Small jobs then
            fill the gaps, and fewer rounds go missing.
    """
    jobs = len(counts)
    schedule = np.zeros((jobs, window), dtype=np.bool_)
    remaining = counts.astype(np.int64)
    extra = np.maximum((np.full(jobs, window) if limit is None else limit) - remaining, 0)
    before = np.zeros(jobs, dtype=np.bool_) if running is None else running
    light = np.zeros(jobs) if weight is None else -weight
    rank_large = _ranks(np.lexsort((light, -gpus)))
    rank = rank_large if large_gangs_first else _ranks(np.argsort(light, kind="stable"))
    for now in range(window):
        due = remaining > 0
        must = due & (remaining >= window - now)
        waiting = np.flatnonzero(due | (extra > 0))
        tier = np.where(must, 0, np.where(due, 2, 4) - before.astype(np.int64))
        key = tier * jobs + np.where(must, rank_large, rank)
        order = waiting[np.argsort(key[waiting])]
        chosen = order[first_fit(gpus[order], gpus_total)]
        schedule[chosen, now] = True
        wanted = remaining[chosen] > 0
        remaining[chosen[wanted]] -= 1
        extra[chosen[~wanted]] -= 1
        before = schedule[:, now]
    return Packing(schedule, remaining)


def _ranks(order: Ints) -> Ints:
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank
