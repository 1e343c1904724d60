"""The same program as a mixed-integer program in HiGHS: the reference for the price search.

Three forms:

* :func:`solve_options`: a binary per option, capacity of the window as a whole. What the
  price search bounds.
* :func:`solve_rounds`: in addition a binary per (job, gang, round), gangs fit every single
  round. The exact optimum, packing included; for small programs.
* :func:`solve_original`: the formulation of the original system, for benchmarks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shockwave.model.errors import InputError, ShockwaveError
from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.window.market import PiecewiseLog
from shockwave.plan.window.program import Program
from shockwave.plan.window.schedule import WindowPlan


@dataclass(frozen=True)
class MilpResult:
    """What HiGHS found: one option per job, its objective and HiGHS' own upper bound."""

    option: Ints
    objective: float
    upper_bound: float
    seconds: float
    optimal: bool  # within the gap asked for; else the time was up
    schedule: Bools | None = None


@dataclass
class _Model:
    """Columns and sparse rows on their way to HiGHS (which minimises: costs are negated)."""

    cost: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    entries: list[tuple[list[int], list[float]]] = field(default_factory=list)

    def column(self, gain: float, lower: float, upper: float, integer: bool) -> int:
        self.cost.append(-gain)
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.cost) - 1

    def binary(self, gain: float = 0.0) -> int:
        return self.column(gain, 0.0, 1.0, True)

    def row(self, lower: float, upper: float, columns: list[int], factors: list[float]) -> None:
        self.row_lower.append(lower)
        self.row_upper.append(upper)
        self.entries.append((columns, factors))

    def solve(self, relative_gap: float, time_limit_seconds: float) -> _Solution:
        highspy = import_highs()
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.cost), len(self.row_lower)
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = (
            np.array(self.cost),
            np.array(self.lower),
            np.array(self.upper),
        )
        lp.row_lower_, lp.row_upper_ = np.array(self.row_lower), np.array(self.row_upper)
        lp.integrality_ = [
            highspy.HighsVarType.kInteger if flag else highspy.HighsVarType.kContinuous
            for flag in self.integer
        ]
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lengths = [len(columns) for columns, _ in self.entries]
        lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        lp.a_matrix_.index_ = np.array([c for row, _ in self.entries for c in row], dtype=np.int32)
        lp.a_matrix_.value_ = np.array([v for _, row in self.entries for v in row])
        solver = highspy.Highs()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("mip_rel_gap", relative_gap),
            ("mip_abs_gap", 1e-9),
            ("time_limit", time_limit_seconds),
        ):
            solver.setOptionValue(option, value)
        solver.passModel(lp)
        solver.run()
        info = solver.getInfo()
        status = solver.getModelStatus()
        if info.primal_solution_status != 2:  # no feasible point yet
            raise ShockwaveError(
                f"HiGHS found no plan within {time_limit_seconds:g} s ({status}). "
                'Give it more time, or use solver="prices".'
            )
        return _Solution(
            values=np.array(solver.getSolution().col_value),
            objective=-float(info.objective_function_value),
            upper_bound=-float(info.mip_dual_bound),
            seconds=float(solver.getRunTime()),
            optimal=status == highspy.HighsModelStatus.kOptimal,
        )


@dataclass(frozen=True)
class _Solution:
    values: Floats
    objective: float
    upper_bound: float
    seconds: float
    optimal: bool


def import_highs() -> Any:
    try:
        import highspy
    except ImportError as error:
        raise InputError(
            "the integer program needs highspy", hint='pip install "shockwave-scheduler[milp]"'
        ) from error
    return highspy


def _options(program: Program) -> _Model:
    """One binary per option (columns 0 .. options - 1), one of them per job, and ``H``."""
    model = _Model()
    for value in program.value.tolist():
        model.binary(value)
    longest = float(program.leftover_seconds.max(initial=0.0))
    floor = program.horizon_floor_seconds
    horizon = model.column(-program.makespan_weight, floor, max(longest, floor), False)
    for start, end in zip(program.offsets[:-1].tolist(), program.offsets[1:].tolist(), strict=True):
        columns = list(range(start, end))
        model.row(1.0, 1.0, columns, [1.0] * len(columns))
        if program.makespan_weight > 0:
            leftover = program.leftover_seconds[start:end].tolist()
            model.row(-np.inf, 0.0, [*columns, horizon], [*leftover, -1.0])
    return model


def _chosen(program: Program, values: Floats) -> Ints:
    """[job] the option whose binary is set."""
    return np.array(
        [
            start + int(np.argmax(values[start:end]))
            for start, end in zip(program.offsets[:-1], program.offsets[1:], strict=True)
        ],
        dtype=np.int64,
    )


def solve_options(
    program: Program, *, relative_gap: float = 1e-6, time_limit_seconds: float = 60.0
) -> MilpResult:
    """The program with the capacity of the whole window, ignoring how gangs pack.

    Raises:
        InputError: where highspy is not installed.
        ShockwaveError: where the time was up before a plan was found.
    """
    model = _options(program)
    for gpu_type in range(len(program.gpus_total)):
        used = np.flatnonzero(program.usage[:, gpu_type])
        capacity = float(program.gpus_total[gpu_type] * program.window)
        model.row(-np.inf, capacity, used.tolist(), program.usage[used, gpu_type].tolist())
    solution = model.solve(relative_gap, time_limit_seconds)
    option = _chosen(program, solution.values)
    return MilpResult(
        option,
        program.welfare(option),
        solution.upper_bound,
        solution.seconds,
        solution.optimal,
    )


