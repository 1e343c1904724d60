"""What every ingredient of the default policy is worth.

    python bench/ablation.py            # about fifteen minutes on one core
    python bench/ablation.py --quick    # two generated traces, no curves

Takes one ingredient out at a time, feeds the policy by other predictors, and sets other
policies beside it: on the paper's two workloads where they are at hand, and on ten
generated ones like them as means with 95 % confidence intervals. Two settings are swept,
to show what is traded for what. Prints a table and writes ``out/ablation.json`` and
``out/ablation.md``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from shockwave.executors.simulation import TraceTruth, simulate
from shockwave.measure import fold_history, summarize
from shockwave.measure.summary import aggregate
from shockwave.model.cluster import Cluster
from shockwave.model.job import TraceJob
from shockwave.plan.stance import STANCES
from shockwave.policies import registry as policies
from shockwave.policies.base import Policy
from shockwave.policies.shockwave import Settings, Shockwave
from shockwave.predict import registry as predictors
from shockwave.traces import load

PAPER = Path(__file__).resolve().parents[2] / "shared" / "traces"
COLUMNS = {
    "makespan": "makespan / bound",
    "jct": "JCT / clairvoyant SRTF",
    "worst_static": "worst static",
    "unfair_static": "unfair static %",
    "unfair_themis": "unfair themis %",
    "worst_egalitarian": "worst egalitarian",
    "restarts": "restarts",
}
DIGITS = {
    "makespan": 3, "jct": 3, "worst_static": 2, "unfair_static": 1, "unfair_themis": 1,
    "worst_egalitarian": 2, "restarts": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """A trace and the cluster that it is run on."""

    name: str
    trace: str
    gpus: int
    seed: int | None = None


@dataclass(frozen=True)
class Variant:
    """A policy, and the predictor where it is not the policy's own."""

    name: str
    group: str
    make: Callable[[], Policy]
    predictor: str | None = None


def changed(name: str, group: str = "without", **settings: Any) -> Variant:
    """The default policy with other settings; ``index_keep=1`` sets ``keep`` of the index."""
    parts: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        part, _, field = key.partition("_")
        if part in ("index", "prices", "outlook", "reservations"):
            parts.setdefault(part, {})[field] = value
        else:
            parts.setdefault("", {})[key] = value

    def make() -> Policy:
        whole = Settings()
        chosen = {
            part: replace(getattr(whole, part), **fields) for part, fields in parts.items() if part
        }
        return Shockwave(replace(whole, **chosen, **parts.get("", {})))

    return Variant(name, group, make)


def fed_by(predictor: str, label: str | None = None) -> Variant:
    return Variant(label or predictor, "predictor", Shockwave, predictor)


def other(policy: str) -> Variant:
    return Variant(policy, "policy", lambda: policies.create(policy, seed=0))


VARIANTS = (
    Variant("shockwave", "full", Shockwave),
    changed("one stance: shortest first", stances=STANCES[:1]),
    changed("one stance: all aims, careful", stances=STANCES[-1:]),
    changed("two samples", samples=2, first_samples=1),
    changed("no price of the makespan", prices_makespan=0.0),
    changed("no price of being late", prices_late=0.0, prices_unfair=0.0),
    changed("no price of crowds", prices_crowded=0.0),
    changed("no keeping of GPUs", index_keep=1.0, index_keep_rounds=0.0),
    changed("no expected arrivals", outlook_arrivals_share=0.0),
    changed("shortest time first", index_gang_exponent=0.0),
    changed("least GPU-work first", index_gang_exponent=1.0),
    fed_by("reactive"),
    fed_by("equal-shares"),
    fed_by("bayesian"),
    fed_by("oracle", "oracle (clairvoyant)"),
    other("shockwave-nsdi23"),
    other("srtf"),
    other("themis"),
    other("gavel"),
    other("srtf-oracle"),
)
CURVES = (
    *(changed(f"makespan price {v:g}", "curve", prices_makespan=v) for v in (1.0, 2.0, 8.0)),
    *(changed(f"unfair price {v:g}", "curve", prices_unfair=v) for v in (0.0, 1.0, 4.0)),
    *(changed(f"crowd price {v:g}", "curve", prices_crowded=v) for v in (0.25, 1.0)),
)


def workloads(generated: int) -> tuple[list[Workload], list[Workload]]:
    """The paper's, where they are at hand, and generated ones of the same kind."""
    paper = [
        Workload(f"paper, {gpus} GPUs", str(PAPER / f"paper-{gpus}gpu-{jobs}jobs.jsonl"), gpus)
        for gpus, jobs in ((32, 120), (128, 460))
    ]
    drawn = [
        Workload("generated", f"generated:jobs={jobs},span_hours=1.4", gpus, seed)
        for seed in range(100, 100 + generated)
        for jobs, gpus in [((120, 32), (230, 64))[seed % 2]]
    ]
    return [workload for workload in paper if Path(workload.trace).is_file()], drawn


@lru_cache(maxsize=64)
def jobs_of(workload: Workload) -> list[TraceJob]:
    return load(workload.trace, seed=workload.seed)


