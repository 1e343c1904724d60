"""What it brings to start jobs as soon as GPUs are free, instead of at the next round.

    python bench/starts.py [--policies fifo,srtf] [--quick]

Simulates every policy with both kinds of starts on the paper's traces, where they lie beside
the checkout, and on ten generated ones, and prints a table in Markdown. The results go to
out/starts.json as they come, and are not computed again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from shockwave.executors.simulation import TraceTruth, simulate
from shockwave.measure import fold_history, summarize
from shockwave.model.cluster import Cluster
from shockwave.model.events import Starts
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors
from shockwave.traces import load

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "traces"
OUT = ROOT / "out" / "starts.json"
RECIPE = "generated:jobs=60,span_hours=1"
GENERATED = 10
Figures = dict[str, float]


def workloads(quick: bool) -> dict[str, list[tuple[str, int, int]]]:
    """Traces by the name of their group, each with its GPUs and a seed."""
    found = {}
    for name, gpus in (("paper-32gpu-120jobs", 32), ("paper-128gpu-460jobs", 128)):
        path = SHARED / f"{name}.jsonl"
        if path.exists() and not (quick and gpus == 128):
            found[f"paper, {gpus} GPUs"] = [(str(path), gpus, 0)]
    found["generated, 16 GPUs"] = [(RECIPE, 16, seed) for seed in range(GENERATED)]
    return found


def measure(policy: str, trace: str, gpus: int, seed: int, starts: Starts) -> Figures:
    jobs = load(trace, seed=seed)
    chosen = policies.create(policy)
    predictor = predictors.create(chosen.predictor, truth=TraceTruth(jobs))
    events = simulate(jobs, Cluster.uniform(gpus), chosen, predictor, starts=starts)
    summary = summarize(fold_history(events))
    names = ("mean_jct_seconds", "makespan_seconds")
    return {name: float(summary[name]) for name in names}


class Results:
    """Figures by their setting, kept in a file from one run to the next."""

    def __init__(self) -> None:
        self._figures: dict[str, Figures] = json.loads(OUT.read_text()) if OUT.exists() else {}

    def of(self, policy: str, trace: str, gpus: int, seed: int, starts: Starts) -> Figures:
        key = "|".join([policy, Path(trace).name, str(gpus), str(seed), starts])
        if key not in self._figures:
            self._figures[key] = measure(policy, trace, gpus, seed, starts)
            OUT.parent.mkdir(exist_ok=True)
            OUT.write_text(json.dumps(self._figures, indent=1) + "\n")
        return self._figures[key]


def table(results: Results, names: list[str], quick: bool) -> Iterator[str]:
    yield "| Workload | Policy | Mean JCT, rounds | immediate | | Makespan, rounds | immediate | |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for group, runs in workloads(quick).items():
        for policy in names:
            cells = []
            for figure in ("mean_jct_seconds", "makespan_seconds"):
                rounds, immediate = (
                    float(np.mean([results.of(policy, *run, starts)[figure] for run in runs]))
                    for starts in (Starts.ROUNDS, Starts.IMMEDIATE)
                )
                change = 100 * (immediate / rounds - 1)
                cells += [f"{rounds:,.0f} s", f"{immediate:,.0f} s", f"{change:+.1f} %"]
            yield f"| {group} | {policy} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", default=",".join(policies.names()))
    parser.add_argument("--quick", action="store_true", help="without the largest trace")
    given = parser.parse_args()
    for line in table(Results(), given.policies.split(","), given.quick):
        print(line, flush=True)


if __name__ == "__main__":
    main()
