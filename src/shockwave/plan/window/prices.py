"""The price search: what a GPU-round costs, and a bound that no plan can beat.

At a price ``pi`` per GPU-round (one per GPU type) every job chooses for itself. For a
horizon ``H`` only options with ``leftover <= H`` are allowed, and

    D(H, pi) = sum_j max_{o: leftover_o <= H} (value_o - pi . usage_o)
               + pi . capacity - makespan_weight * H

is at least the welfare of every plan whose horizon is exactly ``H``, whatever ``pi >= 0``.
The horizon of a plan is always one of the finitely many leftovers (or the floor), so

    upper bound = max_H  min over the prices tried of  D(H, pi)

holds for the whole program, the makespan term included. One price gives ``D(H, pi)`` for
all ``H`` at once (a cumulative sum over the jobs that ``H`` restricts), so few prices
suffice: search where the bound is highest, find the price that clears the market there,
lower the bound everywhere, repeat.
"""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.window.envelope import Segments, concave_segments
from shockwave.plan.window.program import OptionTable, Program

_ELLIPSOID_STEPS_PER_TYPE_SQUARED = 40
_TIE = 1e-12  # relative: options this close count as equal, and the smaller one is taken


class PriceSearch:
    """Prices, choices and bounds of one program; built once, asked for many horizons."""

    def __init__(self, program: Program, table: OptionTable) -> None:
        self.program = program
        self.table = table
        self._segments: Segments | None = None
        if len(program.gpus_total) == 1:
            self._segments = concave_segments(table.value, table.usage[0])
        self._index_horizons()

    def _index_horizons(self) -> None:
        """Sorts, once, the leftovers at which a job loses an option as ``H`` falls."""
        leftover, value = self.table.leftover_seconds, self.table.value
        real = np.isfinite(value)
        least = np.where(real, leftover, np.inf).min(axis=0)  # [job]
        most = np.where(real, leftover, -np.inf).max(axis=0)
        lowest = max(self.program.horizon_floor_seconds, float(least.max(initial=0.0)))
        if self.program.makespan_weight == 0.0:  # H costs nothing: allow every option
            lowest = max(lowest, float(most.max(initial=0.0)))
        self.restricted: Ints = np.flatnonzero(most > lowest)
        part = np.where(real, leftover, np.inf)[:, self.restricted]
        # Row order by falling leftover; padding first, it never wins and is never counted.
        self._fall = np.argsort(-part, axis=0, kind="stable")
        part = np.take_along_axis(part, self._fall, axis=0)
        lost = np.isfinite(part) & (part > lowest)
        flat = np.flatnonzero(lost)
        flat = flat[np.argsort(-part.ravel()[flat], kind="stable")]
        self._lost = flat  # (row, restricted job), by falling leftover
        levels = part.ravel()[flat]
        self.horizons: Floats = np.append(np.unique(levels)[::-1], lowest)  # falling
        self._lost_before = np.searchsorted(-levels, -self.horizons, side="left")

    def reduced(self, price: Floats) -> Floats:
        """[row, job] what an option is worth after paying for it."""
        worth = self.table.value - price[0] * self.table.usage[0]
        for gpu_type in range(1, len(price)):
            worth -= price[gpu_type] * self.table.usage[gpu_type]
        return np.asarray(worth)

    def bounds(self, price: Floats) -> Floats:
        """[horizon] ``D(H, price)`` for every possible horizon."""
        worth = self.reduced(price)
        best = worth.max(axis=0, initial=-np.inf) if worth.size else np.zeros(0)
        part = np.take_along_axis(worth[:, self.restricted], self._fall, axis=0)
        # keep[r]: best of the rows from r on, what is left when the rows before are lost
        keep = np.maximum.accumulate(part[::-1], axis=0)[::-1]
        loss = np.zeros(0)
        if len(self._lost):
            after = keep[1:].ravel()  # the last row of a job is never lost
            loss = after[self._lost] - keep.ravel()[self._lost]
        falling = np.concatenate([[0.0], np.cumsum(loss)])
        market = float(best.sum()) + float(price @ self.program.capacity)
        cost = self.program.makespan_weight * self.horizons
        return np.asarray(market + falling[self._lost_before] - cost)

    def allowed(self, horizon: float) -> Bools:
        """[row, restricted job] options that end by ``horizon``."""
        part = self.table.leftover_seconds[:, self.restricted] <= horizon
        return part & np.isfinite(self.table.value[:, self.restricted])

    def feasible_horizons(self) -> int:
        """How many of ``horizons``, from the longest on, leave needs that fit the capacity.

        Needs only grow as the horizon falls, so bisection finds the last. With several
        types the test is necessary, not sufficient.
        """
        usage = self.table.usage[:, :, self.restricted].sum(axis=0)
        capacity = float(self.program.capacity.sum())
        fits, over = 0, len(self.horizons)  # every option is allowed at the longest horizon
        while over - fits > 1:
            middle = (fits + over) // 2
            allowed = self.allowed(float(self.horizons[middle]))
            need = float(np.where(allowed, usage, np.inf).min(axis=0, initial=np.inf).sum())
            fits, over = (middle, over) if need <= capacity else (fits, middle)
        return over

    def clearing_price(self, horizon: float, start: Floats | None = None) -> Floats | None:
        """[type] the price at which demand just fits, ``None`` where even needs do not.

        One type: exact, by the slopes of the concave envelopes. Several types: the
        minimiser of the convex ``D(H, .)`` by the ellipsoid method.
        """
        if self._segments is not None:
            return self._clear_one_type(self._segments, horizon)
        return self._clear_several_types(horizon, start)

    def _clear_one_type(self, segments: Segments, horizon: float) -> Floats | None:
        usage = self.table.usage[0]
        demand = segments.usage
        needed = 0.0
        if len(self.restricted):
            need = np.where(self.allowed(horizon), usage[:, self.restricted], np.inf).min(axis=0)
            needed = float(need.sum())
            needs = np.zeros(usage.shape[1])
            needs[self.restricted] = need
            # What a job must have anyway is no longer for sale.
            demand = np.clip(segments.end_usage - needs[segments.job], 0.0, demand)
        capacity = float(self.program.capacity[0])
        if needed > capacity:
            return None
        total = np.cumsum(demand) + needed
        if not len(total) or total[-1] <= capacity:
            return np.zeros(1)
        return segments.slope[[int(np.searchsorted(total, capacity, side="right"))]]

    def _clear_several_types(self, horizon: float, start: Floats | None) -> Floats | None:
        types = len(self.program.gpus_total)
        allowed = np.isfinite(self.table.value)
        allowed[:, self.restricted] = self.allowed(horizon)
        spread = np.where(allowed, self.table.value, -np.inf).max(axis=0) - np.where(
            allowed, self.table.value, np.inf
        ).min(axis=0)
        used = self.table.usage[self.table.usage > 0]
        highest = float(spread.max(initial=0.0)) / float(used.min(initial=np.inf))
        if highest == 0.0:
            return np.zeros(types)
        center = np.full(types, highest / 2) if start is None else start.copy()
        shape = np.eye(types) * (highest**2 * types)
        jobs = np.arange(len(self.program))
        best_price, best = center, np.inf
        for _ in range(_ELLIPSOID_STEPS_PER_TYPE_SQUARED * types**2):
            if (center < 0).any():
                slope = -(center == center.min()).astype(np.float64)
            else:
                worth = np.where(allowed, self.reduced(center), -np.inf)
                row = worth.argmax(axis=0)
                slope = self.program.capacity - self.table.usage[:, row, jobs].sum(axis=1)
                bound = float(worth[row, jobs].sum() + center @ self.program.capacity)
                if bound < best:
                    best, best_price = bound, center
            width = float(np.sqrt(max(slope @ shape @ slope, 0.0)))
            if width <= 1e-12 * max(1.0, abs(best)):
                break
            step = shape @ slope / width
            center = center - step / (types + 1)
            factor = types**2 / (types**2 - 1.0)
            shape = factor * (shape - 2.0 / (types + 1) * np.outer(step, step))
        return best_price

    def choice(self, horizon: float, price: Floats) -> Ints:
        """[job] the row of the best allowed option at ``price``; of equals the smallest."""
        worth = self.reduced(price)
        part = worth[:, self.restricted]
        part[~self.allowed(horizon)] = -np.inf
        worth[:, self.restricted] = part
        best = worth.max(axis=0)
        tie = best - _TIE * np.abs(best)
        return np.asarray((worth >= tie).argmax(axis=0))
