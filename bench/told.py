"""Is what people are told so? Starts and finishes foretold, against what came, in all families.

    python bench/told.py --seeds 11,12                       # the default policy, all families
    python bench/told.py --family batch --policy shockwave-nsdi23
    python bench/told.py --family batch --knowing            # what nobody could do better
    python bench/told.py --errors --seeds 1,2                # the table of plan/usual_errors.py

Every 13th round all that would be told is kept. Printed are the share of the truth within the
intervals called 80 %, their mean width, and the median error of the start over the median wait;
means over the seeds. With ``--knowing`` the default policy decides as ever, but what it tells
comes from the true remaining times of all jobs that are there: what is then still wrong is due to
jobs that nobody has seen yet, and to decisions that change with them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np

from shockwave.executors.simulation import TraceTruth
from shockwave.measure.told import ToldFigures, Truth, WhatIsTold
from shockwave.measure.workloads import simulate_workload
from shockwave.model.events import Event
from shockwave.model.view import Floats, Ints, View
from shockwave.plan.futures import Futures
from shockwave.plan.promises import Told, units_of
from shockwave.plan.telling import TELL_EVERY, Foretold, waiting
from shockwave.policies import registry as policies
from shockwave.policies.base import Decision, Policy
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


_UNUSUAL = ("failures", "lies-tenth", "lies-tenfold")
_ENOUGH = 20  # cases of a workload


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


class _Errors:
    """An observer that keeps what is foretold before any correction, and what came of it."""

    def __init__(self) -> None:
        self._rounds = 0
        self._told: list[tuple[View, Ints, Foretold]] = []

    def __call__(self, view: View, forecast: Forecast, decision: Decision) -> None:
        self._rounds += not view.between_rounds
        if view.between_rounds or self._rounds % TELL_EVERY:
            return
        words = decision.explanation
        if words is not None and words.starts is not None and words.finishes is not None:
            samples = Foretold.of_samples(words.starts - view.now, words.finishes - view.now)
            self._told.append((view, decision.run, samples))

    def parts(self, events: Sequence[Event]) -> dict[Told, list[Floats]]:
        """By what was told: errors of its low end, its middle and its high end."""
        truth = Truth(events)
        found: dict[Told, list[list[Floats]]] = {about: [[], [], []] for about in Told}
        for view, run, told in self._told:
            waits = waiting(view, run)
            for about, who, intervals, when in (
                (Told.START, waits, told.start, truth.start_after),
                (Told.FINISH_WAITING, waits, told.finish, truth.finish_after),
                (Told.FINISH_RUNNING, ~waits, told.finish, truth.finish_after),
            ):
                came = np.array([when(handle, view.now) for handle in view.handle[who].tolist()])
                known, some = ~np.isnan(came), intervals.of(who)
                units = units_of(some, view.round_seconds)
                for kept, part, unit in zip(found[about], some.parts, units, strict=True):
                    kept.append(((came - view.now - part) / unit)[known])
        return {about: [np.concatenate(part) for part in parts] for about, parts in found.items()}


def usual_errors(seeds: list[int]) -> None:
    """Prints the middles of the tenths of all errors; every workload counts as much as another."""
    levels, fine = (np.arange(10) + 0.5) / 10, (np.arange(40) + 0.5) / 40
    pooled: dict[Told, list[list[Floats]]] = {about: [[], [], []] for about in Told}
    for name, family in FAMILIES.items():
        if name in _UNUSUAL or name.startswith("age-"):  # those are like any other
            continue
        for seed in seeds:
            errors, policy = _Errors(), Shockwave()
            predictor = predictors.create(policy.predictor, truth=None)
            events = simulate_workload(family.workload(seed), policy, predictor, [errors])
            for about, parts in errors.parts(events).items():
                if len(parts[0]) >= _ENOUGH:
                    for kept, part in zip(pooled[about], parts, strict=True):
                        kept.append(np.quantile(part, fine))
    for about, parts in pooled.items():
        print(about.name)
        for part in parts:
            print("   ", np.round(np.quantile(np.concatenate(part), levels), 2).tolist())


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
    parser.add_argument("--errors", action="store_true")
    given = parser.parse_args()
    if given.errors:
        usual_errors([int(seed) for seed in given.seeds.split(",")])
        return
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
