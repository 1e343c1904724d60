"""How far whole gangs and whole rounds move a plan away from the divisible market.

    python bench/divisibility.py [--seeds 5]

Prints, for gangs of growing size and growing numbers of jobs per GPU, the envy and the
shortfall below the proportional share, of the divisible optimum and of the planner's whole
rounds. Equal budgets, 64 GPUs, 20 rounds. Two kinds of progress:

* ``linear``: a round is worth the same whenever it comes. The divisible optimum is the
  equilibrium of a Fisher market: no envy, no shortfall. What whole rounds show is the price
  of gangs and rounds alone.
* ``volatile``: restarts and regimes as in real jobs. Utilities are then no longer
  proportional to the rounds, and already the divisible optimum gives more to jobs that turn
  rounds into progress well; compare the columns, not with zero.
"""

from __future__ import annotations

import argparse

import numpy as np
from instances import GANGS, random_instance
from relaxation import divisible_rounds, fairness_loss
from rich.console import Console
from rich.table import Table

from shockwave.model.view import Floats
from shockwave.plan.window.planner import solve
from shockwave.plan.window.program import Program

GPUS = 64
MIXES: dict[str, tuple[tuple[int, ...], tuple[float, ...]]] = {
    "1": ((1,), (1.0,)),
    "2": ((2,), (1.0,)),
    "4": ((4,), (1.0,)),
    "8": ((8,), (1.0,)),
    "1/2/4/8": GANGS,
}
JOBS_PER_GPU = (1.0, 2.0, 4.0, 8.0)


def losses(
    gangs: tuple[tuple[int, ...], tuple[float, ...]], jobs_per_gpu: float, seed: int, linear: bool
) -> tuple[Floats, Floats]:
    """[envy mean, envy worst, shortfall mean, shortfall worst] divisible, and whole."""
    jobs = round(GPUS * jobs_per_gpu)
    instance = random_instance(jobs, GPUS, np.random.default_rng(seed), gangs=gangs)
    fractions = instance.fractions[0]
    gain = fractions - fractions[:, :1]
    if linear:
        gain = np.arange(instance.window + 1.0)[None].repeat(jobs, axis=0)
    capacity = float(GPUS * instance.window)
    # A job without any round counts as one with a tenth of a round: worth avoiding, finite.
    nothing = np.maximum(gain[:, 1], 1e-9) * 0.1
    values = np.log(np.maximum(gain, nothing[:, None]))
    plan = solve(Program.from_values(values, instance.gpus, GPUS), running=instance.running)
    result = []
    for rounds in (
        divisible_rounds(gain, instance.gpus, capacity),
        plan.rounds.astype(np.float64),
    ):
        loss = fairness_loss(gain, instance.gpus, rounds, capacity)
        result.append(
            np.array(
                [loss.envy.mean(), loss.envy.max(), loss.shortfall.mean(), loss.shortfall.max()]
            )
        )
    return result[0], result[1]


def main() -> None:
    parser = argparse.ArgumentParser(description="Whole gangs against the divisible market.")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    table = Table(title="Mean (worst) envy and shortfall, relative to the proportional share")
    for column in (
        *("progress", "gangs", "jobs per GPU", "rounds of a fair share"),
        *("envy, divisible", "envy, whole", "shortfall, divisible", "shortfall, whole"),
    ):
        table.add_column(column, justify="right")
    rows = [("linear", name) for name in MIXES] + [("volatile", "1/2/4/8")]
    for progress, name in rows:
        gangs = MIXES[name]
        for jobs_per_gpu in JOBS_PER_GPU:
            runs = [
                losses(gangs, jobs_per_gpu, seed, progress == "linear")
                for seed in range(arguments.seeds)
            ]
            mean = [np.mean([run[kind] for run in runs], axis=0) for kind in (0, 1)]
            share = 20 / jobs_per_gpu / float(np.dot(*gangs))
            cells = [
                f"{mean[kind][at]:.1%} ({mean[kind][at + 1]:.1%})"
                for at in (0, 2)
                for kind in (0, 1)
            ]
            table.add_row(progress, name, f"{jobs_per_gpu:g}", f"{share:.1f}", *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
