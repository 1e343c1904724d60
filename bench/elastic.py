"""Types of GPUs and elastic gangs: the default policy beside Sia, Gavel and the others.

    python bench/elastic.py                         # the tables of docs/elastic.md
    python bench/elastic.py --part figures --policy shockwave --policy sia --workers 2
    python bench/elastic.py --part decisions        # times and gaps beside the integer program

Needs the published speeds and workloads beside the repository (``../shared/elastic``), and says so
where they are absent. Generated workloads draw models, bursts and requests like the published ones
do; their seeds were not used to choose any setting. Writes ``out/elastic.json``.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from shockwave.engine.state import Rounds
from shockwave.executors.simulation import by_arrival, simulate
from shockwave.model.cluster import Cluster
from shockwave.model.events import Event, JobFinished, JobStarted, JobStopped
from shockwave.model.job import JobSpec, Regime, TraceJob, timeline
from shockwave.model.speeds import Speeds
from shockwave.model.view import Floats, View
from shockwave.plan.elastic.ilp import solve_ilp
from shockwave.plan.elastic.market import Market
from shockwave.plan.elastic.sale import sell
from shockwave.policies import registry as policies
from shockwave.policies.base import Decision, Policy
from shockwave.policies.option_market import MarketSettings
from shockwave.policies.shockwave import Settings, Shockwave
from shockwave.predict import registry as predictors
from shockwave.predict.base import Forecast
from shockwave.predict.speeds import OptionShape, Seen, SpeedLearner, SpeedSettings
from shockwave.protocol.files import atomic_writer

SHARED = Path(__file__).resolve().parents[2] / "shared" / "elastic"
CLUSTERS = {"hetero": "T4:6x4,2080Ti:3x8,A100:2x8", "homo": "T4:16x4"}
GENERATED = tuple(range(1001, 1011))
ROUND_SECONDS = {"gavel": 360.0}  # as in its paper: it preempts every round
UNFAIR = 1.05

# The same information as Sia has: no declared work, nothing from other jobs.
BLIND = Settings(market=MarketSettings(believe_epochs=False, speeds=SpeedSettings(share=False)))


@dataclass(frozen=True)
class Case:
    """One simulation: a workload on a cluster under a policy."""

    workload: str  # a published one, or the seed of a generated one
    cluster: str
    policy: str
    setting: str = "declared"  # declared, wrong (by sigma 0.5), blind, half-rigid


def rows_of(workload: str) -> list[dict[str, Any]]:
    """The jobs of a workload: arrival, model and request."""
    if not workload.isdigit():
        lines = (SHARED / f"{workload}.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]
    rng = np.random.default_rng(int(workload))
    names = ["cifar10", "bert", "deepspeech2", "yolov3", "imagenet"]
    shares = np.array([0.82, 0.05, 0.07, 0.04, 0.02]) * rng.uniform(0.6, 1.4, 5)
    hours = rng.gamma(3.0, 1.0, 8)
    hour = rng.choice(8, size=160, p=hours / hours.sum())
    arrivals = np.sort((hour + rng.random(160)) * 3600.0)
    return [
        {
            "id": f"job-{number}",
            "arrival": float(int(arrival)),
            "model": str(rng.choice(names, p=shares / shares.sum())),
            "gpus_requested": int(rng.choice([4, 6, 8, 12, 16])),
        }
        for number, arrival in enumerate(arrivals)
    ]


def jobs_of(case: Case) -> list[TraceJob]:
    """The jobs with the truth about their speeds on the types of the cluster."""
    models = json.loads((SHARED / "speeds.json").read_text())
    types = [part.split(":")[0] for part in CLUSTERS[case.cluster].split(",")]
    rng = np.random.default_rng(99)
    jobs = []
    for row in rows_of(case.workload):
        model = models[row["model"]]
        speeds = Speeds(
            {
                name: {
                    int(count): tuple(times["epoch_seconds"])
                    for count, times in model["gpus"][name].items()
                }
                for name in types
            }
        )
        epochs = int(model["epochs"])
        error, is_rigid = math.exp(0.5 * rng.standard_normal()), rng.random() < 0.5
        spec = JobSpec(
            id=row["id"],
            arrival_seconds=row["arrival"],
            gpus=row["gpus_requested"],
            epochs=max(1, round(epochs * error)) if case.setting == "wrong" else epochs,
            configurations=(0,),
            epoch_seconds=(math.nan,),
            model=row["model"],
            gpu_counts=() if case.setting == "half-rigid" and is_rigid else speeds.counts,
        )
        truth = timeline((Regime(0, epochs, 1.0),), speeds.epoch_seconds(types[0], spec.gpus))
        jobs.append(
            TraceJob(spec, truth, speeds=speeds, restart_seconds=float(model["restart_seconds"]))
        )
    return jobs


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
    """One simulation, and its figures in hours."""
    jobs, cluster = by_arrival(jobs_of(case)), Cluster.parse(CLUSTERS[case.cluster])
    timed = Timed(policy_of(case))
    length = ROUND_SECONDS.get(case.policy, 60.0)
    events = simulate(
        jobs, cluster, timed, predictors.create("reactive"), rounds=Rounds(length, 30.0)
    )
    arrival = np.array([job.spec.arrival_seconds for job in jobs])
    finish, gpu_seconds, starts = _outcome(events, jobs)
    jct = finish - arrival
    fairness = jct / fair_seconds(jobs, cluster, arrival, finish)
    rigid = np.array([not job.spec.gpu_counts for job in jobs])
    return {
        "workload": case.workload,
        "cluster": case.cluster,
        "policy": case.policy,
        "setting": case.setting,
        "mean_jct": float(jct.mean()) / 3600,
        "p99_jct": float(np.quantile(jct, 0.99)) / 3600,
        "makespan": float(finish.max() - arrival.min()) / 3600,
        "gpu_hours": float(gpu_seconds.mean()) / 3600,
        "restarts": float(starts.mean()) - 1.0,
        "worst_ftf": float(fairness.max()),
        "unfair": float((fairness > UNFAIR).mean()),
        "worst_ftf_rigid": float(fairness[rigid].max(initial=0.0)),
        "decision_ms_p95": 1e3 * float(np.quantile(timed.seconds, 0.95)),
        "decision_ms_max": 1e3 * max(timed.seconds),
        "gap_max": max(timed.gaps),
    }


def _outcome(events: Sequence[Event], jobs: Sequence[TraceJob]) -> tuple[Floats, Floats, Floats]:
    """[job] when it finished, the GPU-seconds that it held, and how often it started."""
    number = {job.spec.id: position for position, job in enumerate(jobs)}
    finish, held, starts = np.full(len(jobs), np.nan), np.zeros(len(jobs)), np.zeros(len(jobs))
    since: dict[int, tuple[float, int]] = {}
    for event in events:
        if isinstance(event, JobStarted):
            position = number[event.job]
            since[position] = event.time, sum(len(slots) for _, slots in event.placement)
            starts[position] += 1
        elif isinstance(event, JobFinished | JobStopped):
            position = number[event.job]
            if isinstance(event, JobFinished):
                finish[position] = event.time
            if position in since:
                began, gpus = since.pop(position)
                held[position] += gpus * (event.time - began)
    return finish, held, starts


def fair_seconds(
    jobs: Sequence[TraceJob], cluster: Cluster, arrival: Floats, finish: Floats
) -> Floats:
    """[job] Sia's fair completion time: alone on ``M / n`` GPUs of a type, averaged by GPUs.

    ``n`` is the mean number of jobs while it was there, once a minute. Between two whole numbers of
    GPUs the time is interpolated, and the job takes the best option of at most so many. Less than
    one GPU is one GPU for a part of the time; so is less than the request of a rigid job.
    """
    totals: dict[str, int] = {}
    for node in cluster.nodes:
        totals[node.gpu_type] = totals.get(node.gpu_type, 0) + node.gpus
    minutes = np.arange(arrival.min(), finish.max() + 60.0, 60.0)
    present = (arrival[:, None] <= minutes) & (minutes < finish[:, None])
    active = present.sum(axis=0)
    fair = np.empty(len(jobs))
    for position, job in enumerate(jobs):
        here = active[present[position]]
        share = cluster.gpus / (float(here.mean()) if len(here) else 1.0)
        fair[position] = sum(
            total * _alone(job, name, total, share) for name, total in totals.items()
        )
    return fair / cluster.gpus


def _alone(job: TraceJob, gpu_type: str, total: int, share: float) -> float:
    assert job.speeds is not None
    restart = job.restart_seconds or 0.0
    counts = job.spec.gpu_counts or (job.spec.gpus,)
    times = {
        count: sum(job.speeds.epoch_seconds(gpu_type, count)) + restart
        for count in counts
        if count <= total and (count in job.speeds.by_type[gpu_type] or not job.spec.gpu_counts)
    }
    least = min(times)

    def with_at_most(gpus: int) -> float:
        return min(seconds for count, seconds in times.items() if count <= gpus)

    if share < least:
        return with_at_most(least) * least / share
    low, high = with_at_most(math.floor(share)), with_at_most(math.ceil(share))
    return low + (high - low) * (share - math.floor(share))


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
        "sale_ms": 1e3 * (sold - learned),
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


# Tables.

COLUMNS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("mean JCT", "mean_jct", "{:.2f}".format),
    ("p99 JCT", "p99_jct", "{:.1f}".format),
    ("makespan", "makespan", "{:.1f}".format),
    ("GPU-h/job", "gpu_hours", "{:.1f}".format),
    ("restarts/job", "restarts", "{:.1f}".format),
    ("worst FTF", "worst_ftf", "{:.2f}".format),
    ("unfair", "unfair", "{:.1%}".format),
    ("rigid FTF", "worst_ftf_rigid", "{:.2f}".format),
    ("ms p95", "decision_ms_p95", "{:.0f}".format),
    ("gap", "gap_max", "{:.2%}".format),
)


def figures_table(runs: Sequence[dict[str, Any]], setting: str) -> Table:
    """A row per simulation; the mean JCT also against Sia's on the same workload."""
    table = Table(title=f"elastic: {setting}")
    for name in ("workload", "cluster", "policy", "against sia", *(c[0] for c in COLUMNS)):
        table.add_column(name, justify="right")
    of_sia = {
        (one["workload"], one["cluster"]): one["mean_jct"]
        for one in runs
        if one["policy"] == "sia" and one["setting"] == setting
    }
    for one in runs:
        if one["setting"] == setting:
            base = of_sia.get((one["workload"], one["cluster"]))
            against = "" if base is None else f"{one['mean_jct'] / base - 1:+.0%}"
            figures = (show(one[key]) for _, key, show in COLUMNS)
            table.add_row(one["workload"], one["cluster"], one["policy"], against, *figures)
    return table


