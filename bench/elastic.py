"""Types of GPUs and elastic gangs: the default policy beside Sia, Gavel and the others.

    python bench/elastic.py                         # the tables of docs/elastic.md
    python bench/elastic.py --part figures --policy sia --workers 2
    python bench/elastic.py --part decisions        # times and gaps beside the integer program

Needs the published speeds and workloads beside the repository (``../shared/elastic``), and says so
where they are absent. The seeds of the generated workloads were not used to choose any setting.
Writes ``out/elastic.json``; simulations that are in there already are not made again, unless
``--again`` names their policy.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from shockwave.engine.rounds import Rounds
from shockwave.executors.simulation import simulate
from shockwave.measure.fairness import finish_time_fairness
from shockwave.measure.fold import fold_history
from shockwave.measure.metrics import METRICS
from shockwave.model.cluster import Cluster
from shockwave.model.job import TraceJob
from shockwave.model.view import View
from shockwave.plan.elastic.exploration import cost_of_a_try, hope
from shockwave.plan.elastic.ilp import solve_ilp
from shockwave.plan.elastic.market import Market
from shockwave.plan.elastic.sale import sell
from shockwave.policies import registry as policies
from shockwave.policies.base import Decision, Policy
from shockwave.policies.option_market import MarketSettings
from shockwave.policies.shockwave import Settings, Shockwave
from shockwave.predict import registry as predictors
from shockwave.predict.base import Forecast
from shockwave.predict.speed_law import OptionShape, SpeedSettings
from shockwave.predict.speeds import Seen, SpeedLearner
from shockwave.protocol.files import atomic_writer
from shockwave.traces.formats import load
from shockwave.traces.generator import generate
from shockwave.traces.recipe import parse_recipe

SHARED = Path(__file__).resolve().parents[2] / "shared" / "elastic"
CLUSTERS = {"hetero": "T4:6x4,2080Ti:3x8,A100:2x8", "homo": "T4:16x4"}
PUBLISHED = ("philly-1", "helios-1")
RECIPE = "generated:jobs=160,span_hours=8,elastic=1,gpus=1:0.4/2:0.3/4:0.2/8:0.1"
GENERATED = {
    "homo": f"{RECIPE},max_hours=8,types=T4:1",
    "hetero": f"{RECIPE},max_hours=12,types=T4:1/2080Ti:1.5/A100:4",
}
SEEDS = range(1001, 1011)  # to report; settings were chosen on seeds 1 to 4
ROUND_SECONDS = {"gavel": 360.0, "mst": 360.0}  # as in their paper: they preempt every round
RESTART_SECONDS = 30.0  # of generated jobs; published ones have their own
SETTINGS = ("declared", "wrong", "blind", "half-rigid")
WRONG_SIGMA = 0.5

# The same information as Sia has: no declared work, nothing from other jobs.
BLIND = Settings(market=MarketSettings(believe_epochs=False, speeds=SpeedSettings(share=False)))


@dataclass(frozen=True)
class Case:
    """One simulation: a workload on a cluster under a policy."""

    workload: str  # a published one, or the seed of a generated one
    cluster: str
    policy: str
    setting: str = "declared"  # declared, wrong (by sigma 0.5), blind, half-rigid


def jobs_of(case: Case) -> list[TraceJob]:
    """The jobs with the truth about their speeds."""
    if case.workload.isdigit():
        jobs = generate(parse_recipe(f"{GENERATED[case.cluster]},seed={case.workload}"))
    else:
        jobs = load(SHARED / f"{case.workload}.jsonl", profiles=SHARED / "speeds.json")
    rng = np.random.default_rng(99)
    changed = []
    for job in jobs:
        error, is_rigid = math.exp(WRONG_SIGMA * rng.standard_normal()), rng.random() < 0.5
        spec = job.spec
        if case.setting == "wrong":
            spec = replace(spec, epochs=max(1, round(spec.epochs * error)))
        elif case.setting == "half-rigid" and is_rigid:
            spec = replace(spec, gpu_counts=())
        changed.append(replace(job, spec=spec))
    return changed


def policy_of(case: Case) -> Policy:
    if case.setting == "blind" and case.policy == "shockwave":
        return Shockwave(BLIND)
    return policies.create(case.policy)


class Timed(Policy):
    """The policy itself, with the processor time and the gap of every decision."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.name = policy.name
        self.wants_profiles = policy.wants_profiles
        self.seconds: list[float] = []
        self.gaps: list[float] = []

    def decide(self, view: View, forecast: Forecast) -> Decision:
        began = time.process_time()
        decision = self.policy.decide(view, forecast)
        self.seconds.append(time.process_time() - began)
        self.gaps.append(decision.gap or 0.0)
        return decision


