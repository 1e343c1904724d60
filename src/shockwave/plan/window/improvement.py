"""Improves a packed schedule round by round, where gangs made the packing lose welfare.

Two moves within a round, each as good as the cheapest jobs of every gang size allow:

* let one waiting gang in and take out the jobs that are worth least there,
* take one running gang out and let the best waiting jobs in instead.

Both keep every round within the cluster, so the schedule stays valid at every step.
"""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.fitting import first_fit

_LEAST_GAIN = 1e-10  # of the welfare: below this a move may be a rounding error
_LEAST_SWEEP = 1e-7  # of the welfare: a sweep over all rounds that gains less was the last


class ScheduleSearch:
    """A schedule of gangs on one GPU type, and what each job's count of rounds is worth."""

    def __init__(
        self,
        schedule: Bools,
        gpus: Ints,
        gpus_total: int,
        count_value: Floats,
        count_leftover: Floats,
        *,
        makespan_weight: float,
        horizon_floor_seconds: float,
    ) -> None:
        """``count_value[j, y]`` and ``count_leftover[j, y]``: welfare and seconds left at y rounds.

        A value of ``-inf`` says that the job cannot run that many rounds.
        """
        self.schedule = schedule.copy()
        self.gpus = gpus
        self.value = count_value
        self.leftover = np.maximum(count_leftover, horizon_floor_seconds)
        self.makespan_weight = makespan_weight
        self.floor = horizon_floor_seconds
        self.counts: Ints = schedule.sum(axis=1, dtype=np.int64)
        self.free: Ints = gpus_total - gpus @ schedule
        self._jobs = np.arange(len(gpus))
        self._price_steps(self._jobs)

    def welfare(self) -> float:
        value = float(self.value[self._jobs, self.counts].sum())
        return value - self.makespan_weight * self._horizon()

    def _horizon(self) -> float:
        return float(self.leftover[self._jobs, self.counts].max(initial=self.floor))

    def _price_steps(self, jobs: Ints) -> None:
        """What one round more gains (``up``) and one round less loses (``down``)."""
        if len(jobs) == len(self.gpus):
            self.up = np.zeros(len(jobs))
            self.down = np.zeros(len(jobs))
        counts = self.counts[jobs]
        window = self.value.shape[1] - 1
        here = self.value[jobs, counts]
        more = self.value[jobs, np.minimum(counts + 1, window)]
        less = self.value[jobs, np.maximum(counts - 1, 0)]
        self.up[jobs] = np.where(counts < window, more - here, -np.inf)
        self.down[jobs] = np.where(counts > 0, here - less, np.inf)

    def _steps(self) -> tuple[Floats, Floats]:
        """``up`` and ``down`` with the makespan term at the present horizon."""
        if self.makespan_weight == 0.0 or not len(self._jobs):
            return self.up, self.down
        now = self.leftover[self._jobs, self.counts]
        last = int(now.argmax())
        horizon = float(now[last])
        less = self.leftover[self._jobs, np.maximum(self.counts - 1, 0)]
        down = self.down + self.makespan_weight * np.maximum(less - horizon, 0.0)
        up = self.up.copy()
        window = self.value.shape[1] - 1
        others = float(np.delete(now, last).max(initial=self.floor))
        then = max(others, float(self.leftover[last, min(self.counts[last] + 1, window)]))
        up[last] += self.makespan_weight * max(horizon - then, 0.0)
        return up, down

    def improve(self, target: float, sweeps: int) -> None:
        """Sweeps over the rounds until nothing improves or welfare reaches ``target``."""
        welfare = self.welfare()
        for _ in range(sweeps):
            at_start = welfare
            for now in range(self.schedule.shape[1]):
                if welfare >= target:
                    return
                welfare = self._improve_round(now, welfare)
            if welfare - at_start <= _LEAST_SWEEP * abs(welfare):
                return

    def _improve_round(self, now: int, welfare: float) -> float:
        up, down = self._steps()
        runs = self.schedule[:, now]
        running = np.flatnonzero(runs)
        waiting = np.flatnonzero(~runs & (up > 0))
        if not len(waiting):
            return welfare
        least = _LEAST_GAIN * max(abs(welfare), 1e-300)
        moves = [
            *self._let_in(now, running, waiting, up, down),
            *self._take_out(now, running, waiting, up, down),
        ]
        moves = [move for move in moves if move[0] > least]
        for _, out, into in sorted(moves, key=lambda move: -move[0])[:2]:
            self._apply(now, out, into)
            changed = self.welfare()
            if changed > welfare + least / 2:
                return changed
            self._apply(now, into, out)  # the makespan term made it worse: undo
        return welfare

    def _let_in(
        self, now: int, running: Ints, waiting: Ints, up: Floats, down: Floats
    ) -> list[tuple[float, Ints, Ints]]:
        moves = []
        cheap = running[np.argsort(down[running] / self.gpus[running], kind="stable")]
        freed = np.cumsum(self.gpus[cheap])
        for size in np.unique(self.gpus[waiting]):
            of_size = waiting[self.gpus[waiting] == size]
            job = of_size[up[of_size].argmax()]
            need = int(size - self.free[now])
            if need <= 0:
                moves.append((float(up[job]), running[:0], job[None]))
                continue
            if not len(freed) or freed[-1] < need:
                continue
            several = cheap[: int(np.searchsorted(freed, need)) + 1]
            sets = [several]
            large = running[self.gpus[running] >= need]
            if len(large):
                sets.append(large[[down[large].argmin()]])
            moves.extend((float(up[job] - down[out].sum()), out, job[None]) for out in sets)
        return moves

    def _take_out(
        self, now: int, running: Ints, waiting: Ints, up: Floats, down: Floats
    ) -> list[tuple[float, Ints, Ints]]:
        moves = []
        best = waiting[np.argsort(-up[waiting] / self.gpus[waiting], kind="stable")]
        for size in np.unique(self.gpus[running]):
            of_size = running[self.gpus[running] == size]
            job = of_size[down[of_size].argmin()]
            into = best[first_fit(self.gpus[best], int(self.free[now] + size))]
            moves.append((float(up[into].sum() - down[job]), job[None], into))
        return moves

    def _apply(self, now: int, out: Ints, into: Ints) -> None:
        self.schedule[out, now] = False
        self.schedule[into, now] = True
        self.counts[out] -= 1
        self.counts[into] += 1
        self.free[now] += int(self.gpus[out].sum() - self.gpus[into].sum())
        self._price_steps(np.concatenate([out, into]))
