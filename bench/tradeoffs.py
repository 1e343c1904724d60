"""Aims that cannot be had together: what a little more of one costs of the other.

    python bench/tradeoffs.py                    # both curves, on seeds of their own
    python bench/tradeoffs.py --seeds 201,202    # fewer: minutes instead of a quarter of an hour

One gang of all GPUs in a stream of small jobs (family ``giant``): the sooner it is promised its
start, the longer the others wait. Gangs as wide as the cluster among all others (``wide``): the
sooner those press who wait too long, the more GPU time goes into waiting for gangs. Every point is
the default policy with one number changed; its own is marked. Prints both tables and writes
``out/tradeoffs.json`` and ``out/tradeoffs.svg``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from shockwave.measure.charts.canvas import Axis, Canvas, Margins, standalone
from shockwave.measure.charts.palette import policy_class
from shockwave.measure.workloads import figures_of
from shockwave.plan.reservation import ReservationRules
from shockwave.plan.stance import IndexSettings
from shockwave.policies import registry as policies
from shockwave.policies.base import Policy
from shockwave.policies.shockwave import Settings, Shockwave
from shockwave.protocol.files import atomic_writer
from shockwave.traces.families import FAMILIES

SEEDS = "201,202,203,204"
WAITS = (0.5, 1.0, 1.45, 2.0, 3.0, np.inf)  # fair waits after which a wide gang may claim all
STARVED = (0.0, 1.0, 4.0, 16.0, 64.0)  # how much those press who wait too long
GIANT_SECONDS = 7200.0
Task = tuple[str, str, float, int]  # curve, policy ("" for the default), its number, seed


@dataclass(frozen=True)
class Point:
    """A policy on both axes of a curve, means over the seeds."""

    label: str
    x: float
    y: float
    row: tuple[str, ...]


def policy_of(curve: str, policy: str, number: float, seed: int) -> Policy:
    if policy:
        return policies.create(policy, seed=seed)
    if curve == "giant":
        return Shockwave(Settings(reservations=ReservationRules(wait_limit=number)))
    return Shockwave(Settings(index=IndexSettings(starved=number)))


def run(task: Task) -> dict[str, Any]:
    """One simulation; of ``stream`` as ``giant`` without its giant."""
    curve, policy, number, seed = task
    family = "stream" if policy == "stream" else curve
    made = policy_of(curve, "" if policy == "stream" else policy, number, seed)
    return figures_of(FAMILIES[family].workload(seed), made)


def tasks(seeds: Sequence[int]) -> list[Task]:
    giant = [("giant", "", wait, seed) for wait in WAITS for seed in seeds]
    giant += [("giant", name, 1.45, seed) for name in ("stream", "srtf", "fifo") for seed in seeds]
    wide = [("wide", "", starved, seed) for starved in STARVED for seed in seeds]
    wide += [("wide", name, 0.0, seed) for name in ("srtf", "fifo", "themis") for seed in seeds]
    return giant + wide


Runs = dict[Task, dict[str, Any]]


def giant_points(runs: Runs, seeds: Sequence[int]) -> list[Point]:
    """The giant's start in fair waits, and by how much the others finish later than without it."""

    def point(label: str, policy: str, wait: float) -> Point:
        starts, rises, worst, stops = [], [], [], []
        for seed in seeds:
            one = runs["giant", policy, wait, seed]
            fair = one["marked_jct_seconds"] / one["marked_worst_ftf_egalitarian"] - GIANT_SECONDS
            starts.append(one["marked_wait_seconds"] / fair)
            alone = runs["giant", "stream", 1.45, seed]["mean_jct_seconds"]
            rises.append(one["unmarked_jct_seconds"] / alone - 1.0)
            worst.append(one["worst_ftf_egalitarian"])
            stops.append(one["marked_restarts"])
        row = (
            label, f"{fmean(starts):.2f}", f"{max(starts):.2f}", f"{sum(stops)}",
            f"{fmean(rises):+.1%}", f"{max(rises):+.1%}", f"{fmean(worst):.2f}",
        )  # fmt: skip
        return Point(label, fmean(starts), 100.0 * fmean(rises), row)

    made = [point("never" if np.isinf(wait) else f"{wait:g}", "", wait) for wait in WAITS]
    return made + [point(name, name, 1.45) for name in ("srtf", "fifo")]


def wide_points(runs: Runs, seeds: Sequence[int]) -> list[Point]:
    """Mean completion time over SRTF's, and the worst egalitarian fairness."""

    def point(label: str, policy: str, starved: float) -> Point:
        ratios, ends, worst = [], [], []
        for seed in seeds:
            one, base = runs["wide", policy, starved, seed], runs["wide", "srtf", 0.0, seed]
            ratios.append(one["mean_jct_seconds"] / base["mean_jct_seconds"])
            ends.append(one["makespan_seconds"] / base["makespan_seconds"])
            worst.append(one["worst_ftf_egalitarian"])
        row = (
            label, f"{fmean(ratios):.3f}", f"{fmean(ends):.3f}", f"{fmean(worst):.2f}",
            f"{max(worst):.2f}",
        )  # fmt: skip
        return Point(label, fmean(ratios), fmean(worst), row)

    made = [point(f"{starved:g}", "", starved) for starved in STARVED]
    return made + [point(name, name, 0.0) for name in ("srtf", "fifo", "themis")]