def run(case: Case) -> dict[str, Any]:
    """One simulation, and its figures; times in hours."""
    jobs, timed = jobs_of(case), Timed(policy_of(case))
    rounds = Rounds(ROUND_SECONDS.get(case.policy, 60.0), RESTART_SECONDS)
    cluster = Cluster.parse(CLUSTERS[case.cluster])
    events = simulate(jobs, cluster, timed, predictors.create("reactive"), rounds=rounds)
    history = fold_history(events)
    rigid_ids = {job.spec.id for job in jobs if not job.spec.gpu_counts}
    rigid = np.array([name in rigid_ids for name in history.jobs.id])
    fairness = finish_time_fairness(history, "sia")
    makespan = np.nanmax(history.jobs.finish) - history.jobs.arrival.min()

    def figure(name: str) -> float:
        return float(METRICS[name].compute(history) or 0.0)

    return asdict(case) | {
        "mean_jct": figure("mean_jct_seconds") / 3600,
        "p99_jct": figure("p99_jct_seconds") / 3600,
        "makespan": float(makespan) / 3600,
        "gpu_hours": float(history.jobs.gpu_seconds.mean()) / 3600,
        "restarts": float(history.jobs.restarts.mean()),
        "worst_ftf": figure("worst_ftf_sia"),
        "unfair": figure("unfair_sia"),
        "worst_ftf_rigid": float(np.nanmax(fairness[rigid], initial=0.0)),
        "decision_ms_p95": 1e3 * float(np.quantile(timed.seconds, 0.95)),
        "decision_ms_max": 1e3 * max(timed.seconds),
        "gap_max": max(timed.gaps),
    }


# Decisions: how long they take, and how good they are, beside the integer program.


