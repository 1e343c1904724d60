"""Gavel's two steps where GPUs have types: shares of time on each type, and rounds that follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shockwave.model.options import Options
from shockwave.model.view import Floats, Ints, View
from shockwave.plan.window.milp import import_highs
from shockwave.policies.base import Decision

# [job, type] shares, from [job, type] speeds, [job] GPUs, [job] weights and [type] GPUs.
Shares = Callable[[Floats, Ints, Floats, Ints], Floats]


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
    return _solved(highspy, lp, jobs, types)


def max_sum_shares(speed: Floats, gpus: Ints, weight: Floats, capacity: Ints) -> Floats:
    """[job, type] shares ``x`` that maximise the sum of throughputs, within the same limits.

    Weights play no role. Raises :class:`InputError` where highspy is not installed.
    """
    highspy = import_highs()
    jobs, types = speed.shape
    columns = jobs * types
    row_of_job = np.repeat(np.arange(jobs), types)
    kind = np.tile(np.arange(types), jobs)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = columns, jobs + types
    lp.col_cost_ = -speed.ravel()
    lp.col_lower_ = np.zeros(columns)
    lp.col_upper_ = (speed.ravel() > 0).astype(np.float64)
    lp.row_lower_ = np.full(jobs + types, -highspy.kHighsInf)
    lp.row_upper_ = np.concatenate([np.ones(jobs), capacity.astype(np.float64)])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = (np.arange(columns + 1) * 2).astype(np.int32)
    lp.a_matrix_.index_ = np.stack([row_of_job, jobs + kind], axis=1).ravel().astype(np.int32)
    factors = np.stack([np.ones(columns), gpus[row_of_job].astype(np.float64)], axis=1)
    lp.a_matrix_.value_ = factors.ravel()
    return _solved(highspy, lp, jobs, types)


def _solved(highspy: Any, lp: Any, jobs: int, types: int) -> Floats:
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.passModel(lp)
    solver.run()
    found = np.array(solver.getSolution().col_value)[: jobs * types]
    return np.asarray(np.clip(found.reshape(jobs, types), 0.0, 1.0))


class TypedRounds:
    """A job takes its request, and spends its time on the types as its shares say.

    Speeds are those of offline profiles, as published. Of all (job, type) the one that is furthest
    behind its share goes first: ``x / (time on the type / time since it came)``.
    """

    def __init__(self, shares: Shares) -> None:
        self._shares_of = shares
        self._handle: Ints = np.empty(0, dtype=np.int64)
        self._received: Floats = np.empty((0, 0))  # [job, type] seconds
        self._shares: Floats | None = None

    def decide(self, view: View, options: Options) -> Decision:
        types = len(options.types)
        self._account(view, options)
        option = request_by_type(options)
        if self._shares is None or self._shares.shape != option.shape or view.changed:
            speed = _speeds(options, option)
            self._shares = self._shares_of(speed, view.gpus, view.weight, options.type_gpus)
        received = self._received + view.round_seconds / 2
        there = (view.elapsed + view.round_seconds)[:, None]
        priority = np.where(option >= 0, self._shares * there / received, -np.inf)
        left = options.type_gpus.copy()
        run: list[int] = []
        chosen: list[int] = []
        stays = np.flatnonzero(view.must_stay)
        for job in stays.tolist():
            run.append(job)
            chosen.append(int(options.held[job]))
            left[options.type[options.held[job]]] -= options.gpus[options.held[job]]
        taken = set(run)
        for cell in np.argsort(-priority, axis=None, kind="stable").tolist():
            job, kind = divmod(cell, types)
            if job in taken or option[job, kind] < 0 or view.gpus[job] > left[kind]:
                continue
            taken.add(job)
            run.append(job)
            chosen.append(int(option[job, kind]))
            left[kind] -= view.gpus[job]
        order = np.array(run, dtype=np.int64)
        return Decision(
            order, options=np.array(chosen, dtype=np.int64), priority=priority.max(axis=1)
        )

    def _account(self, view: View, options: Options) -> None:
        """What was held until now counts as received for the round that has passed."""
        received = np.zeros((len(view), len(options.types)))
        known = np.isin(view.handle, self._handle, assume_unique=True)
        old = np.searchsorted(self._handle, view.handle[known])
        received[known, : self._received.shape[1]] = self._received[old]
        runs = np.flatnonzero(options.held >= 0)
        if not view.between_rounds:
            received[runs, options.type[options.held[runs]]] += view.round_seconds
        self._handle, self._received = view.handle, received


def request_by_type(options: Options) -> Ints:
    """[job, type] the option that is the job's request there, -1 where there is none."""
    found = np.full((len(options.held), len(options.types)), -1, dtype=np.int64)
    job, option = np.nonzero(options.requested)
    found[job, options.type[option]] = option
    return found


def _speeds(options: Options, option: Ints) -> Floats:
    """[job, type] epochs per second with the request: profiled, else measured, else all alike."""
    seconds = np.where(np.isnan(options.profiled), options.measured, options.profiled)
    rows = np.arange(len(option))[:, None]
    at = np.where(option >= 0, seconds[rows, np.maximum(option, 0)], np.nan)
    known = np.isnan(at).sum(axis=1) == (option < 0).sum(axis=1)
    speed = np.where(known[:, None], 1.0 / np.where(np.isnan(at), np.inf, at), 1.0)
    return np.where(option >= 0, speed, 0.0)