def summary_of(workload: Workload, policy: Policy, predictor: str | None) -> dict[str, Any]:
    jobs = jobs_of(workload)
    source = predictors.create(predictor or policy.predictor, truth=TraceTruth(jobs))
    return summarize(fold_history(simulate(jobs, Cluster.uniform(workload.gpus), policy, source)))


@lru_cache(maxsize=64)
def clairvoyant_jct(workload: Workload) -> float:
    figures = summary_of(workload, policies.create("srtf-oracle", seed=0), None)
    return float(figures["mean_jct_seconds"])


def figures_of(workload: Workload, variant: Variant) -> dict[str, Any]:
    run = summary_of(workload, variant.make(), variant.predictor)
    return {
        "policy": variant.name,
        "trace": workload.trace,
        "makespan": run["makespan_seconds"] / run["makespan_lower_bound_seconds"],
        "jct": run["mean_jct_seconds"] / clairvoyant_jct(workload),
        "worst_static": run["worst_ftf_static"],
        "unfair_static": 100.0 * run["unfair_static"],
        "unfair_themis": 100.0 * run["unfair_themis"],
        "worst_egalitarian": run["worst_ftf_egalitarian"],
        "restarts": run["restarts"],
    }


def measure(
    variant: Variant, paper: Sequence[Workload], generated: Sequence[Workload]
) -> dict[str, Any]:
    """One row: each paper workload by itself, the generated ones together."""
    runs = [figures_of(workload, variant) for workload in generated]
    return {
        "variant": variant.name,
        "group": variant.group,
        "paper": {workload.name: figures_of(workload, variant) for workload in paper},
        "generated": aggregate(runs),
        "runs": runs,
    }


def cells(row: dict[str, Any], where: str) -> list[str]:
    if where != "generated":
        return [f"{row['paper'][where][key]:.{DIGITS[key]}f}" for key in COLUMNS]
    texts = []
    for key in COLUMNS:
        figure = row["generated"][key]
        spread = "" if figure["ci95"] is None else f" ± {figure['ci95']:.{DIGITS[key]}f}"
        texts.append(f"{figure['mean']:.{DIGITS[key]}f}{spread}")
    return texts


def differences(row: dict[str, Any], full: dict[str, Any]) -> list[str]:
    """What the variant changes, paired by generated workload; bold where the interval excludes 0.

    Workloads differ more than variants do, so these intervals say more than those of means.
    """
    pairs = [
        {"policy": "", "trace": "", **{key: run[key] - base[key] for key in COLUMNS}}
        for run, base in zip(row["runs"], full["runs"], strict=True)
    ]
    paired = aggregate(pairs)
    texts = []
    for key in COLUMNS:
        mean, half = paired[key]["mean"], paired[key]["ci95"] or 0.0
        text = f"{mean:+.{DIGITS[key]}f} ± {half:.{DIGITS[key]}f}"
        texts.append(f"**{text}**" if abs(mean) > half else text)
    return texts


def places(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [*rows[0]["paper"], "generated"]


def heading(where: str, rows: Sequence[dict[str, Any]]) -> str:
    count = len(rows[0]["runs"])
    return f"{count} generated workloads, mean ± 95 %" if where == "generated" else where


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    parts = []
    for where in places(rows):
        lines = [f"### {heading(where, rows)}", ""]
        lines.append("| variant | " + " | ".join(COLUMNS.values()) + " |")
        lines.append("|---|" + "---:|" * len(COLUMNS))
        lines += [f"| {row['variant']} | " + " | ".join(cells(row, where)) + " |" for row in rows]
        parts.append("\n".join(lines))
    lines = ["### Difference to the full policy, paired by generated workload", ""]
    lines.append("| variant | " + " | ".join(COLUMNS.values()) + " |")
    lines.append("|---|" + "---:|" * len(COLUMNS))
    for row in rows[1:]:
        lines.append(f"| {row['variant']} | " + " | ".join(differences(row, rows[0])) + " |")
    parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def show(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    for where in places(rows):
        table = Table(title=heading(where, rows))
        table.add_column("variant")
        for column in COLUMNS.values():
            table.add_column(column, justify="right")
        group = rows[0]["group"]
        for row in rows:
            if row["group"] != group:
                table.add_section()
                group = row["group"]
            table.add_row(row["variant"], *cells(row, where))
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Ablation of the default policy.")
    parser.add_argument("--quick", action="store_true", help="two generated traces, no curves")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where to write results")
    arguments = parser.parse_args()
    console = Console(width=150)
    paper, generated = workloads(2 if arguments.quick else 10)
    if not paper:
        console.print("The paper's workloads are not beside this checkout: generated ones only.")
    rows: list[dict[str, Any]] = []
    arguments.out.mkdir(parents=True, exist_ok=True)
    for variant in VARIANTS if arguments.quick else VARIANTS + CURVES:
        start = time.perf_counter()
        rows.append(measure(variant, paper, generated))
        console.print(
            f"{variant.name}: {', '.join(cells(rows[-1], 'generated'))} "
            f"({time.perf_counter() - start:.0f} s)",
            highlight=False,
        )
        # After every variant: a run that is cut short leaves what it has.
        (arguments.out / "ablation.json").write_text(json.dumps(rows, indent=2) + "\n")
        (arguments.out / "ablation.md").write_text(markdown(rows))
    show(console, rows)


if __name__ == "__main__":
    main()
