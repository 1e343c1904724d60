"""How far whole gangs and whole rounds move a plan away from the divisible market.

    python bench/divisibility.py [--seeds 5]

The divisible equilibrium is envy-free and proportional. This prints, for gangs of growing
size and growing numbers of jobs per GPU, the envy and the shortfall below the proportional
share of the equilibrium itself (which knows no gang larger than its window, so a job that
cannot use its share shows there too) and of the planner's whole rounds. Equal budgets;
64 GPUs, 20 rounds.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from shockwave.model.view import Floats
from shockwave.plan.instances import GANGS, random_instance
from shockwave.plan.planner import solve
from shockwave.plan.program import Program
from shockwave.plan.relaxation import divisible_rounds, fairness_loss

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
    gangs: tuple[tuple[int, ...], tuple[float, ...]], jobs_per_gpu: float, seed: int
) -> tuple[Floats, Floats]:
    """[envy mean, envy worst, shortfall mean, shortfall worst] divisible, and whole."""
    jobs = round(GPUS * jobs_per_gpu)
    instance = random_instance(jobs, GPUS, np.random.default_rng(seed), gangs=gangs)
    fractions = instance.fractions[0]
    gain = fractions - fractions[:, :1]
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
        *("gangs", "jobs per GPU", "rounds of a fair share"),
        *("envy, divisible", "envy, whole", "shortfall, divisible", "shortfall, whole"),
    ):
        table.add_column(column, justify="right")
    for name, gangs in MIXES.items():
        for jobs_per_gpu in JOBS_PER_GPU:
            runs = [losses(gangs, jobs_per_gpu, seed) for seed in range(arguments.seeds)]
            mean = [np.mean([run[kind] for run in runs], axis=0) for kind in (0, 1)]
            size = float(np.dot(*gangs))
            cells = [
                f"{mean[kind][at]:.1%} ({mean[kind][at + 1]:.1%})"
                for at in (0, 2)
                for kind in (0, 1)
            ]
            table.add_row(name, f"{jobs_per_gpu:g}", f"{20 / jobs_per_gpu / size:.1f}", *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
