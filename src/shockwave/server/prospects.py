"""What the decision in force expects: sampled futures of all jobs, speeds of one."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Floats
from shockwave.predict.base import Trajectories
from shockwave.server.describe import DecisionInForce
from shockwave.server.view_records import FutureRecord, FuturesRecord, PriceAhead, SpeedAhead

MOST_JOBS = 300
_SAMPLES = 40
_POINTS = 24
_LOW, _HIGH = 0.1, 0.9


def futures_of(
    decision: DecisionInForce | None, ids: dict[int, str], origin_unix: float
) -> FuturesRecord:
    """The jobs that start soonest; ``ids`` are those of active jobs by handle."""
    told = None if decision is None else decision.decision.explanation
    if decision is None or told is None or told.starts is None or told.finishes is None:
        return FuturesRecord(now=None, jobs=[])
    view = decision.view
    starts, finishes = origin_unix + told.starts, origin_unix + told.finishes
    order = np.lexsort((np.median(finishes, axis=0), np.median(starts, axis=0))).tolist()
    here = [position for position in order if int(view.handle[position]) in ids]
    jobs = [
        FutureRecord(
            id=ids[int(view.handle[position])],
            gpus=int(view.gpus[position]),
            starts=_rounded(starts[:, position]),
            finishes=_rounded(finishes[:, position]),
        )
        for position in here[:MOST_JOBS]
        if np.isfinite(finishes[:, position]).all()
    ]
    now = origin_unix + view.now
    prices = prices_ahead(now, starts[:, here], finishes[:, here], told.bid[here])
    return FuturesRecord(now=now, jobs=jobs, left_out=len(here) - len(jobs), prices=prices)


def prices_ahead(now: float, starts: Floats, finishes: Floats, bid: Floats) -> list[PriceAhead]:
    """What the next GPU-round costs until nobody waits any more in nine of ten futures."""
    known = np.isfinite(finishes).all(axis=0) & np.isfinite(bid)
    starts, bid = starts[:, known], bid[known]
    if not starts.size:
        return []
    end = float(np.quantile(starts.max(axis=1), _HIGH))
    if end <= now:
        return []
    cheapest_first = np.argsort(bid, kind="stable")
    # The dearest of those that wait: after sorting, the last one that has not started.
    begun = np.maximum.accumulate(starts[:, cheapest_first][:, ::-1], axis=1)[:, ::-1]
    prices = []
    for time in np.linspace(now, end, _POINTS).tolist():
        waiting = (begun > time).sum(axis=1)  # of the cheapest, so many up to the last that waits
        dearest = np.concatenate([[0.0], bid[cheapest_first]])[waiting]
        low, middle, high = np.quantile(dearest, (_LOW, 0.5, _HIGH)).tolist()
        prices.append(PriceAhead(time=round(time, 1), low=low, middle=middle, high=high))
    return prices


def sampled(decision: DecisionInForce) -> Trajectories | None:
    """Futures of all jobs as the predictor sees them; None where it just learns something."""
    try:
        return decision.forecast.sample(_SAMPLES, np.random.default_rng(0))
    except RuntimeError:  # what it looks through was changed meanwhile
        return None


def speeds_ahead(
    trajectories: Trajectories, position: int, done: float, epochs: float
) -> list[SpeedAhead]:
    """Seconds per epoch at a few epochs that are left of the job at ``position``."""
    if not epochs > done:
        return []
    ahead = np.linspace(0.0, epochs - done, _POINTS, endpoint=False)
    ends = np.cumsum(trajectories.epochs[:, position], axis=1)  # [sample, segment]
    segment = (ends[:, None, :] <= ahead[None, :, None] + 1e-9).sum(axis=2)  # [sample, point]
    last = (trajectories.epochs[:, position] > 0).cumsum(axis=1).argmax(axis=1)
    segment = np.minimum(segment, last[:, None])
    seconds = np.take_along_axis(trajectories.seconds[:, position], segment, axis=1)
    levels = np.quantile(seconds, (_LOW, 0.5, _HIGH), axis=0)
    if not np.isfinite(levels).all():
        return []
    return [
        SpeedAhead(epoch=round(done + at, 3), low=low, middle=middle, high=high)
        for at, low, middle, high in zip(ahead.tolist(), *levels.tolist(), strict=True)
    ]


def _rounded(values: Floats) -> list[float]:
    return [round(value, 1) for value in values.tolist()]