COLUMNS = {
    "giant": ("promised after, fair waits", "starts after", "at most", "restarts of all seeds",
              "others' JCT", "at most", "worst egalitarian"),
    "wide": ("presses with", "JCT / SRTF", "makespan / SRTF", "worst egalitarian", "at most"),
}  # fmt: skip
CHOSEN = {"giant": "1.45", "wide": "16"}


def markdown(columns: Sequence[str], points: Sequence[Point]) -> str:
    rule = ["---"] + ["---:"] * (len(columns) - 1)
    rows = (columns, rule, *(point.row for point in points))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


_WIDTH, _HEIGHT, _PANEL, _LEFT, _DOT = 1040, 420, 400, 80, 14


def picture(giant: Sequence[Point], wide: Sequence[Point]) -> str:
    """Both curves side by side as a standalone SVG, without FIFO, which is far off."""
    giant, wide = ([point for point in points if point.label != "fifo"] for points in (giant, wide))
    percent: Callable[[float], str] = "{:.0f} %".format
    panels = (
        _panel("One gang of all GPUs in a stream", giant, "giant", 0, "its start, in fair waits",
               "later finish of the others", percent),
        _panel("Gangs as wide as the cluster", wide, "wide", 1, "mean JCT over SRTF's",
               "worst egalitarian FTF", None),
    )  # fmt: skip
    return standalone("Aims that cannot be had together", *panels)


def _panel(
    title: str, points: Sequence[Point], curve: str, place: int, x_label: str, y_label: str,
    text: Callable[[float], str] | None,
) -> Canvas:  # fmt: skip
    begin = _LEFT + place * (_PANEL + 2 * _LEFT - 40)
    xs, ys = (_axis([getattr(point, name) for point in points]) for name in ("x", "y"))
    margins = Margins(begin, _WIDTH - begin - _PANEL, 70, 60)
    canvas = Canvas(
        title, Axis(xs[0], xs[-1], xs, x_label), Axis(ys[0], ys[-1], ys, text=text), _WIDTH,
        _HEIGHT, margins,
    )  # fmt: skip
    canvas.draw_axes(vertical_grid=True)
    canvas.text(begin, 30, title, "start", "title")
    canvas.text(begin, 54, f"{y_label}; lower and further left is better", "start")
    ours = [point for point in points if point.label not in policies.names()]
    canvas.curve([(point.x, point.y) for point in ours], f"line {policy_class(0)}")
    labels: dict[tuple[int, int], list[str]] = {}  # of dots that lie on each other
    for point in points:
        kind = policy_class(0 if point in ours else 1)
        size = 7 if point.label == CHOSEN[curve] else 4
        x, y = canvas.x(point.x), canvas.y(point.y)
        canvas.dot(x, y, kind, ", ".join(point.row), size)
        labels.setdefault((round(x / _DOT) * _DOT, round(y / _DOT) * _DOT), []).append(point.label)
    for (left, top), names in labels.items():
        canvas.text(left + 8, top - 8, ", ".join(names), "start")
    return canvas


def _axis(values: Sequence[float]) -> list[float]:
    """Ticks that hold all values."""
    low, high = min(values), max(values)
    step = 10.0 ** np.floor(np.log10(max(high - low, 1e-6)))
    step = next(s * step for s in (0.1, 0.2, 0.5, 1.0, 2.0) if (high - low) / (s * step) <= 7)
    first, last = np.floor(low / step), np.ceil(high / step)
    return [float(step * n) for n in np.arange(first, last + 1)]


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=numbers, default=SEEDS, help="such as 201,202")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out"), help="where to write results")
    given = parser.parse_args()
    seeds, runs = given.seeds, Runs()
    todo = tasks(seeds)
    with ProcessPoolExecutor(given.workers, get_context("spawn")) as pool:
        for task, figures in zip(todo, pool.map(run, todo), strict=True):
            runs[task] = figures
            print(f"{len(runs)}/{len(todo)} {task}", flush=True)
    giant, wide = giant_points(runs, seeds), wide_points(runs, seeds)
    given.out.mkdir(parents=True, exist_ok=True)
    with atomic_writer(given.out / "tradeoffs.json") as file:
        json.dump([[*task, figures] for task, figures in runs.items()], file, indent=1)
    with atomic_writer(given.out / "tradeoffs.svg") as file:
        file.write(picture(giant, wide))
    print(markdown(COLUMNS["giant"], giant))
    print(markdown(COLUMNS["wide"], wide))


if __name__ == "__main__":
    main()