def decisions(jobs: int, capacity: Sequence[int], seed: int, with_ilp: bool) -> dict[str, Any]:
    """One decision of a large cluster: learning every job's speeds, and selling the GPUs."""
    rng = np.random.default_rng(seed)
    options = [(t, 2**k) for t, total in enumerate(capacity) for k in range(8) if 2**k <= total]
    kinds, gpus = np.array([t for t, _ in options]), np.array([n for _, n in options])
    shape = OptionShape(kinds, gpus, gpus > 8)
    model = rng.integers(0, 40, jobs)
    scaling = rng.uniform(0.5, 0.98, 40)[model]
    seconds = np.exp(rng.normal(4.0, 1.0, (40, len(capacity))))[model][:, kinds]
    seconds = seconds / gpus ** scaling[:, None]
    held = np.where(rng.random(jobs) < 0.5, rng.integers(0, len(options), jobs), -1)
    measured = np.full(seconds.shape, np.nan)
    runs = np.flatnonzero(held >= 0)
    measured[runs, held[runs]] = seconds[runs, held[runs]]
    seen = Seen(
        np.arange(jobs), model, rng.uniform(0, 60, jobs), held, measured,
        np.full(seconds.shape, np.nan),
    )  # fmt: skip
    learner = SpeedLearner()
    learner.learn(shape, seen)
    began = time.process_time()
    speeds = learner.learn(shape, replace(seen, epochs_done=seen.epochs_done + 0.5))
    learned = time.process_time()
    rest, c = 30.0 * speeds.median, speeds.curves
    a_try = cost_of_a_try(np.full(jobs, 120.0), gpus, sum(capacity) / jobs)
    hoped = hope(c.likely, c.apart, c.deviation, rest.min(axis=1), a_try)
    assert np.isfinite(hoped).all()
    hopeful = time.process_time()
    weight = np.exp(rng.normal(0.0, 0.7, jobs))
    values = weight[:, None] * speeds.median.min(axis=1, keepdims=True) / speeds.median
    values *= np.where(np.arange(len(options)) == held[:, None], 1.0, 0.9)
    market = Market(values, gpus, kinds, np.array(capacity))
    sale = sell(market)
    sold = time.process_time()
    found = {
        "jobs": jobs,
        "gpus": int(sum(capacity)),
        "types": len(capacity),
        "speeds_ms": 1e3 * (learned - began),
        "hope_ms": 1e3 * (hopeful - learned),
        "sale_ms": 1e3 * (sold - hopeful),
        "gap": sale.gap,
    }
    if with_ilp:
        began = time.process_time()
        exact = solve_ilp(market, time_limit_seconds=120.0)
        found |= {
            "ilp_ms": 1e3 * (time.process_time() - began),
            "value_over_ilp": sale.value / exact.value,
        }
    return found


SIZES = ((160, (24, 24, 16)), (160, (64,)), (640, (2048,)), (5000, (4096,) * 4))


# Tables, as docs/elastic.md has them.

COLUMNS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("mean JCT", "mean_jct", "{:.2f}".format),
    ("p99 JCT", "p99_jct", "{:.1f}".format),
    ("makespan", "makespan", "{:.1f}".format),
    ("GPU-hours/job", "gpu_hours", "{:.1f}".format),
    ("restarts/job", "restarts", "{:.1f}".format),
    ("worst FTF", "worst_ftf", "{:.2f}".format),
    ("unfair", "unfair", "{:.1%}".format),
)
Runs = dict[Case, dict[str, Any]]


def markdown(columns: Sequence[str], left: int, rows: Sequence[Sequence[str]]) -> str:
    """A table, its first ``left`` columns flush left."""
    rule = ["---"] * left + ["---:"] * (len(columns) - left)
    return "\n".join("| " + " | ".join(row) + " |" for row in (columns, rule, *rows)) + "\n"


def against(runs: Runs, case: Case) -> dict[str, Any] | None:
    """Sia's figures for the same jobs. It does not ask how long they are."""
    setting = "half-rigid" if case.setting == "half-rigid" else "declared"
    return runs.get(replace(case, policy="sia", setting=setting))


def published_table(runs: Runs) -> str:
    rows = []
    for case, one in runs.items():
        if case.workload in PUBLISHED and case.setting == "declared":
            base = against(runs, case)
            share = f" ({one['mean_jct'] / base['mean_jct'] - 1:+.0%})" if base else ""
            name = f"`{case.policy}`{'' if case.policy == 'sia' else share}"
            figures = (show(one[key]) for _, key, show in COLUMNS)
            rows.append((f"{case.workload} {case.cluster}", name, *figures))
    return markdown(("workload, cluster", "policy", *(name for name, _, _ in COLUMNS)), 2, rows)


