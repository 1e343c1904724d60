"""How the default policy bears wrong predictions, wrong profiles, bursts and lies.

    python bench/robustness.py [--seeds 3]

A workload like the paper's, 120 jobs on 32 GPUs, undisturbed and disturbed in seven ways,
under the default policy and two others: ``srtf``, which trusts predictions as much, and
``gavel``, which needs none. Prints a table and writes ``out/robustness.json`` and
``out/robustness.svg``. Fairness is that of honest jobs; a job that lies about its epochs
has no claim to any.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from shockwave.executors.simulation import TraceTruth, simulate
from shockwave.measure import fold_history, summarize
from shockwave.measure.charts import Axis, Canvas, Margins, standalone
from shockwave.measure.charts.palette import policy_class
from shockwave.measure.fairness import finish_time_fairness
from shockwave.model.cluster import Cluster
from shockwave.model.job import TraceJob
from shockwave.policies import registry as policies
from shockwave.predict import registry as predictors
from shockwave.predict.base import Predictor
from shockwave.testing.noise import NoisyPredictor
from shockwave.traces import load
from shockwave.traces.disturb import bursts, is_honest, lying_epochs, wrong_profiles

TRACE, GPUS = "generated:jobs=120,span_hours=1.4", 32
POLICIES = ("shockwave", "srtf", "gavel")
FAIRNESS = ("static", "themis", "egalitarian")

Disturb = Callable[[list[TraceJob], np.random.Generator], list[TraceJob]]


@dataclass(frozen=True)
class Scenario:
    """What is wrong: with the predictions, or with the jobs."""

    name: str
    spread: float = 0.0
    disturb: Disturb | None = None


SCENARIOS = (
    Scenario("undisturbed"),
    Scenario("predictions ±10 %", 0.1),
    Scenario("predictions ±30 %", 0.3),
    Scenario("predictions ±50 %", 0.5),
    Scenario("epoch times ±30 %", 0.0, lambda jobs, rng: wrong_profiles(jobs, 0.3, rng)),
    Scenario("all in 6 bursts", 0.0, lambda jobs, rng: bursts(jobs, 6, rng)),
    Scenario("10 % declare a fifth", 0.0, lambda jobs, rng: lying_epochs(jobs, 0.1, 0.2, rng)),
    Scenario("10 % declare 5 times", 0.0, lambda jobs, rng: lying_epochs(jobs, 0.1, 5.0, rng)),
)


def run(scenario: Scenario, policy_name: str, seed: int) -> dict[str, Any]:
    """The figures of one simulation."""
    jobs = load(TRACE, seed=seed)
    if scenario.disturb is not None:
        jobs = scenario.disturb(jobs, np.random.default_rng(seed))
    cluster = Cluster.uniform(GPUS)
    policy = policies.create(policy_name, seed=0)
    predictor: Predictor = predictors.create(policy.predictor)
    if scenario.spread:
        predictor = NoisyPredictor(predictor, scenario.spread, seed)
    history = fold_history(simulate(jobs, cluster, policy, predictor))
    summary = summarize(history)
    best = predictors.create("oracle", truth=TraceTruth(jobs))
    clairvoyant = fold_history(
        simulate(jobs, cluster, policies.create("srtf-oracle", seed=0), best)
    )
    honest_ids = {job.spec.id for job in jobs if is_honest(job)}
    honest = np.array([name in honest_ids for name in history.jobs.id])
    figures: dict[str, Any] = {
        "scenario": scenario.name,
        "policy": policy_name,
        "seed": seed,
        "finished": summary["finished_jobs"],
        "makespan": summary["makespan_seconds"] / summary["makespan_lower_bound_seconds"],
        "jct": float(history.jobs.jct.mean() / clairvoyant.jobs.jct.mean()),
    }
    for definition in FAIRNESS:
        rho = finish_time_fairness(history, definition)
        figures[f"worst_{definition}"] = float(np.nanmax(rho))
        figures[f"p99_{definition}"] = float(np.nanpercentile(rho, 99))
        figures[f"worst_honest_{definition}"] = float(np.nanmax(rho[honest]))
    return figures


def grouped(runs: Sequence[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Runs by scenario and policy, in the order of both."""
    keys = [(scenario.name, policy) for scenario in SCENARIOS for policy in POLICIES]
    return {
        key: [entry for entry in runs if (entry["scenario"], entry["policy"]) == key]
        for key in keys
    }


