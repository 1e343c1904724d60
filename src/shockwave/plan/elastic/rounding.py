"""From prices to whole gangs: drop what is too much, fill what is free, trade what is better.

At clearing prices nearly everybody can have what it wants most; only those who are (almost)
indifferent at the margin have to be told. All steps work on the same picture: ``choice`` of every
job, and the GPUs of every type that are free.
"""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.elastic.market import Market

_TINY = 1e-12
_PASSES = 8


class Rounding:
    """An allocation in the making."""

    def __init__(self, market: Market, prices: Floats, choice: Ints | None = None) -> None:
        self.market = market
        self._rows = np.arange(len(market))
        self._left = market.reduced(prices)  # [job, option]
        if choice is None:
            best = self._left.argmax(axis=1)
            choice = np.where(self._left[self._rows, best] > 0.0, best, -1)
        self.choice: Ints = choice.copy()
        self.free: Ints = market.capacity - market.used(self.choice)

    # What everybody has.

    @property
    def value(self) -> Floats:
        """[job] of what it has."""
        return self._of(self.market.values)

    def _of(self, table: Floats) -> Floats:
        held = table[self._rows, np.maximum(self.choice, 0)]
        return np.where(self.choice >= 0, held, 0.0)

    def _held(self) -> tuple[Ints, Ints]:
        """[job] type (-1 for none) and number of GPUs that it has."""
        has = self.choice >= 0
        option = np.maximum(self.choice, 0)
        return np.where(has, self.market.type[option], -1), np.where(
            has, self.market.gpus[option], 0
        )

    def _move(self, job: int, option: int) -> None:
        m, old = self.market, int(self.choice[job])
        if old >= 0:
            self.free[m.type[old]] += m.gpus[old]
        if option >= 0:
            self.free[m.type[option]] -= m.gpus[option]
        self.choice[job] = option

    # The steps.

    def drop_to_fit(self) -> None:
        """Takes GPUs from whom they are worth least, until every type fits."""
        m = self.market
        while (self.free < 0).any():
            over = int(np.argmin(self.free))
            kind, gpus = self._held()
            holders = np.flatnonzero(kind == over)
            value = self.value[holders]
            # Fewer GPUs of the same type, or none at all.
            fewer = (m.type == over) & (m.gpus < gpus[holders, None])
            loss = np.where(fewer, value[:, None] - m.values[holders], np.inf)
            given = gpus[holders, None] - m.gpus
            rate = np.where(fewer, loss / np.maximum(given, 1), np.inf)
            option = rate.argmin(axis=1)
            least = rate[np.arange(len(holders)), option]
            all_of_it = value / gpus[holders]
            option = np.where(all_of_it <= least, -1, option)
            order = np.argsort(np.minimum(all_of_it, least), kind="stable")
            for position in order.tolist():
                self._move(int(holders[position]), int(option[position]))
                if self.free[over] >= 0:
                    break

    def fill(self) -> None:
        """Gives what is free to those who come closest to paying its price for it."""
        m = self.market
        for _ in range(_PASSES):
            kind, gpus = self._held()
            extra = m.gpus - np.where(kind[:, None] == m.type, gpus[:, None], 0)
            better = m.values > self.value[:, None] + _TINY
            better &= extra <= self.free[m.type]
            jobs, options = np.nonzero(better)
            if not len(jobs):
                return
            short = self._of(self._left)[jobs] - self._left[jobs, options]
            moved: set[int] = set()
            for position in np.lexsort((-m.values[jobs, options], short)).tolist():
                job, option = int(jobs[position]), int(options[position])
                if job in moved or extra[job, option] > self.free[m.type[option]]:
                    continue
                self._move(job, option)
                moved.add(job)
            if not moved:
                return

    def trade(self, steps: int, enough: float) -> None:
        """Pairs of moves: one job takes other GPUs or fewer, another takes what that leaves.

        Ends after ``steps`` trades, when none is left that gains, or when ``enough`` is gained.
        """
        if enough <= 0.0:
            return
        gained = 0.0
        for _ in range(steps):
            gain = self._best_trade()
            if gain <= 0.0:
                return
            gained += gain
            if gained >= enough:
                return

    def _best_trade(self) -> float:
        """Makes the trade that gains most; returns the gain, 0 if there is none."""
        best_gain = _TINY * max(1.0, float(np.abs(self.value).sum()))
        best: tuple[tuple[int, int], tuple[int, int]] | None = None
        for number in range(len(self.market.capacity)):
            giving, taking = self._moves(number)
            for released, loss, giver, to in giving:
                for needed, gain, taker, option in taking:
                    fits = needed <= self.free[number] + released and giver != taker
                    if fits and gain - loss > best_gain:
                        best_gain = gain - loss
                        best = (giver, to), (taker, option)
        if best is None:
            return 0.0
        for job, option in best:
            self._move(job, option)
        return best_gain

    def _moves(
        self, number: int
    ) -> tuple[list[tuple[int, float, int, int]], list[tuple[int, float, int, int]]]:
        """The cheapest ways to free each number of GPUs of a type, the best ways to use them."""
        m = self.market
        kind, gpus = self._held()
        here = kind == number
        value = self.value
        # To free: fewer of the same type, none, or another type that has room.
        holders = np.flatnonzero(here)
        own = m.type == number
        fits = np.where(own, m.gpus < gpus[holders, None], m.gpus <= self.free[m.type])
        loss = np.where(fits, value[holders, None] - m.values[holders], np.inf)
        freed = np.where(own, gpus[holders, None] - m.gpus, gpus[holders, None])
        giving = _cheapest(loss, freed, holders, fits)
        whole = [
            (int(gpus[job]), float(value[job]), int(job), -1)
            for job in holders[np.argsort(value[holders] / gpus[holders], kind="stable")][:6]
        ]
        # To use: more of the same type, or a start or a change to it.
        columns = np.flatnonzero(own)
        needed = m.gpus[columns] - np.where(here, gpus, 0)[:, None]
        gain = m.values[:, columns] - value[:, None]
        fits = (needed > 0) & (gain > 0)
        taking = _cheapest(np.where(fits, -gain, np.inf), needed, self._rows, fits)
        return giving + whole, [
            (size, -loss, job, int(columns[option])) for size, loss, job, option in taking
        ]


def _cheapest(
    loss: Floats, size: Ints, jobs: Ints, fits: Bools
) -> list[tuple[int, float, int, int]]:
    """The three cheapest (size, loss, job, option) of every size, so that two jobs differ."""
    row, option = np.nonzero(fits & np.isfinite(loss))
    if not len(row):
        return []
    sizes, losses = size[row, option], loss[row, option]
    order = np.lexsort((losses, sizes))
    row, option, sizes, losses = row[order], option[order], sizes[order], losses[order]
    first = np.flatnonzero(np.diff(sizes, prepend=sizes[0] - 1))
    rank = np.arange(len(sizes)) - np.repeat(first, np.diff(np.append(first, len(sizes))))
    kept = np.flatnonzero(rank < 3)
    return [(int(sizes[at]), float(losses[at]), int(jobs[row[at]]), int(option[at])) for at in kept]
