"""Does accuracy hold when a job adapts? Each technique with and without, over some seeds.

python examples/compare.py --epochs 30 --seeds 5
"""

from __future__ import annotations

import argparse
import tempfile
from types import ModuleType

import accordion
import noise_scale
import pruning
import torch
from workload import Outcome

from shockwave.train import session

TECHNIQUES: dict[str, ModuleType] = {
    "accordion": accordion,
    "noise scale": noise_scale,
    "pruning": pruning,
}


def run(technique: str, epochs: int, seed: int, *, adapt: bool) -> Outcome:
    """One training from scratch."""
    with tempfile.TemporaryDirectory() as folder, session(folder, environment={}) as job:
        outcome: Outcome = TECHNIQUES[technique].train(job, epochs, seed, adapt=adapt)
        return outcome


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    row = "{:<12} {:>16} {:>16} {:>8} {:>14} {:>22}"
    print(row.format("technique", "accuracy without", "with", "points", "steps", "parameters"))
    for technique in TECHNIQUES:
        outcomes = {
            adapt: [run(technique, given.epochs, s, adapt=adapt) for s in range(given.seeds)]
            for adapt in (False, True)
        }
        without, adapted = (mean([o.accuracy for o in outcomes[a]]) for a in (False, True))
        steps = [round(mean([o.steps for o in outcomes[a]])) for a in (False, True)]
        sizes = [round(mean([o.parameters for o in outcomes[a]])) for a in (False, True)]
        print(
            row.format(
                technique,
                f"{without:.2%}",
                f"{adapted:.2%}",
                f"{100 * (adapted - without):+.2f}",
                f"{steps[0]} -> {steps[1]}",
                f"{sizes[0]} -> {sizes[1]}",
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
