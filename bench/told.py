"""Is what people are told so? Starts and finishes foretold, against what came, in all families.

    python bench/told.py --seeds 11,12                       # the default policy, all families
    python bench/told.py --family batch --policy shockwave-nsdi23
    python bench/told.py --family batch --knowing            # what nobody could do better

Every 13th round all that would be told is kept. Printed are the share of the truth within the
intervals called 80 %, their mean width, and the median error of the start over the median wait;
means over the seeds. With ``--knowing`` the default policy decides as ever, but what it tells
comes from the true remaining times of all jobs that are there: what is then still wrong is due to
jobs that nobody has seen yet, and to decisions that change with them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from shockwave.executors.simulation import TraceTruth
from shockwave.measure.told import ToldFigures, WhatIsTold
from shockwave.measure.workloads import simulate_workload
from shockwave.model.view import Floats, Ints, View
from shockwave.plan.futures import Futures
from shockwave.policies import registry as policies
from shockwave.policies.base import Policy
from shockwave.policies.shockwave import Shockwave
from shockwave.predict import registry as predictors
from shockwave.predict.base import Forecast
from shockwave.predict.oracle import Oracle
from shockwave.traces.families import FAMILIES

COLUMNS = (
    ("starts in", "start", "inside"),
    ("finishes of waiting in", "finish_waiting", "inside"),
    ("of running in", "finish_running", "inside"),
    ("widths: starts", "start", "width_seconds"),
    ("waiting", "finish_waiting", "width_seconds"),
    ("running", "finish_running", "width_seconds"),
)


class Knowing(Shockwave):
    """Tells what follows from the true remaining times of the jobs that are there."""

    def __init__(self, oracle: Oracle) -> None:
        super().__init__()
        self._oracle = oracle

    def _foretell(
        self, view: View, forecast: Forecast, futures: Futures, run: Ints
    ) -> tuple[Floats, Floats]:
        return super()._foretell(view, self._oracle.forecast(view), futures, run)


def measure(family: str, seed: int, policy_name: str, *, knowing: bool) -> ToldFigures:
    workload = FAMILIES[family].workload(seed)
    truth = TraceTruth(workload.jobs)
    policy: Policy = Knowing(Oracle(truth)) if knowing else policies.create(policy_name, seed=seed)
    predictor = predictors.create(policy.predictor, truth=truth)
    told = WhatIsTold()
    return told.figures(simulate_workload(workload, policy, predictor, [told]))


def cells(runs: list[ToldFigures]) -> Iterator[str]:
    """One row of the table, of all seeds of a family."""

    def mean(kind: str, name: str) -> float:
        found = [run.get(f"told_{kind}_{name}") for run in runs]
        known = [value for value in found if value is not None]
        return float(np.mean(known)) if known else float("nan")

    for _, kind, name in COLUMNS:
        form = "{:.0%}" if name == "inside" else "{:,.0f} s"
        yield form.format(mean(kind, name))
    error, wait = mean("start", "error_seconds"), mean("start", "truth_seconds")
    yield f"{error:,.0f} of {wait:,.0f} s"
    yield f"{error / wait:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--family", action="append", choices=list(FAMILIES), metavar="NAME")
    parser.add_argument("--policy", default="shockwave", choices=policies.names(), metavar="NAME")
    parser.add_argument("--seeds", default="11,12", help="such as 1,2,3")
    parser.add_argument("--knowing", action="store_true")
    given = parser.parse_args()
    heads = [head for head, _, _ in COLUMNS]
    print("family | " + " | ".join(heads) + " | error of starts | ratio")
    for name in given.family or FAMILIES:
        runs = [
            measure(name, int(seed), given.policy, knowing=given.knowing)
            for seed in given.seeds.split(",")
        ]
        print(f"`{name}` | " + " | ".join(cells(runs)), flush=True)


if __name__ == "__main__":
    main()
