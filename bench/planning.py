"""How fast the planner is, how good its plans are, and how both compare to the original.

    python bench/planning.py            # about five minutes
    python bench/planning.py --quick    # small sizes, short time limits

Prints three tables and writes ``out/planning.json``, ``out/planning-growth.csv`` and
``out/planning-growth.svg``. Everything that is compared is measured in this one run, on
the same instances. Times are wall-clock on one core.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from instances import Instance, random_instance
from rich.console import Console
from rich.table import Table

from shockwave.measure.charts import Axis, Canvas, Margins, standalone
from shockwave.plan.window.market import PiecewiseLog, fairness_weights
from shockwave.plan.window.milp import solve_original
from shockwave.plan.window.planner import solve
from shockwave.plan.window.program import Program

SIZES = ((120, 32, 40), (460, 128, 40), (900, 256, 40), (20_000, 16_384, 15))  # jobs, GPUs, runs
QUICK_SIZES = ((120, 32, 10), (900, 256, 5), (20_000, 16_384, 3))
GROWTH = (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
QUICK_GROWTH = (250, 1_000, 4_000)
COMPARED_GAP = 1e-7  # the planner tries harder than by default where HiGHS has a minute

SETTINGS: dict[str, dict[str, Any]] = {
    "market": {},
    "nsdi23": {"exponent": 12.0, "makespan_weight": 1e-3, "log": PiecewiseLog.nsdi23()},
}


def timed_plan(instance: Instance, **settings: Any) -> dict[str, float]:
    """Plans a fresh program (nothing cached) and says how long it took and how good it is."""
    program = instance.program(**settings)
    start = time.perf_counter()
    plan = solve(program, running=instance.running)
    seconds = time.perf_counter() - start
    before = np.concatenate([instance.running[:, None], plan.schedule[:, :-1]], axis=1)
    starts = int((plan.schedule & ~before).sum())
    return {
        "seconds": seconds,
        "gap": plan.gap,
        "gain_gap": plan.gain_gap,
        "welfare": plan.welfare,
        "missing": int(plan.missing.sum()),
        "starts_per_job": starts / max(int((plan.rounds > 0).sum()), 1),
    }


def measure_speed(sizes: tuple[tuple[int, int, int], ...]) -> list[dict[str, Any]]:
    rows = []
    for jobs, gpus, runs in sizes:
        for name, settings in SETTINGS.items():
            results = [
                timed_plan(random_instance(jobs, gpus, np.random.default_rng(seed)), **settings)
                for seed in range(runs)
            ]
            seconds = [result["seconds"] for result in results]
            rows.append(
                {
                    "jobs": jobs,
                    "gpus": gpus,
                    "values": name,
                    "runs": runs,
                    "p50_seconds": float(np.quantile(seconds, 0.5)),
                    "p95_seconds": float(np.quantile(seconds, 0.95)),
                    "gap_mean": float(np.mean([result["gap"] for result in results])),
                    "gap_max": max(result["gap"] for result in results),
                    "gain_gap_max": max(result["gain_gap"] for result in results),
                    "starts_per_job": float(
                        np.mean([result["starts_per_job"] for result in results])
                    ),
                }
            )
    return rows


def linear_program(instance: Instance) -> tuple[Program, dict[str, Any]]:
    """The window as the original sees it: linear progress and a piecewise log."""
    log = PiecewiseLog.nsdi23()
    bid = fairness_weights(instance.rho_themis, 12.0, lowest=1.0)
    progress = instance.epochs_done / instance.epochs
    remaining = np.maximum(instance.remaining_seconds, instance.round_seconds)
    per_round = (1.0 - progress) * instance.round_seconds / remaining
    counts = np.arange(instance.window + 1)
    fractions = np.minimum(progress[:, None] + per_round[:, None] * counts, 1.0)
    program = instance.program(**SETTINGS["nsdi23"], fractions=fractions)
    return program, {"bid": bid, "progress": progress, "progress_per_round": per_round, "log": log}


def measure_original(
    sizes: tuple[tuple[int, int], ...], seeds: int, time_limit_seconds: float
) -> list[dict[str, Any]]:
    rows = []
    for jobs, gpus in sizes:
        for seed in range(seeds):
            instance = random_instance(jobs, gpus, np.random.default_rng(1_000 + seed))
            program, original = linear_program(instance)
            start = time.perf_counter()
            result = solve_original(program, **original, time_limit_seconds=time_limit_seconds)
            highs_seconds = time.perf_counter() - start
            seconds = []
            for _ in range(5):
                program, _ = linear_program(instance)
                start = time.perf_counter()
                plan = solve(program, running=instance.running, target_gap=COMPARED_GAP)
                seconds.append(time.perf_counter() - start)
            planner_seconds = float(np.median(seconds))
            rows.append(
                {
                    "jobs": jobs,
                    "gpus": gpus,
                    "seed": seed,
                    "highs_seconds": highs_seconds,
                    "highs_optimal": result.optimal,
                    "highs_welfare": result.objective,
                    "highs_gap": (result.upper_bound - result.objective) / abs(result.objective),
                    "planner_seconds": planner_seconds,
                    "planner_welfare": plan.welfare,
                    "planner_gap": plan.gap,
                    "speedup": highs_seconds / planner_seconds,
                    "welfare_difference": (plan.welfare - result.objective) / abs(result.objective),
                }
            )
    return rows


def measure_growth(sizes: tuple[int, ...], runs: int) -> list[dict[str, Any]]:
    """Planner time over the number of jobs, four jobs per GPU."""
    rows = []
    for jobs in sizes:
        results = [
            timed_plan(random_instance(jobs, max(jobs // 4, 8), np.random.default_rng(seed)))
            for seed in range(runs)
        ]
        seconds = float(np.median([result["seconds"] for result in results]))
        rows.append({"jobs": jobs, "seconds": seconds, "gap": max(r["gap"] for r in results)})
    return rows


def growth_exponent(rows: list[dict[str, Any]]) -> float:
    """Slope of log(seconds) over log(jobs) in the upper half of the sizes: 1 is linear."""
    upper = rows[len(rows) // 2 :]
    jobs, seconds = ([np.log(row[key]) for row in upper] for key in ("jobs", "seconds"))
    return float(np.polyfit(jobs, seconds, 1)[0]) if len(upper) > 1 else float("nan")


def growth_svg(rows: list[dict[str, Any]]) -> str:
    """Seconds over jobs on logarithmic axes, with a line of slope one to compare."""
    title = "Planner time over the number of jobs"
    points = [(float(row["jobs"]), float(row["seconds"])) for row in rows]
    powers = [np.floor(np.log10(min(seconds for _, seconds in points))),
              np.ceil(np.log10(max(seconds for _, seconds in points)))]  # fmt: skip
    low, high = (10.0**power for power in powers)
    jobs = [count for count, _ in points]
    label = "jobs (20 rounds, 4 jobs per GPU); dashed: linear growth"
    x_axis = Axis(jobs[0], jobs[-1], jobs, label, log=True, text=lambda count: f"{count:,.0f}")
    ticks = 10.0 ** np.arange(powers[0], powers[1] + 1)
    y_axis = Axis(low, high, ticks.tolist(), log=True, text=lambda seconds: f"{seconds:g} s")
    canvas = Canvas(title, x_axis, y_axis, 640, 400, Margins(80, 24, 20, 60))
    canvas.draw_axes()
    last_jobs, last_seconds = points[-1]
    canvas.curve([(n, max(last_seconds * n / last_jobs, low)) for n in jobs], "guide")
    canvas.curve(points, "line p0")
    for count, seconds in points:
        canvas.dot(canvas.x(count), canvas.y(seconds), "p0", f"{count:,.0f} jobs: {seconds:.3g} s")
    return standalone(title, canvas)


def show(console: Console, report: dict[str, Any]) -> None:
    speed = Table(title="One plan of 20 rounds, packing included")
    for column in ("jobs", "GPUs", "values", "p50 ms", "p95 ms", "gap mean", "gap max", "of gain"):
        speed.add_column(column, justify="right")
    for row in report["speed"]:
        speed.add_row(
            f"{row['jobs']:,}",
            f"{row['gpus']:,}",
            row["values"],
            f"{1e3 * row['p50_seconds']:.1f}",
            f"{1e3 * row['p95_seconds']:.1f}",
            f"{row['gap_mean']:.4%}",
            f"{row['gap_max']:.4%}",
            f"{row['gain_gap_max']:.4%}",
        )
    console.print(speed)
    versus = Table(title="The original formulation in HiGHS, and the planner on the same window")
    for column in (
        *("jobs", "GPUs", "HiGHS s", "HiGHS gap", "planner ms", "planner gap", "faster"),
        "welfare, relative",
    ):
        versus.add_column(column, justify="right")
    for row in report["original"]:
        late = "" if row["highs_optimal"] else " (limit)"
        versus.add_row(
            str(row["jobs"]),
            str(row["gpus"]),
            f"{row['highs_seconds']:.1f}{late}",
            f"{row['highs_gap']:.4%}",
            f"{1e3 * row['planner_seconds']:.1f}",
            f"{row['planner_gap']:.4%}",
            f"{row['speedup']:,.0f}x",
            f"{row['welfare_difference']:+.4%}",
        )
    console.print(versus)
    growth = Table(title=f"Growth: seconds ~ jobs^{report['growth_exponent']:.2f}")
    for column in ("jobs", "median ms", "us per job", "gap max"):
        growth.add_column(column, justify="right")
    for row in report["growth"]:
        growth.add_row(
            f"{row['jobs']:,}",
            f"{1e3 * row['seconds']:.1f}",
            f"{1e6 * row['seconds'] / row['jobs']:.1f}",
            f"{row['gap']:.4%}",
        )
    console.print(growth)


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmark of the planner.")
    parser.add_argument("--quick", action="store_true", help="small sizes, short time limits")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where to write results")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for HiGHS")
    arguments = parser.parse_args()
    quick = arguments.quick
    timed_plan(random_instance(50, 16, np.random.default_rng(0)))  # imports and caches
    report: dict[str, Any] = {
        "speed": measure_speed(QUICK_SIZES if quick else SIZES),
        "original": measure_original(
            ((120, 32),) if quick else ((120, 32), (460, 128)),
            seeds=1 if quick else 2,
            time_limit_seconds=10.0 if quick else arguments.time_limit,
        ),
        "growth": measure_growth(QUICK_GROWTH if quick else GROWTH, runs=3 if quick else 5),
    }
    report["growth_exponent"] = growth_exponent(report["growth"])
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "planning.json").write_text(json.dumps(report, indent=2) + "\n")
    lines = ["jobs,seconds,gap"]
    lines += [f"{row['jobs']},{row['seconds']:.6f},{row['gap']:.3e}" for row in report["growth"]]
    (arguments.out / "planning-growth.csv").write_text("\n".join(lines) + "\n")
    (arguments.out / "planning-growth.svg").write_text(growth_svg(report["growth"]))
    show(Console(), report)


if __name__ == "__main__":
    main()