def show(console: Console, runs: Sequence[dict[str, Any]]) -> None:
    table = Table(title=f"{TRACE} on {GPUS} GPUs: means over seeds, worst cases over all seeds")
    headings = ["scenario", "policy", "makespan / bound", "JCT ratio"]
    headings += [f"{name}: worst / p99 / honest" for name in FAIRNESS]
    for heading in headings:
        table.add_column(heading, justify="left" if heading in headings[:2] else "right")
    for (scenario, policy), entries in grouped(runs).items():
        cells = [f"{np.mean([entry[key] for entry in entries]):.3f}" for key in ("makespan", "jct")]
        for definition in FAIRNESS:
            worst = max(entry[f"worst_{definition}"] for entry in entries)
            honest = max(entry[f"worst_honest_{definition}"] for entry in entries)
            p99 = float(np.mean([entry[f"p99_{definition}"] for entry in entries]))
            cells.append(f"{worst:.2f} / {p99:.2f} / {honest:.2f}")
        first = scenario if policy == POLICIES[0] else ""
        table.add_row(first, policy, *cells, end_section=policy == POLICIES[-1])
    console.print(table)


# The plot: a row per scenario, a panel per figure, a dot per policy and a line over its seeds.

_PANELS = (
    ("makespan", "makespan / bound"),
    ("jct", "mean JCT / clairvoyant"),
    ("worst_honest_static", "worst static FTF, honest"),
    ("worst_honest_egalitarian", "worst egalitarian FTF, honest"),
)
_LABEL, _PANEL, _GAP, _TOP, _ROW = 160, 200, 28, 84, 44


def svg(runs: Sequence[dict[str, Any]]) -> str:
    """How every figure degrades, as a standalone SVG."""
    groups = grouped(runs)
    width = _LABEL + len(_PANELS) * (_PANEL + _GAP) + 8
    panels = [
        _panel(groups, key, title, _LABEL + number * (_PANEL + _GAP), width)
        for number, (key, title) in enumerate(_PANELS)
    ]
    title = "What disturbances cost"
    frame = Canvas(title, Axis(0, 1, ()), Axis(0, 1, ()), width, _height(), Margins(0, 0, 0, 0))
    frame.text(16, 26, title, "start", "title")
    for number, policy in enumerate(POLICIES):
        x = _LABEL + 100 * number + 70
        frame.dot(x, 21, policy_class(number), policy, 5)
        frame.text(x + 10, 25, policy, "start")
    said = "dot: mean of the seeds, line: their range; left is better"
    frame.text(width - 12, 25, said, "end")
    for row, scenario in enumerate(SCENARIOS):
        y = _TOP + _ROW * row
        if row % 2 == 0:
            frame.rectangle(8, y, width - 16, _ROW, "band")
        frame.text(16, y + _ROW / 2 + 4, scenario.name, "start")
    return standalone(title, frame, *panels)


def _height() -> float:
    return _TOP + _ROW * len(SCENARIOS) + 34


def _panel(
    groups: dict[tuple[str, str], list[dict[str, Any]]],
    key: str,
    title: str,
    left: float,
    width: float,
) -> Canvas:
    values = [entry[key] for entries in groups.values() for entry in entries]
    step = _tick_step(max(values) - min(1.0, *values))
    low = float(np.floor(min(1.0, *values) / step + 1e-9) * step)
    high = float(np.ceil(max(values) / step - 1e-9) * step)
    ticks = np.arange(low, high + step / 2, step).tolist()
    rows = Axis(len(SCENARIOS), 0, ())
    margins = Margins(left, width - left - _PANEL, _TOP, 34)
    canvas = Canvas(title, Axis(low, high, ticks), rows, width, _height(), margins)
    canvas.draw_axes(vertical_grid=True)
    canvas.curve([(1.0, 0.0), (1.0, len(SCENARIOS))], "guide")
    canvas.text(left, _TOP - 28, title, "start", "title")
    for row, scenario in enumerate(SCENARIOS):
        for place, policy in enumerate(POLICIES):
            seen = [float(entry[key]) for entry in groups[scenario.name, policy]]
            y = row + (place + 1) / (len(POLICIES) + 1)
            mean, kind = float(np.mean(seen)), policy_class(place)
            canvas.curve([(min(seen), y), (max(seen), y)], f"line {kind}")
            said = f"{policy}, {scenario.name}: {mean:.2f}"
            canvas.dot(canvas.x(mean), canvas.y(y), kind, said, 4)
    return canvas


def _tick_step(span: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that needs at most five steps."""
    power = 10.0 ** np.floor(np.log10(max(span, 1e-3) / 5))
    return float(next(s * power for s in (1, 2, 5, 10) if span / (s * power) <= 5))


def main() -> None:
    parser = argparse.ArgumentParser(description="The default policy under disturbances.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("out"), help="where to write results")
    arguments = parser.parse_args()
    console = Console(width=150)
    runs = []
    for scenario in SCENARIOS:
        console.print(f"{scenario.name} ...")
        runs += [
            run(scenario, policy, seed) for policy in POLICIES for seed in range(arguments.seeds)
        ]
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "robustness.json").write_text(json.dumps(runs, indent=2) + "\n")
    (arguments.out / "robustness.svg").write_text(svg(runs))
    show(console, runs)


if __name__ == "__main__":
    main()
