"""From prices to a plan that fits: drop what is too much, fill what is left, swap or solve.

Works on rows of an :class:`OptionTable`, one per job, against the capacity of the whole
window; :mod:`shockwave.plan.window.packing` then finds the rounds.
"""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.window.program import OptionTable

_LARGEST_SWAP = 16  # GPU-rounds that one job gives up or takes in a swap
_TINY_PRICE = 1e-15
_SMALL = 100_000  # options times GPU-rounds, for an exact solution


class Rounding:
    """One plan in the making: ``row[j]`` of every job, and the capacity that is free.

    ``usable[row, job]`` says which options may be taken at all.
    """

    def __init__(
        self, table: OptionTable, capacity: Floats, row: Ints, usable: Bools, price: Floats
    ) -> None:
        self.table = table
        self.row = row.copy()
        self.usable = usable
        self.price = price
        self._jobs = np.arange(len(row))
        self._capacity = capacity
        self.free = capacity - table.usage[:, row, self._jobs].sum(axis=1)

    def _change(self, jobs: Ints) -> tuple[Floats, Floats]:
        """What moving ``jobs`` to each option would change: value [row, job], usage [type, ...]."""
        value = self.table.value[:, jobs] - self.table.value[self.row[jobs], jobs]
        usage = self.table.usage[:, :, jobs] - self.table.usage[:, self.row[jobs], jobs][:, None]
        return value, usage

    def _move(self, job: int, row: int) -> None:
        self.free += self.table.usage[:, self.row[job], job] - self.table.usage[:, row, job]
        self.row[job] = row

    def drop_to_fit(self) -> bool:
        """Takes GPU-rounds from whom they are worth least, until the plan fits.

        Returns whether it fits now: needs (``usable`` without smaller options) may not.
        """
        while (self.free < 0).any():
            over = int(np.argmin(self.free))
            holders = np.flatnonzero(self.table.usage[over, self.row, self._jobs] > 0)
            value, usage = self._change(holders)
            # Never into a type that is (or would be) over as well: that could go in circles.
            room = np.maximum(self.free, 0.0)
            gives = self.usable[:, holders] & (usage[over] < 0)
            gives &= (usage <= room[:, None, None]).all(axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                loss = np.where(gives, value / usage[over], np.inf)  # welfare per GPU-round
            best = loss.argmin(axis=0)
            cheapest = np.argsort(loss[best, np.arange(len(holders))], kind="stable")
            moved = False
            for position in cheapest.tolist():
                row = int(best[position])
                if self.free[over] >= 0 or not np.isfinite(loss[row, position]):
                    break
                if (usage[:, row, position] <= np.maximum(self.free, 0.0)).all():
                    self._move(int(holders[position]), row)
                    moved = True
            if not moved:
                return False
        return True

    def fill(self) -> None:
        """Spends what is free on the best steps that still fit, best per GPU-round first."""
        cost = self.price + _TINY_PRICE
        while True:
            if not (self.free > 0).any():
                return
            value, usage = self._change(self._jobs)
            fits = self.usable & (value > 0) & (usage <= self.free[:, None, None]).all(axis=0)
            open_jobs = np.flatnonzero(fits.any(axis=0))
            if not len(open_jobs):
                return
            paid = (cost[:, None, None] * usage[:, :, open_jobs]).sum(axis=0)
            density = np.where(
                fits[:, open_jobs], value[:, open_jobs] / np.maximum(paid, _TINY_PRICE**2), -1.0
            )
            best = density.argmax(axis=0)
            gain = density[best, np.arange(len(open_jobs))]
            for position in np.argsort(-gain, kind="stable").tolist():
                job, row = int(open_jobs[position]), int(best[position])
                if (usage[:, row, job] <= self.free).all():
                    self._move(job, row)
                if (self.free <= 0).all():
                    return

    @property
    def is_small(self) -> bool:
        """Whether :meth:`solve` is cheap: one GPU type, few jobs, a small cluster."""
        cells = self.table.value.size * float(self._capacity.sum())
        return len(self.price) == 1 and 0 < cells <= _SMALL

    def solve(self) -> None:
        """The best plan for the capacity, whatever it was before: a knapsack, filled exactly.

        Prices and swaps see one step or two at a time. On a cluster of a few GPUs the best
        plan may be several steps away, where a round more is worth more than the one before.
        """
        capacity = int(self._capacity[0])
        value = np.where(self.usable, self.table.value, -np.inf)
        usage = self.table.usage[0].astype(np.int64)
        best = np.zeros(capacity + 1)  # by the GPU-rounds that may be used
        chosen = np.zeros((len(self.row), capacity + 1), dtype=np.int64)
        room = np.arange(capacity + 1)
        for job in self._jobs.tolist():
            left = room - usage[:, job, None]
            gained = value[:, job, None] + best[np.maximum(left, 0)]
            gained = np.where(left >= 0, gained, -np.inf)
            chosen[job] = gained.argmax(axis=0)
            best = gained[chosen[job], room]
        if not np.isfinite(best[capacity]):
            return
        for job in reversed(self._jobs.tolist()):
            row = int(chosen[job, capacity])
            self._move(job, row)
            capacity -= int(usage[row, job])

    def swap(self, steps: int, enough: float) -> None:
        """Improves by pairs of moves (one job gives, another takes), one GPU type only.

        Stops after ``steps`` swaps or when they have gained ``enough`` welfare.
        """
        if len(self.price) != 1 or not len(self.row):
            return
        gained = 0.0
        for _ in range(steps):
            found = self._best_swap()
            if found is None:
                return
            gain, moves = found
            for job, row in moves:
                self._move(job, row)
            gained += gain
            if gained >= enough:
                return

    def _best_swap(self) -> tuple[float, list[tuple[int, int]]] | None:
        value, change = self._change(self._jobs)
        usage = change[0]
        near = self.usable & (np.abs(usage) <= _LARGEST_SWAP)
        row, job = np.nonzero(near)
        gain, size = value[row, job], usage[row, job].astype(np.int64)
        # The two best moves of every size: two, since a job cannot swap with itself.
        order = np.lexsort((-gain, size))
        row, job, gain, size = row[order], job[order], gain[order], size[order]
        first = np.flatnonzero(np.diff(size, prepend=size[0] - 1))
        second = first + 1
        second = second[np.isin(second, first, invert=True) & (second < len(size))]
        kept = np.union1d(first, second)
        moves = list(
            zip(
                size[kept].tolist(),
                gain[kept].tolist(),
                job[kept].tolist(),
                row[kept].tolist(),
                strict=True,
            )
        )
        scale = float(np.abs(self.table.value[self.row, self._jobs]).sum())
        best, chosen = 1e-12 * max(scale, 1e-300), None
        free = float(self.free[0])
        for size_a, gain_a, job_a, row_a in moves:
            for size_b, gain_b, job_b, row_b in moves:
                if job_a < job_b and size_a + size_b <= free and gain_a + gain_b > best:
                    best, chosen = gain_a + gain_b, [(job_a, row_a), (job_b, row_b)]
        return None if chosen is None else (best, chosen)
