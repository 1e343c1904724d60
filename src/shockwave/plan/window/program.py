"""The window program: every job picks one option, together they fit the cluster.

    maximise    sum_j value[o_j]  -  makespan_weight * H
    where       H = max(horizon_floor, max_j leftover_seconds[o_j])
    subject to  one option o_j per job, and the gangs of every round fit the cluster

An option is a number of rounds on a number of GPUs of one type. With one gang size and one
GPU type per job the options are just the counts ``0 .. window``
(:meth:`Program.from_values`); jobs that may use several GPU types or counts have more
options, and the solvers do not notice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shockwave.model.errors import InputError
from shockwave.model.view import Floats, Ints


@dataclass(frozen=True)
class Program:
    """Jobs and their options as flat arrays; job ``j`` owns ``offsets[j]:offsets[j + 1]``.

    ``leftover_seconds`` is the predicted runtime that is left after the option was taken:
    ``R_j - y * round_seconds`` where the job runs at its usual speed. Every job needs an
    option of zero rounds, so that every program has a plan.

    Raises:
        InputError: where arrays disagree in length, a job has no idle option, or a number
            is not finite.
    """

    offsets: Ints  # [job + 1]
    value: Floats  # [option] what the option adds to welfare
    rounds: Ints  # [option] rounds of the window in which the job runs
    gpus: Ints  # [option] GPUs held in each of those rounds
    gpu_type: Ints  # [option] position in gpus_total
    leftover_seconds: Floats  # [option]
    gpus_total: Ints  # [type]
    window: int
    makespan_weight: float = 0.0  # welfare per second of H
    horizon_floor_seconds: float = 0.0  # H is never less: the work bound
    _uniform: bool = field(default=False, repr=False, compare=False)  # from_values: checks done

    def __post_init__(self) -> None:
        if not self._uniform:
            self._check()
        for name in ("makespan_weight", "horizon_floor_seconds"):
            number = getattr(self, name)
            if not (np.isfinite(number) and number >= 0):
                raise InputError("must be finite and not negative", place=name, value=number)

    def _check(self) -> None:
        options = int(self.offsets[-1])
        for name in ("value", "rounds", "gpus", "gpu_type", "leftover_seconds"):
            length = len(getattr(self, name))
            if length != options:
                raise InputError(f"must have {options} options", place=name, value=length)
        if len(self) and int(np.diff(self.offsets).min()) < 1:
            raise InputError("every job needs an option", place="offsets")
        for name in ("value", "leftover_seconds"):
            if not np.isfinite(getattr(self, name)).all():
                raise InputError("must be finite", place=name)
        if options and (self.rounds.min() < 0 or self.rounds.max() > self.window):
            raise InputError(f"must lie in 0..{self.window}", place="rounds")
        if options and (self.gpu_type.min() < 0 or self.gpu_type.max() >= len(self.gpus_total)):
            raise InputError("must be a position in gpus_total", place="gpu_type")
        if options and ((self.gpus < 1) & (self.rounds > 0)).any():
            raise InputError("must be at least 1", place="gpus")
        idle = np.bincount(self.job[self.rounds == 0], minlength=len(self))
        if (idle[: len(self)] == 0).any():
            raise InputError(
                "has no option of zero rounds", place=f"job {int(np.argmin(idle[: len(self)]))}"
            )

    @classmethod
    def from_values(
        cls,
        values: Floats,
        gpus: Ints,
        gpus_total: int,
        *,
        remaining_seconds: Floats | None = None,
        round_seconds: float = 120.0,
        makespan_weight: float = 0.0,
        horizon_floor_seconds: float = 0.0,
    ) -> Program:
        """The common case: ``values[j, y]`` for ``y = 0 .. window`` rounds of ``gpus[j]`` GPUs.

        >>> program = Program.from_values(np.log([[1.0, 2.0, 3.0]]), np.array([1]), 1)
        >>> program.window, program.capacity.tolist()
        (2, [2.0])
        """
        jobs, width = values.shape
        if width < 2 or gpus.shape != (jobs,):
            raise InputError("needs values [job, window + 1] and gpus [job]", value=values.shape)
        if jobs and (not np.isfinite(values).all() or int(gpus.min()) < 1):
            raise InputError("values must be finite and gangs at least 1 GPU", place="values")
        counts = np.arange(width)
        remaining = np.zeros(jobs) if remaining_seconds is None else remaining_seconds
        return cls(
            offsets=np.arange(jobs + 1) * width,
            value=np.ascontiguousarray(values, dtype=np.float64).ravel(),
            rounds=np.tile(counts, jobs),
            gpus=np.repeat(gpus.astype(np.int64), width),
            gpu_type=np.zeros(jobs * width, dtype=np.int64),
            leftover_seconds=(remaining[:, None] - counts * round_seconds).ravel(),
            gpus_total=np.array([gpus_total], dtype=np.int64),
            window=width - 1,
            makespan_weight=makespan_weight,
            horizon_floor_seconds=max(horizon_floor_seconds, 0.0),
            _uniform=True,
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def uniform(self) -> bool:
        """Whether every job's options are the counts ``0 .. window`` of one gang."""
        return self._uniform

    @cached_property
    def job(self) -> Ints:
        """[option] the job that owns it."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    @cached_property
    def usage(self) -> Floats:
        """[option, type] GPU-rounds."""
        usage = np.zeros((len(self.value), len(self.gpus_total)))
        usage[np.arange(len(self.value)), self.gpu_type] = self.gpus * self.rounds
        return usage

    @cached_property
    def capacity(self) -> Floats:
        """[type] GPU-rounds that gangs can fill: window x the largest sum of gangs <= M.

        Six gangs of 4 on 30 GPUs fill 24 of them in any round, so no plan uses more.
        """
        filled = np.zeros(len(self.gpus_total))
        for gpu_type, total in enumerate(self.gpus_total):
            gangs = self._gangs_by_job(gpu_type)
            filled[gpu_type] = largest_sum(gangs, int(total))
        return filled * self.window

    def _gangs_by_job(self, gpu_type: int) -> list[tuple[int, int]]:
        """(gang, how many jobs could run it) on one GPU type."""
        if self._uniform:
            gangs = self.gpus[:: self.window + 1]
        else:
            real = (self.gpu_type == gpu_type) & (self.rounds > 0)
            pairs = np.unique(np.stack([self.job[real], self.gpus[real]]), axis=1)
            gangs = pairs[1]
        sizes, counts = np.unique(gangs, return_counts=True)
        return list(zip(sizes.tolist(), counts.tolist(), strict=True))

    @cached_property
    def idle(self) -> Ints:
        """[job] its first option of zero rounds."""
        if self._uniform:
            return self.offsets[:-1]
        idle = np.flatnonzero(self.rounds == 0)
        return idle[np.searchsorted(idle, self.offsets[:-1])]

    def horizon(self, options: Ints) -> float:
        """``H``: seconds after the window until the last job is predicted to end."""
        longest = float(self.leftover_seconds[options].max(initial=0.0))
        return max(longest, self.horizon_floor_seconds)

    def welfare(self, options: Ints) -> float:
        """The objective of a plan, given one option (flat position) per job."""
        total = float(self.value[options].sum())
        return total - self.makespan_weight * self.horizon(options)


def largest_sum(gangs: Iterable[tuple[int, int]], limit: int) -> int:
    """The largest sum <= ``limit`` of gangs, given (size, how many) pairs.

    >>> largest_sum([(4, 6)], 30), largest_sum([(3, 2), (5, 1)], 9)
    (24, 8)
    """
    reachable = 1  # bit s: sum s can be reached
    mask = (1 << (limit + 1)) - 1
    for size, count in gangs:
        step = 1
        while count > 0:  # binary splitting of the count
            take = min(step, count)
            if take * size <= limit:
                reachable |= (reachable << (take * size)) & mask
            elif step == 1:
                break
            count -= take
            step *= 2
    return reachable.bit_length() - 1


@dataclass(frozen=True)
class OptionTable:
    """The options of a program as dense ``[row, job]`` arrays, rows by growing usage.

    Jobs with fewer options are padded by rows of value ``-inf``. Jobs run along the last
    axis so that a reduction over options is one pass over contiguous memory.
    """

    option: Ints  # [row, job] flat position in the program
    value: Floats  # [row, job]
    usage: Floats  # [type, row, job] GPU-rounds
    leftover_seconds: Floats  # [row, job], at least the horizon floor

    @staticmethod
    def of(program: Program) -> OptionTable:
        jobs = len(program)
        if program.uniform:
            width = program.window + 1
            shape = (jobs, width)
            option = np.ascontiguousarray(np.arange(jobs * width).reshape(shape).T)
            value = np.ascontiguousarray(program.value.reshape(shape).T)
            gangs = program.gpus[::width].astype(np.float64)
            usage = (np.arange(width, dtype=np.float64)[:, None] * gangs)[None]
            leftover = np.ascontiguousarray(program.leftover_seconds.reshape(shape).T)
        else:
            width = int(np.diff(program.offsets).max(initial=1))
            order = np.lexsort((-program.value, program.usage.sum(axis=1), program.job))
            row = np.arange(len(order)) - program.offsets[program.job]
            job = program.job
            option = np.repeat(program.idle[None, :], width, axis=0)
            option[row, job] = order
            value = np.full((width, jobs), -np.inf)
            value[row, job] = program.value[order]
            usage = np.moveaxis(program.usage[option], 2, 0)
            leftover = program.leftover_seconds[option]
        leftover = np.maximum(leftover, program.horizon_floor_seconds)
        return OptionTable(option, value, np.ascontiguousarray(usage), leftover)
