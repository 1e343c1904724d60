"""What every job has measured of its own speeds, and how far that sets it apart from its model.

A job's latest measurement with every option is kept. Options near to one that it has measured are
known by it, whether what is off is the job's or what is open about its model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Bools, Floats, Ints

_MEASURES = 60.0  # seconds of running that always make a new measurement
_OTHER_PACE = 0.2  # change of the logarithm after which a job is not what it was


@dataclass
class Measured:
    """What was measured of every job: its latest logarithm with every option."""

    handle: Ints  # [job]
    value: Floats  # [job, option] nan if it was not
    doubt: Floats  # [job, option] variance since: its pace has changed meanwhile
    stage: Ints  # [job, option] when it was measured
    cell: Ints  # [job, 3] option, stage and kind of its last measurement
    held: Ints  # [job] what it held at the last look
    told: Floats  # [job, option] the last measurement that was new
    done: Floats  # [job, option] epochs done with it by then, or when it came back to it

    @staticmethod
    def nothing() -> Measured:
        none, whole = np.empty((0, 0)), np.empty((0, 0), dtype=np.int64)
        return Measured(
            np.empty(0, dtype=np.int64),
            none,
            none,
            whole,
            whole.reshape(0, 3),
            np.empty(0, dtype=np.int64),
            none,
            none,
        )

    def of(self, handle: Ints, options: int) -> Measured:
        """Rows for these jobs, columns for these options; options only ever come to the end."""
        made = Measured(
            handle,
            np.full((len(handle), options), np.nan),
            np.zeros((len(handle), options)),
            np.zeros((len(handle), options), dtype=np.int64),
            np.full((len(handle), 3), -1, dtype=np.int64),
            np.full(len(handle), -1, dtype=np.int64),
            np.full((len(handle), options), np.nan),
            np.zeros((len(handle), options)),
        )
        known = np.isin(handle, self.handle, assume_unique=True)
        old, width = np.searchsorted(self.handle, handle[known]), self.value.shape[1]
        made.value[known, :width] = self.value[old]
        made.doubt[known, :width] = self.doubt[old]
        made.stage[known, :width] = self.stage[old]
        made.cell[known] = self.cell[old]
        made.held[known] = self.held[old]
        made.told[known, :width] = self.told[old]
        made.done[known, :width] = self.done[old]
        return made

    def has_new(self, held: Ints, latest: Floats, done: Floats) -> Bools:
        """[job] whether the ``latest`` measurement with what it holds was made since the last look.

        Who comes back to an option is told its old speed there until it has run for a while, and
        it may have another one by now. ``done[job, option]`` are the epochs done with an option.
        """
        moved = np.flatnonzero((held != self.held) & (held >= 0))
        self.done[moved, held[moved]] = done[moved, held[moved]]
        self.held = held
        jobs, option = np.arange(len(held)), np.maximum(held, 0)
        ran = (done[jobs, option] - self.done[jobs, option]) * latest
        new = np.asarray((held >= 0) & ((latest != self.told[jobs, option]) | (ran >= _MEASURES)))
        self.told[jobs[new], option[new]] = latest[new]
        self.done[jobs[new], option[new]] = done[jobs[new], option[new]]
        return new

    def knows(self, job: int) -> bool:
        return bool(self.cell[job, 0] >= 0)

    def since(self, drifts: Floats, row: Ints, stage: Ints) -> Floats:
        """[job, option] variance since it was measured: its pace has changed, or may have.

        ``drifts[kind, option, stage, stage]`` is how open the change of its model is between two
        stages: what four GPUs did in the first epoch says little about the tenth, unless others
        have shown how that goes on.
        """
        option = np.arange(self.value.shape[1])
        return np.asarray(self.doubt + drifts[row[:, None], option, self.stage, stage[:, None]])

    def shown(self, since: Floats) -> Bools:
        """[job, option] whether the job itself has shown it, at its present pace."""
        return np.asarray(~np.isnan(self.value) & (since < _OTHER_PACE**2))

    def last(self, job: int) -> tuple[int, int, int]:
        option, stage, kind = self.cell[job].tolist()
        return option, stage, kind

    def take(self, job: int, cell: tuple[int, int, int], value: float, drift: Floats) -> None:
        """A new measurement. ``drift[stage]`` is what the model let expect since that stage.

        A job that has changed its pace, as with another batch size, did so with every option, more
        or less.
        """
        option, now, _ = cell
        if self.last(job)[0] == option:
            change = value - self.value[job, option] - drift[self.stage[job, option]]
            self.value[job] += change
            self.doubt[job] += change**2
        self.value[job, option], self.doubt[job, option] = value, 0.0
        self.stage[job, option] = now
        self.cell[job] = cell

    def apart(
        self, covariance: Floats, spread: Floats, models: Floats, doubt: Floats, since: Floats,
        row: Ints, stage: Ints, declared: Floats, noise: float,
    ) -> tuple[Floats, Floats, Floats]:  # fmt: skip
        """How far every job is from each curve of its model, given what was measured of it.

        [job, curve, option] the mean, [job, option] the variance, and [job, curve] the misfit
        (squares of what was measured, by their covariance). What is off may be the job's or what is
        open about its model, ``doubt[kind, stage, option, option]``: options that are near to a
        measured one are known by it, whosever it is. What a job says of itself is a measurement
        until there is one.
        """
        said = np.isfinite(declared) & (declared > 0) & np.isnan(self.value)
        value = np.where(said, np.log(np.where(said, declared, 1.0)), self.value)
        at = np.where(said, stage[:, None], self.stage)
        known = ~np.isnan(value)
        width = int(known.sum(axis=1).max(initial=0))
        jobs, spread = np.arange(len(row))[:, None], spread[:, None, None]
        before = spread[:, 0] * np.diagonal(covariance)
        before = before + np.diagonal(doubt, axis1=2, axis2=3)[row, stage]
        count = models.shape[1]
        if not width:
            own = np.zeros((len(row), count, len(covariance)))
            return own, before, own[:, :, 0]
        option = np.argsort(~known, axis=1, kind="stable")[:, :width]  # [job, measurement]
        there = known[jobs, option]
        expected = models[row[:, None], :, option, at[jobs, option]]  # [job, measurement, curve]
        off = np.where(there[:, :, None], value[jobs, option][:, :, None] - expected, 0.0)
        both = there[:, :, None] & there[:, None, :]
        kind, now = row[:, None], stage[:, None]
        inner = spread * covariance[option[:, :, None], option[:, None, :]]
        inner += doubt[kind[:, None], now[:, None], option[:, :, None], option[:, None, :]]
        inner = np.where(both, inner, 0.0)
        diagonal, later = np.arange(width), np.where(said, 0.0, since)[jobs, option]
        inner[:, diagonal, diagonal] += np.where(there, later + noise**2, 1.0)
        cross = spread * covariance[option] + doubt[kind, now, option]
        cross = np.where(there[:, :, None], cross, 0.0)
        solved = np.linalg.solve(inner, np.concatenate([off, cross], axis=2))
        own = np.einsum("jmo,jmc->jco", cross, solved[:, :, :count])
        explained = np.einsum("jmo,jmo->jo", cross, solved[:, :, count:])
        variance = np.maximum(before - explained, 0.0)
        misfit = np.einsum("jmc,jmc->jc", off, solved[:, :, :count])
        return own, variance, misfit