def compared_table(runs: Runs, chosen: Callable[[Case], bool]) -> str:
    """The default policy against Sia, a row per workload."""
    rows = []
    for case, one in runs.items():
        base = against(runs, case)
        if case.policy == "shockwave" and base is not None and chosen(case):
            relative = [f"{one[k] / base[k] - 1:+.0%}" for k in ("mean_jct", "p99_jct", "makespan")]
            rigid = case.setting == "half-rigid"
            rows.append((
                case.setting, f"{case.workload} {case.cluster}", *relative,
                f"{one['worst_ftf']:.2f} ({base['worst_ftf']:.2f})",
                f"{one['unfair']:.1%} ({base['unfair']:.1%})",
                f"{one['worst_ftf_rigid']:.2f} ({base['worst_ftf_rigid']:.2f})" if rigid else "",
            ))  # fmt: skip
    columns = (
        "setting", "workload, cluster", "mean JCT", "p99 JCT", "makespan", "worst FTF (sia)",
        "unfair (sia)", "worst FTF of rigid jobs (sia)",
    )  # fmt: skip
    return markdown(columns, 2, rows)


def decisions_table(found: Sequence[dict[str, Any]]) -> str:
    rows = [
        (
            f"{one['jobs']:,}", f"{one['gpus']:,}", str(one["types"]), f"{one['speeds_ms']:.0f} ms",
            f"{one['hope_ms']:.0f} ms", f"{one['sale_ms']:.0f} ms", f"{one['gap']:.4%}",
            f"{one['ilp_ms']:.0f} ms" if "ilp_ms" in one else "",
            f"{one['value_over_ilp']:.4f}" if "ilp_ms" in one else "",
        )
        for one in found
    ]  # fmt: skip
    columns = (
        "jobs", "GPUs", "types", "speeds", "hope", "prices and gangs", "gap", "HiGHS",
        "value over HiGHS",
    )  # fmt: skip
    return markdown(columns, 0, rows)


def cases(names: Sequence[str]) -> list[Case]:
    """All simulations of the tables."""
    published = [(w, c) for w in PUBLISHED for c in CLUSTERS]
    generated = [(str(seed), list(CLUSTERS)[seed % 2]) for seed in SEEDS]
    both = [name for name in names if name in ("shockwave", "sia")]
    made = [Case(w, c, name) for w, c in published for name in names]
    made += [Case(w, c, name) for w, c in generated for name in both]
    for setting in SETTINGS[1:]:
        made += [
            Case(w, c, name, setting)
            for w, c in published
            for name in both
            if name != "sia" or setting == "half-rigid"
        ]
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("all", "figures", "decisions"), default="all")
    parser.add_argument("--policy", action="append", help="default: shockwave, sia, gavel")
    parser.add_argument("--again", action="append", default=[], help="a policy to simulate again")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("out/elastic.json"))
    chosen = parser.parse_args(arguments)
    found: dict[str, Any] = {}
    if chosen.json.exists():
        found = json.loads(chosen.json.read_text())

    def save() -> None:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        with atomic_writer(chosen.json) as file:
            json.dump(found, file, indent=1)

    if chosen.part != "figures":
        found["decisions"] = [
            decisions(jobs, capacity, 7, with_ilp=jobs < 5000) for jobs, capacity in SIZES
        ]
        save()
        print(decisions_table(found["decisions"]))
    if chosen.part != "decisions":
        if not (SHARED / "speeds.json").exists():
            print(f"no published speeds at {SHARED}: nothing to compare")
            return 1
        known = {
            Case(one["workload"], one["cluster"], one["policy"], one["setting"]): one
            for one in found.get("figures", [])
            if one["policy"] not in chosen.again
        }
        named = ["shockwave", "sia", "gavel"]
        todo = cases(chosen.policy or named)
        with ProcessPoolExecutor(chosen.workers, get_context("spawn")) as pool:
            missing = [case for case in todo if case not in known]
            for case, one in zip(missing, pool.map(run, missing), strict=True):
                known[case] = one
                found["figures"] = list(known.values())
                save()
                print(json.dumps(one), file=sys.stderr, flush=True)
        shown = cases([*named, *(set(chosen.policy or ()) - set(named))])
        runs = {case: known[case] for case in shown if case in known}
        print(published_table(runs))
        print(compared_table(runs, lambda case: case.workload.isdigit()))
        print(compared_table(runs, lambda case: case.setting != "declared"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
