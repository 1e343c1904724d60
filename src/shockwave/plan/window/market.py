"""The market of a window: budgets, bids and the welfare of every count of rounds.

    V_j(y) = B_j * p_j * E[ log P_j(y) ] / N

with the budget ``B_j``, the fairness weight ``p_j = rho_themis_j ^ k`` and the fraction ``P_j(y)``
of the job's epochs that is done after ``y`` more rounds, over sampled trajectories.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Bools, Floats, Ints
from shockwave.predict.base import Trajectories

PROGRESS_FLOOR = 1e-6  # fraction of epochs below which the log is held: ln 1e-6 = -13.8


@dataclass(frozen=True)
class PiecewiseLog:
    """The log by linear interpolation, as the original program has it.

    >>> log = PiecewiseLog.nsdi23()
    >>> float(log(np.array(1.0))), round(float(log(np.array(0.9))), 4)
    (0.0, -0.1116)
    """

    nodes: Floats
    logs: Floats

    @staticmethod
    def nsdi23() -> PiecewiseLog:
        """Nodes at 0, 0.2, ... 1; zero progress counts as 1e-6."""
        nodes = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
        return PiecewiseLog(nodes, np.log(np.maximum(nodes, PROGRESS_FLOOR)))

    def __call__(self, fraction: Floats) -> Floats:
        return np.interp(fraction, self.nodes, self.logs)


def floored_log(fraction: Floats, floor: float = PROGRESS_FLOOR) -> Floats:
    """The log, finite also where there is no progress."""
    return np.log(np.maximum(fraction, floor))


def productive_seconds(
    window: int, round_seconds: float, restart_seconds: float | Floats, running: Bools
) -> Floats:
    """[job, window + 1] seconds of progress in ``y`` rounds.

    ``y * round - restart``, the restart only where the job is not running now.
    """
    restart = np.where(running, 0.0, restart_seconds)
    leased = np.arange(window + 1) * round_seconds
    return np.asarray(np.maximum(leased[None, :] - restart[:, None], 0.0))


def progress_fractions(
    trajectories: Trajectories, epochs_done: Floats, epochs: Floats, seconds: Floats
) -> Floats:
    """[sample, job, t] fraction of all epochs done after ``seconds[job, t]`` more."""
    done = epochs_done[None, :, None] + trajectories.epochs_within(seconds)
    return np.minimum(done / epochs[None, :, None], 1.0)


def budgets(weight: Floats, tenant: Ints | None = None) -> Floats:
    """[job] budgets of mean one, in proportion to the jobs' weights.

    With ``tenant`` a tenant's budget is the mean weight of its jobs, split evenly among
    them: a tenant does not gain by submitting more jobs.

    >>> budgets(np.ones(3), np.array([0, 0, 1])).tolist()
    [0.75, 0.75, 1.5]
    """
    if not len(weight):
        return weight
    if tenant is None:
        return np.asarray(weight / weight.mean())
    _, position = np.unique(tenant, return_inverse=True)
    jobs = np.bincount(position)
    share = np.bincount(position, weights=weight) / jobs**2
    return np.asarray(share[position] / share[position].mean())


def fairness_weights(
    rho_themis: Floats, exponent: float | Floats, *, lowest: float = 1e-3, highest: float = 1e3
) -> Floats:
    """``p_j = rho_themis_j ^ k``, held between ``lowest`` and ``highest``.

    Computed in logs, so that no exponent overflows on the way. A job about to be wronged
    (rho_themis > 1) bids more; the bounds keep it from drowning all the others.
    """
    log_rho_themis = np.log(np.maximum(rho_themis, 1e-300))
    return np.exp(np.clip(exponent * log_rho_themis, np.log(lowest), np.log(highest)))


def window_values(
    fractions: Floats,
    bid: Floats,
    *,
    log: PiecewiseLog | None = None,
    floor: float = PROGRESS_FLOOR,
) -> Floats:
    """[job, window + 1] ``bid_j * E[log P_j(y)] / N``.

    ``fractions`` are ``[job, window + 1]``, or ``[sample, job, window + 1]`` to take the
    expectation over; ``bid = B_j * p_j``. ``log`` replaces the exact log.
    """
    logs = floored_log(fractions, floor) if log is None else log(fractions)
    if logs.ndim == 3:
        logs = logs.mean(axis=0)
    return logs * (bid / max(len(bid), 1))[:, None]
