"""Gavel's linear program over GPU types: what part of its time a job spends on each."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Floats, Ints
from shockwave.plan.window.milp import import_highs


def max_min_shares(speed: Floats, gpus: Ints, weight: Floats, capacity: Ints) -> Floats:
    """[job, type] shares ``x`` that maximise the smallest weighted throughput.

        maximise    min_j  gpus_j / weight_j * sum_t speed_jt x_jt / proportional_j
        subject to  sum_t x_jt <= 1,   sum_j gpus_j x_jt <= capacity_t

    ``proportional_j`` is the throughput of an equal share of every type; ``speed`` is 0 where a
    job cannot run. Raises :class:`InputError` where highspy is not installed.
    """
    highspy = import_highs()
    jobs, types = speed.shape
    proportional = (speed * capacity).sum(axis=1) / max(int(capacity.sum()), 1)
    scale = gpus / weight / np.maximum(proportional, 1e-12)
    columns = jobs * types
    row_of_job = np.repeat(np.arange(jobs), types)
    kind = np.tile(np.arange(types), jobs)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = columns + 1, 2 * jobs + types
    lp.col_cost_ = np.append(np.zeros(columns), -1.0)  # HiGHS minimises
    lp.col_lower_ = np.zeros(columns + 1)
    lp.col_upper_ = np.append((speed.ravel() > 0).astype(np.float64), highspy.kHighsInf)
    lp.row_lower_ = np.concatenate([np.zeros(jobs), np.full(jobs + types, -highspy.kHighsInf)])
    lp.row_upper_ = np.concatenate(
        [np.full(jobs, highspy.kHighsInf), np.ones(jobs), capacity.astype(np.float64)]
    )
    rows = np.stack([row_of_job, jobs + row_of_job, 2 * jobs + kind], axis=1)
    factors = np.stack(
        [(scale[:, None] * speed).ravel(), np.ones(columns), gpus[row_of_job].astype(np.float64)],
        axis=1,
    )
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.append(np.arange(columns + 1) * 3, 3 * columns + jobs).astype(np.int32)
    lp.a_matrix_.index_ = np.append(rows.ravel(), np.arange(jobs)).astype(np.int32)
    lp.a_matrix_.value_ = np.append(factors.ravel(), np.full(jobs, -1.0))
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.passModel(lp)
    solver.run()
    found = np.array(solver.getSolution().col_value)[:columns]
    return np.asarray(np.clip(found.reshape(jobs, types), 0.0, 1.0))
