"""The market as an integer program in HiGHS: a binary per job and option. Sia's solver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Ints
from shockwave.plan.elastic.market import Market
from shockwave.plan.window.milp import import_highs


@dataclass(frozen=True)
class IlpResult:
    """What HiGHS found: an option per job, its value, and HiGHS' own bound."""

    choice: Ints
    value: float
    bound: float


def solve_ilp(
    market: Market, *, relative_gap: float = 1e-4, time_limit_seconds: float = 60.0
) -> IlpResult:
    """The best allocation, within ``relative_gap`` unless the time is up first.

    Raises:
        InputError: where highspy is not installed.
    """
    highspy = import_highs()
    jobs, options = np.nonzero(np.isfinite(market.values))
    none = np.full(len(market), -1, dtype=np.int64)
    if not len(jobs):
        return IlpResult(none, 0.0, 0.0)
    columns, types = len(jobs), len(market.capacity)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = columns, len(market) + types
    lp.col_cost_ = -market.values[jobs, options]
    lp.col_lower_, lp.col_upper_ = np.zeros(columns), np.ones(columns)
    lp.row_lower_ = np.full(lp.num_row_, -highspy.kHighsInf)
    lp.row_upper_ = np.concatenate([np.ones(len(market)), market.capacity.astype(np.float64)])
    lp.integrality_ = [highspy.HighsVarType.kInteger] * columns
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.arange(columns + 1, dtype=np.int32) * 2
    rows = np.stack([jobs, len(market) + market.type[options]], axis=1)
    lp.a_matrix_.index_ = rows.ravel().astype(np.int32)
    factors = np.stack([np.ones(columns), market.gpus[options].astype(np.float64)], axis=1)
    lp.a_matrix_.value_ = factors.ravel()
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("mip_rel_gap", relative_gap)
    solver.setOptionValue("time_limit", time_limit_seconds)
    solver.passModel(lp)
    solver.run()
    taken = np.flatnonzero(np.array(solver.getSolution().col_value) > 0.5)
    choice = none
    choice[jobs[taken]] = options[taken]
    return IlpResult(choice, market.worth(choice), -float(solver.getInfo().mip_dual_bound))
