"""The divisible market: what theory promises, and how far whole gangs are from it.

* :func:`fisher_equilibrium` solves the linear Fisher market (Eisenberg-Gale) over goods
  that may be GPU-rounds at different times: the volatile Fisher market with divisible goods.
* :func:`divisible_rounds` solves the window with divisible rounds and the jobs' own,
  concave progress.
* :func:`fairness_loss` measures envy and shortfall of any plan, whole or divisible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.errors import ShockwaveError
from shockwave.model.view import Floats, Ints


@dataclass(frozen=True)
class Equilibrium:
    """An allocation with prices that clear the market.

    ``gap`` bounds how far ``sum_j B_j log U_j`` is from the optimum, in units of the sum of
    the budgets: by duality it is the mean, weighted by budget, of
    ``log( best utility that B_j buys at these prices / U_j )``.
    """

    allocation: Floats  # [buyer, good]
    price: Floats  # [good] per unit
    utility: Floats  # [buyer]
    gap: float


def fisher_equilibrium(
    utility: Floats,
    budget: Floats,
    supply: Floats,
    *,
    tolerance: float = 1e-6,
    steps: int = 200_000,
) -> Equilibrium:
    """The linear Fisher market by proportional response.

    Every buyer splits its budget over the goods in proportion to the utility that each
    good gave it last time; a good's price is what is bid for it, and it is divided in
    proportion to the bids. Budgets are spent and goods sold at every step, and welfare
    climbs to that of the equilibrium (the dynamics are mirror descent on a convex program).

    Args:
        utility: [buyer, good] per unit of the good; every buyer wants something.
        budget: [buyer] positive.
        supply: [good] positive.
        tolerance: stop at this :attr:`Equilibrium.gap`.

    Raises:
        ShockwaveError: where ``steps`` do not suffice.
    """
    wanted = utility.any(axis=0)
    per_good = utility * supply  # utility of the whole supply of a good
    share = per_good / per_good.sum(axis=1, keepdims=True)
    bid = budget[:, None] * share
    gap = np.inf
    for step in range(steps):
        spent = bid.sum(axis=0)
        part = bid / np.where(wanted, spent, 1.0)  # share of each good
        gains = per_good * part
        total = gains.sum(axis=1, keepdims=True)
        if step % 20 == 0:
            per_money = np.where(wanted, per_good / np.where(wanted, spent, 1.0), 0.0)
            best = budget * per_money.max(axis=1)
            gap = float(budget @ np.log(best / total[:, 0]) / budget.sum())
            if gap <= tolerance:
                return Equilibrium(part * supply, spent / supply, total[:, 0], max(gap, 0.0))
        bid = budget[:, None] * (gains / total)
    raise ShockwaveError(
        f"no equilibrium within {steps} steps (gap {gap:.2g}). Raise the tolerance or steps."
    )


def envy(utility: Floats, allocation: Floats, budget: Floats) -> Floats:
    """[buyer] how much better another's bundle, scaled to one's own budget, would be.

    ``max_k U_j(x_k * B_j / B_k) / U_j(x_j) - 1``, zero where nobody is envied.
    """
    per_money = (allocation / budget[:, None]) @ utility.T  # [bundle, judge]
    best = per_money.max(axis=0) * budget
    own = (utility * allocation).sum(axis=1)
    return np.asarray(np.maximum(best / own - 1.0, 0.0))


def proportional_shortfall(
    utility: Floats, allocation: Floats, budget: Floats, supply: Floats
) -> Floats:
    """[buyer] ``1 - U_j(x_j) / U_j(proportional share of everything)``, at least zero."""
    own = (utility * allocation).sum(axis=1)
    share = (utility @ supply) * budget / budget.sum()
    return np.asarray(np.maximum(1.0 - own / share, 0.0))


def divisible_rounds(
    gain: Floats, gpus: Ints, gpu_rounds: float, *, steps_per_round: int = 100
) -> Floats:
    """[job] fractional rounds that maximise ``sum_j log gain_j(y_j)``.

    At a price every job takes the fraction that is best for it (on a fine grid of the
    interpolated ``gain[job, window + 1]``); bisection finds the price that clears the
    market ``sum_j gpus_j y_j <= gpu_rounds``.
    """
    window = gain.shape[1] - 1
    grid = np.linspace(0.0, window, window * steps_per_round + 1)[1:]
    table = np.stack([np.interp(grid, np.arange(window + 1), row) for row in gain])
    logs = np.log(np.maximum(table, 1e-12))

    def demand(price: float) -> Floats:
        return np.asarray(grid[(logs - price * gpus[:, None] * grid).argmax(axis=1)])

    low, high = 0.0, float(len(gpus)) * steps_per_round
    if float(gpus @ demand(low)) <= gpu_rounds:
        return demand(low)
    for _ in range(80):
        middle = 0.5 * (low + high)
        if float(gpus @ demand(middle)) > gpu_rounds:
            low = middle
        else:
            high = middle
    return demand(high)


@dataclass(frozen=True)
class FairnessLoss:
    """How far a plan is from envy-free and proportional, per job."""

    envy: Floats  # what another's GPU-rounds would gain, relative to the proportional share
    shortfall: Floats  # 1 - gain / gain of the proportional share


def fairness_loss(gain: Floats, gpus: Ints, rounds: Floats, gpu_rounds: float) -> FairnessLoss:
    """Envy and shortfall of ``rounds`` per job, with equal budgets and progress ``gain[j, y]``.

    ``rounds`` may be whole or fractional. A job with another's GPU-rounds could run
    ``gpus_k y_k / gpus_j`` rounds, at most the window. Envy is
    ``(gain_j with the best other bundle - gain_j) / gain_j of the proportional share``:
    finite also for a job that has nothing.
    """
    jobs, width = gain.shape
    counts = np.arange(width)
    bundle = gpus * rounds
    best = float(bundle.max(initial=0.0))
    fair = gpu_rounds / max(jobs, 1)
    envies, shortfalls = np.zeros(jobs), np.zeros(jobs)
    for job in range(jobs):
        own, other, share = np.interp(
            np.minimum(np.array([bundle[job], best, fair]) / gpus[job], width - 1),
            counts,
            gain[job],
        )
        scale = max(share, 1e-12)
        envies[job] = max(other - own, 0.0) / scale
        shortfalls[job] = max(1.0 - own / scale, 0.0)
    return FairnessLoss(envies, shortfalls)
