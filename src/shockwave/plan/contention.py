"""How crowded the cluster will be, and until when a job may finish to be treated fairly.

By the definition of Themis a job is on time if it finishes within
``slack * X * max(1, mean active jobs over its life / M)``. The mean depends on the future:
the active jobs are run down as a fluid, smallest GPU-work first, with expected arrivals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Floats
from shockwave.plan.arrivals import ExpectedArrivals

_STEPS = 80


@dataclass(frozen=True)
class Crowd:
    """Jobs that compete, those that are expected included. Times are seconds from now."""

    release: Floats  # 0 for those that are there
    since_arrival: Floats  # seconds in the system so far; negative for those to come
    gpus: Floats
    remaining: Floats
    total: Floats
    active_integral: Floats  # sum over its rounds so far of the active jobs
    rounds_active: Floats

    @staticmethod
    def of(
        since_arrival: Floats,
        gpus: Floats,
        remaining: Floats,
        total: Floats,
        active_integral: Floats,
        rounds_active: Floats,
        coming: ExpectedArrivals,
    ) -> Crowd:
        none = np.zeros(len(coming))
        return Crowd(
            release=np.concatenate([np.zeros(len(gpus)), coming.after_seconds]),
            since_arrival=np.concatenate([since_arrival, -coming.after_seconds]),
            gpus=np.concatenate([gpus, coming.gpus]),
            remaining=np.concatenate([remaining, coming.total_seconds]),
            total=np.concatenate([total, coming.total_seconds]),
            active_integral=np.concatenate([active_integral, none]),
            rounds_active=np.concatenate([rounds_active, none]),
        )


def fluid_finishes(crowd: Crowd, overhead_seconds: float, gpus_total: int) -> Floats:
    """[job] rough finish when GPUs go to the smallest GPU-work first."""
    work = crowd.gpus * (crowd.remaining + overhead_seconds)
    order = np.argsort(crowd.gpus * crowd.remaining, kind="stable")
    finish = np.empty(len(work))
    finish[order] = np.cumsum(work[order]) / gpus_total
    return np.maximum(finish, crowd.release + crowd.remaining)


def fair_by_crowd(
    crowd: Crowd,
    finish: Floats,
    *,
    slack: float,
    gpus_total: int,
    round_seconds: float,
    horizon_seconds: float,
) -> Floats:
    """[job] latest finish, in seconds from now, at which the job is still on time.

    Infinite for jobs that are on time whenever they finish within the horizon; never less
    than what a job needs that has the cluster for itself.
    """
    step = max(horizon_seconds, round_seconds) / _STEPS
    grid = step * np.arange(1.0, _STEPS + 1.0)
    middle = grid - step / 2
    active = np.searchsorted(np.sort(crowd.release), middle, side="right") - np.searchsorted(
        np.sort(finish), middle, side="right"
    )
    integral = np.concatenate([[0.0], np.cumsum(active) * step / round_seconds])
    at_release = np.interp(crowd.release, np.concatenate([[0.0], grid]), integral)
    seen = crowd.active_integral[:, None] + np.maximum(integral[1:] - at_release[:, None], 0.0)
    rounds = crowd.rounds_active[:, None] + (
        np.maximum(grid - crowd.release[:, None], 1.0) / round_seconds
    )
    allowed = slack * crowd.total[:, None] * np.maximum(1.0, seen / rounds / gpus_total)
    spare = allowed - (grid + crowd.since_arrival[:, None])  # >= 0: on time if done by then
    return _last_crossing(spare, grid, step, alone=slack * crowd.total - crowd.since_arrival)


def _last_crossing(spare: Floats, grid: Floats, step: float, alone: Floats) -> Floats:
    """Where each row of ``spare`` is positive for the last time, by linear interpolation."""
    on_time = spare >= 0
    last = np.where(on_time.any(axis=1), _STEPS - np.argmax(on_time[:, ::-1], axis=1), 0)
    rows = np.arange(len(spare))
    inside = (last > 0) & (last < _STEPS)
    before = spare[rows, np.maximum(last - 1, 0)]
    after = spare[rows, np.minimum(last, _STEPS - 1)]
    part = np.where(inside, before / np.maximum(before - after, 1e-9), 0.0)
    crossing = np.where(last > 0, grid[np.maximum(last - 1, 0)] + step * part, 0.0)
    return np.where(last == _STEPS, np.inf, np.maximum(crossing, alone))
