"""All policies on all families of workloads, and how far each is from the best.

    python bench/families.py                                 # all, on the seeds of reports
    python bench/families.py --seeds tune                    # seeds and families to choose on
    python bench/families.py --family giant --policy srtf --policy shockwave --seeds 1,2

Prints a table for each figure and one of regrets, and writes ``out/families.json`` and
``out/families.svg``. Settings are chosen with ``--seeds tune``, which leaves out the families
that are kept aside, and reported with ``--seeds report``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from shockwave.measure.charts.heatmap import Panel, heatmap_svg
from shockwave.measure.regret import MEASURES, Measure, means, regrets, standings
from shockwave.measure.workloads import figures_of
from shockwave.policies import registry as policies
from shockwave.protocol.files import atomic_writer
from shockwave.traces.families import FAMILIES, REPORT_SEEDS, TUNE_SEEDS

Task = tuple[str, str, int]  # family, policy, seed
Run = dict[str, Any]

# Regrets above which a cell of the picture is one shade darker.
_LEVELS = {False: (1.03, 1.1, 1.25, 1.6), True: (0.02, 0.05, 0.15, 0.3)}


def run(task: Task) -> Run:
    """One simulation."""
    family, policy, seed = task
    workload = FAMILIES[family].workload(seed)
    figures = figures_of(workload, policies.create(policy, seed=seed))
    return {"family": family, "policy": policy, "seed": seed, **figures}


def run_all(tasks: Sequence[Task], workers: int) -> Iterator[Run]:
    """All simulations, as they end."""
    if workers == 1:
        yield from map(run, tasks)
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        pending = [pool.submit(run, task) for task in tasks]
        for done in as_completed(pending):
            yield done.result()


def figures_table(runs: Sequence[Run], measure: Measure, names: Sequence[str]) -> Table:
    """A row per family, a column per policy."""
    table = Table(title=f"{measure.title}, mean over seeds", title_justify="left")
    table.add_column("family", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    for family, figures in means(runs, measure).items():
        cells = [measure.write(figures[name]) if name in figures else "-" for name in names]
        table.add_row(family, *cells)
    return table


def regret_table(runs: Sequence[Run], names: Sequence[str]) -> Table:
    """A row per policy: mean and worst regret of every measure over all families."""
    table = Table(
        title="Regret against the best policy of each family that does not know the future: "
        "mean, worst and where (ratios; shares in percentage points)",
        title_justify="left",
    )
    table.add_column("policy", no_wrap=True)
    by_measure = {measure: standings(regrets(runs, measure)) for measure in MEASURES}
    for measure in MEASURES:
        table.add_column(measure.title, justify="right")
    for name in names:
        cells = []
        for measure, table_of in by_measure.items():
            standing = table_of.get(name)
            cells.append(
                "-"
                if standing is None
                else f"{measure.write_regret(standing.mean)}  "
                f"{measure.write_regret(standing.worst)} {standing.worst_family}"
            )
        table.add_row(name, *cells)
    return table


def marked_table(runs: Sequence[Run], names: Sequence[str]) -> Table:
    """The jobs that a family is about, apart from all others."""
    table = Table(title="Jobs that a family is about", title_justify="left")
    for column in ("family", "policy", "JCT, marked", "JCT, others", "first start after",
                   "restarts, marked", "worst egalitarian, marked"):  # fmt: skip
        table.add_column(column, justify="left" if column in ("family", "policy") else "right")
    columns = tuple(
        Measure(key, key)
        for key in ("marked_jct_seconds", "unmarked_jct_seconds", "marked_wait_seconds",
                    "marked_restarts", "marked_worst_ftf_egalitarian")
    )  # fmt: skip
    grids = [means(runs, column) for column in columns]
    for family in grids[0]:
        for name in names:
            if name in grids[0][family]:
                cells = [
                    column.write(grid[family][name])
                    for column, grid in zip(columns, grids, strict=True)
                ]
                table.add_row(family, name, *cells)
    return table


def picture(runs: Sequence[Run], names: Sequence[str]) -> str:
    """The regrets of all families as an SVG."""
    panels = [
        Panel(measure.title, grid, _LEVELS[measure.share], measure.write_regret)
        for measure in MEASURES
        if (grid := regrets(runs, measure))
    ]
    return heatmap_svg(
        "How far every policy is from the best, family by family",
        panels,
        names,
        "1.00 is the best policy that does not know the future; shares in percentage points "
        "above the best",
    )


def write(out: Path, runs: Sequence[Run], names: Sequence[str]) -> None:
    with atomic_writer(out / "families.json") as file:
        json.dump(runs, file, indent=1)
        file.write("\n")
    with atomic_writer(out / "families.svg") as file:
        file.write(picture(runs, names))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="All policies on all families of workloads.")
    parser.add_argument("--family", action="append", choices=list(FAMILIES), metavar="NAME")
    parser.add_argument("--policy", action="append", choices=policies.names(), metavar="NAME")
    parser.add_argument("--seeds", default="report", help="report, tune, or such as 1,2,3")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("out"), help="where to write results")
    parser.add_argument(
        "--from", dest="source", type=Path, help="show the runs of this file, run nothing"
    )
    arguments = parser.parse_args()
    if arguments.seeds in ("tune", "report"):
        chosen = TUNE_SEEDS if arguments.seeds == "tune" else REPORT_SEEDS
    else:
        try:
            chosen = tuple(int(seed) for seed in arguments.seeds.split(","))
        except ValueError:
            parser.error(f"--seeds: expected report, tune or such as 1,2 (got {arguments.seeds})")
    arguments.family = arguments.family or [
        name
        for name, family in FAMILIES.items()
        if arguments.seeds != "tune" or not family.kept_aside
    ]
    arguments.policy = arguments.policy or policies.names()
    arguments.seeds = chosen
    return arguments


def main() -> None:
    arguments = parsed()
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    progress = Console(stderr=True, highlight=False)
    tasks: list[Task] = [
        (family, policy, seed)
        for seed in arguments.seeds
        for family in arguments.family
        for policy in arguments.policy
    ]
    arguments.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    runs: list[Run] = json.loads(arguments.source.read_text()) if arguments.source else []
    for result in run_all([] if arguments.source else tasks, arguments.workers):
        runs.append(result)
        left = (time.perf_counter() - began) / len(runs) * (len(tasks) - len(runs))
        progress.print(
            f"{len(runs)}/{len(tasks)}, {left / 60:.1f} min left: {result['family']}, "
            f"{result['policy']}, seed {result['seed']} ({result['wall_seconds']:.1f} s)",
            soft_wrap=True,
        )
        if len(runs) % 50 == 0:  # a run that is cut short leaves what it has
            write(arguments.out, runs, arguments.policy)
    place = {task: number for number, task in enumerate(tasks)}
    runs = [r for r in runs if (r["family"], r["policy"], r["seed"]) in place]
    runs.sort(key=lambda r: place[r["family"], r["policy"], r["seed"]])
    write(arguments.out, runs, arguments.policy)
    for measure in MEASURES:
        console.print(figures_table(runs, measure, arguments.policy))
    if any("marked_jct_seconds" in r for r in runs):
        console.print(marked_table(runs, arguments.policy))
    console.print(regret_table(runs, arguments.policy))


if __name__ == "__main__":
    main()