def cases(names: Sequence[str]) -> list[Case]:
    """All simulations of the tables."""
    published = [(w, c) for w in ("philly-1", "helios-1") for c in CLUSTERS]
    generated = [(str(seed), list(CLUSTERS)[seed % 2]) for seed in GENERATED]
    both = [name for name in names if name in ("shockwave", "sia")]
    made = [Case(w, c, name) for w, c in published for name in names]
    made += [Case(w, c, name) for w, c in generated for name in both]
    for setting in ("wrong", "blind", "half-rigid"):
        made += [Case(w, c, name, setting) for w, c in published for name in both]
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("all", "figures", "decisions"), default="all")
    parser.add_argument("--policy", action="append", help="default: shockwave, sia, gavel")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("out/elastic.json"))
    chosen = parser.parse_args(arguments)
    console = Console(width=180)
    found: dict[str, Any] = {}
    if chosen.part != "figures":
        table = Table(title="one decision, processor time")
        found["decisions"] = []
        for jobs, capacity in SIZES:
            one = decisions(jobs, capacity, 7, with_ilp=jobs < 5000)
            found["decisions"].append(one)
            if not table.columns:
                for name in (*one, *(() if "ilp_ms" in one else ("ilp_ms", "value_over_ilp"))):
                    table.add_column(name, justify="right")
            table.add_row(*(f"{value:.4g}" for value in one.values()))
        console.print(table)
    if chosen.part != "decisions":
        if not (SHARED / "speeds.json").exists():
            console.print(f"no published speeds at {SHARED}: nothing to compare")
            return 1
        todo = cases(chosen.policy or ["shockwave", "sia", "gavel"])
        runs = []
        with ProcessPoolExecutor(chosen.workers, get_context("spawn")) as pool:
            for one in pool.map(run, todo):
                runs.append(one)
                print(json.dumps(one), file=sys.stderr, flush=True)
        found["figures"] = runs
        for setting in ("declared", "wrong", "blind", "half-rigid"):
            console.print(figures_table(runs, setting))
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    with atomic_writer(chosen.json) as file:
        json.dump(found, file, indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