def solve_rounds(
    program: Program, *, relative_gap: float = 1e-6, time_limit_seconds: float = 60.0
) -> WindowPlan:
    """The exact program: the gangs of every single round fit.

    Raises:
        InputError: where highspy is not installed.
        ShockwaveError: where the time was up before a plan was found.
    """
    model = _options(program)
    window = program.window
    real = np.flatnonzero(program.rounds > 0)
    gang_of = np.stack([program.job[real], program.gpu_type[real], program.gpus[real]], axis=1)
    gangs, position = np.unique(gang_of, axis=0, return_inverse=True)
    position = position.reshape(-1)
    runs = [[model.binary() for _ in range(window)] for _ in gangs]
    for gang, columns in enumerate(runs):
        options = real[position == gang]
        counts = program.rounds[options].astype(np.float64)
        model.row(0.0, 0.0, [*columns, *options.tolist()], [*([1.0] * window), *(-counts).tolist()])
    for gpu_type, total in enumerate(program.gpus_total.tolist()):
        members = np.flatnonzero(gangs[:, 1] == gpu_type).tolist()
        sizes = [float(gangs[gang, 2]) for gang in members]
        for now in range(window):
            model.row(-np.inf, float(total), [runs[gang][now] for gang in members], sizes)
    solution = model.solve(relative_gap, time_limit_seconds)
    option = _chosen(program, solution.values)
    schedule = np.zeros((len(program), window), dtype=np.bool_)
    for gang, columns in enumerate(runs):
        schedule[gangs[gang, 0]] |= solution.values[columns] > 0.5
    welfare = program.welfare(option)
    return WindowPlan(
        option=option,
        rounds=program.rounds[option],
        offer=np.where(program.rounds[option] > 0, option, -1),
        schedule=schedule,
        welfare=welfare,
        upper_bound=max(solution.upper_bound, welfare),
        idle_welfare=program.welfare(program.idle),
        price=np.full(len(program.gpus_total), np.nan),
        horizon_seconds=program.horizon(option),
        missing=np.zeros(len(program), dtype=np.int64),
    )


def solve_original(
    program: Program,
    *,
    bid: Floats,
    progress: Floats,
    progress_per_round: Floats,
    log: PiecewiseLog,
    relative_gap: float = 1e-4,
    time_limit_seconds: float = 60.0,
) -> MilpResult:
    """The formulation of the original: a binary per (job, round) and a piecewise log.

    Per job ``window`` binaries, and for the log one weight and one binary per node of
    ``log`` (two neighbouring nodes may carry weight). ``program`` (from ``from_values``)
    gives gangs, capacity and the makespan term; the utility here is

        bid_j / N * log( min(1, progress_j + progress_per_round_j * sum_t x_jt) )
    """
    if not program.uniform:
        raise InputError("the original formulation knows one gang per job", place="program")
    model = _Model()
    jobs, window = len(program), program.window
    gangs = program.gpus[:: window + 1].astype(np.float64).tolist()
    leftover = program.leftover_seconds.reshape(jobs, window + 1)
    floor = program.horizon_floor_seconds
    longest = max(float(leftover.max(initial=0.0)), floor)
    horizon = model.column(-program.makespan_weight, floor, longest, False)
    runs = [[model.binary() for _ in range(window)] for _ in range(jobs)]
    nodes, logs = log.nodes.tolist(), log.logs.tolist()
    for job, columns in enumerate(runs):
        scale = float(bid[job]) / max(jobs, 1)
        weights = [model.column(scale * height, 0.0, 1.0, False) for height in logs]
        marks = [model.binary() for _ in nodes]
        model.row(1.0, 1.0, weights, [1.0] * len(nodes))
        for weight, mark in zip(weights, marks, strict=True):
            model.row(-np.inf, 0.0, [weight, mark], [1.0, -1.0])
        model.row(-np.inf, 2.0, marks, [1.0] * len(nodes))
        for first in range(len(nodes)):
            for second in range(first + 2, len(nodes)):
                model.row(-np.inf, 1.0, [marks[first], marks[second]], [1.0, 1.0])
        step = float(progress_per_round[job])
        model.row(
            -np.inf, float(progress[job]), [*weights, *columns], [*nodes, *([-step] * window)]
        )
        seconds = float(leftover[job, 0] - leftover[job, 1])
        model.row(
            float(leftover[job, 0]), np.inf, [*columns, horizon], [*([seconds] * window), 1.0]
        )
    for now in range(window):
        model.row(-np.inf, float(program.gpus_total[0]), [run[now] for run in runs], gangs)
    solution = model.solve(relative_gap, time_limit_seconds)
    schedule = solution.values[np.array(runs)] > 0.5
    option = program.offsets[:-1] + schedule.sum(axis=1)
    return MilpResult(
        option,
        program.welfare(option),
        solution.upper_bound,
        solution.seconds,
        solution.optimal,
        schedule,
    )
