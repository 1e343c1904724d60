"""What an outcome is worth: one number per stance, the smaller the better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Floats
from shockwave.plan.futures import Futures
from shockwave.plan.rollout import Outcome


@dataclass(frozen=True)
class Prices:
    """What one unit of each ill costs, in units of the mean completion time."""

    makespan: float = 4.0  # the end beyond the horizon, relative to the whole crowded time
    crowded: float = 0.5  # share of jobs later than prompt by Themis' measure
    late: float = 10.0  # mean lateness beyond the fair finish, relative to it
    unfair: float = 2.0  # share of jobs that are late
    tolerance: float = 0.03  # of the fair completion time: less is not late


def costs(futures: Futures, outcome: Outcome, prices: Prices, crowd_limit: float) -> Floats:
    """[stance] mean cost over the samples."""
    f, here, unit = futures, futures.present, futures.round_seconds
    jct = outcome.finish + (f.elapsed / unit).astype(np.float32)
    spent = jct @ (f.weight * f.copies).astype(np.float32)
    relative = (spent / spent.min(axis=0)).mean(axis=1)
    # As completion times count from the arrival, the end does from when jobs began to wait.
    whole = (f.since + unit * outcome.finish.max(axis=2)) / (f.since + f.horizon)
    end = np.maximum(whole, 1.0).mean(axis=1)
    total = ((f.worked + f.remaining)[:, :here] / unit).astype(np.float32)
    mine = jct[:, :, :here]
    late = np.maximum(mine / (f.fair_stretch[:here].astype(np.float32) * total) - 1.0, 0.0)
    crowd = np.maximum(_mean_active(f, outcome) / f.gpus_total, 1.0)
    crowded = mine > crowd_limit * total * crowd
    return np.asarray(
        relative
        + prices.makespan * end
        + prices.crowded * crowded.mean(axis=(1, 2))
        + prices.late * late.mean(axis=(1, 2))
        + prices.unfair * (late > prices.tolerance).mean(axis=(1, 2)),
        dtype=np.float64,
    )


_CELLS = 64


def _mean_active(futures: Futures, outcome: Outcome) -> Floats:
    """[stance, sample, job] mean number of active jobs over the life of each present job."""
    f, here = futures, futures.present
    stances, samples, jobs = outcome.finish.shape
    rows = stances * samples
    finish = outcome.finish.reshape(rows, jobs)
    last = float(finish.max()) * (1.0 + 1e-6)
    # A square-root clock: its cells are finest where most jobs end.
    cell = np.minimum(np.sqrt(finish * np.float32(1.0 / last)) * _CELLS, _CELLS - 1)
    cell = cell.astype(np.int64)
    flat = (cell + _CELLS * np.arange(rows)[:, None]).ravel()
    copies = np.broadcast_to(f.copies, finish.shape).ravel()
    ends = np.bincount(flat, weights=copies, minlength=rows * _CELLS).reshape(rows, _CELLS)
    edges = last * (np.arange(_CELLS + 1) / _CELLS) ** 2
    order = np.argsort(f.release)
    arrived = np.searchsorted(f.release[order] / f.round_seconds, edges[1:], side="right")
    came = np.concatenate([[0.0], np.cumsum(f.copies[order])])[arrived]
    active = np.maximum(came - np.cumsum(ends, axis=1) + 0.5 * ends, 0.0)
    integral = np.concatenate(
        [np.zeros((rows, 1)), np.cumsum(active * np.diff(edges), axis=1)], axis=1
    )
    mine, at = finish[:, :here], cell[:, :here]
    low = np.take_along_axis(integral, at, 1)
    rate = np.take_along_axis(active, at, 1)
    seen = low + (mine - edges[at]) * rate
    mean = (f.active_integral[:here] + seen) / np.maximum(f.rounds_active[:here] + mine, 1.0)
    return np.asarray(mean.reshape(stances, samples, here))
