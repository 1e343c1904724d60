"""``shockwave leaderboard``: all policies on a declared suite of workloads, ranked by regret."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from shockwave.cli.console import console, note, one_line_errors, progress_bar
from shockwave.cli.leaderboard_cache import Cache
from shockwave.cli.leaderboard_page import leaderboard_page
from shockwave.measure.ranking import COST, Ranked, ranking
from shockwave.measure.regret import MEASURES
from shockwave.measure.workloads import Figures, figures_of
from shockwave.model.cluster import Cluster
from shockwave.model.errors import InputError
from shockwave.model.files import check_writable
from shockwave.policies import registry as policies
from shockwave.protocol.files import atomic_writer
from shockwave.traces import load
from shockwave.traces.families import FAMILIES, REPORT_SEEDS, Workload
from shockwave.traces.formats import find_format
from shockwave.version import __version__

# Workloads where jobs have a choice of GPUs: a recipe, and its cluster.
ELASTIC = {
    "elastic": ("generated:jobs=100,elastic=1", "gpu:8x4"),
    "elastic-types": ("generated:jobs=100,elastic=1,types=T4:1/A100:4", "T4:6x4,A100:2x4"),
    "half-elastic": ("generated:jobs=100,elastic=0.5,types=T4:1/A100:4", "T4:6x4,A100:2x4"),
}

# Workloads and seeds by suite. The quick one is what a newcomer waits for.
_QUICK = ("batch", "load-90", "heavy-tail", "gns", "failures", "giant")
SUITES: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "quick": ((*_QUICK, "elastic-types"), REPORT_SEEDS[:1]),
    "standard": (
        (*_QUICK, "load-60", "bursts", "accordion", "zigzag", "weights", *ELASTIC),
        REPORT_SEEDS[:1],
    ),
    "full": ((*FAMILIES, *ELASTIC), REPORT_SEEDS),
}


@dataclass(frozen=True)
class Task:
    """One simulation. ``trace`` and ``gpus`` are of a workload that is a file."""

    family: str
    seed: int
    policy: str
    trace: str | None = None
    gpus: int = 0

    def workload(self) -> Workload:
        if self.trace is None and self.family in ELASTIC:
            recipe, cluster = ELASTIC[self.family]
            return Workload(tuple(load(recipe, seed=self.seed)), Cluster.parse(cluster))
        if self.trace is None:
            return FAMILIES[self.family].workload(self.seed)
        return Workload(tuple(load(self.trace)), Cluster.uniform(self.gpus, 4))

    def run(self) -> Figures:
        return figures_of(self.workload(), policies.create(self.policy, seed=self.seed))


def leaderboard(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The page to write (HTML).")
    ] = Path("leaderboard.html"),
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write all figures to this file.")
    ] = None,
    suite: Annotated[str, typer.Option(help=f"One of {', '.join(SUITES)}.")] = "quick",
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", "-p", help="Add one of your own, as my_package:Mine; repeat for more."
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only these policies instead of all; repeat.")
    ] = None,
    trace: Annotated[
        list[str] | None,
        typer.Option(help="Add a trace of any format with its cluster, as FILE@GPUS; repeat."),
    ] = None,
    cache: Annotated[
        Path, typer.Option(help="Folder of results that need not be computed again.")
    ] = Path(".leaderboard"),
    workers: Annotated[int | None, typer.Option(help="Processes to use.", min=1)] = None,
) -> None:
    """Rank all policies on a suite of generated workloads, and on traces that are at hand."""
    with one_line_errors():
        if suite not in SUITES:
            raise InputError(f"must be one of {', '.join(SUITES)}", place="--suite", value=suite)
        for path in (output, json_path):
            if path is not None:
                check_writable(path)
        names = list(
            dict.fromkeys([*(only or policies.that_can_run(options=False)), *(policy or [])])
        )
        for name in names:
            policies.create(name)  # a wrong name is an error before anything runs
        if cache.exists() and not cache.is_dir():
            raise InputError("is not a folder", place="--cache", value=str(cache))
        tasks = _tasks(suite, names, trace or [])
        results = _results(tasks, Cache(cache), workers or os.cpu_count() or 1)
        runs = [
            {"family": task.family, "policy": task.policy, "seed": task.seed, **results[task]}
            for task in tasks
        ]
        ranked = ranking(runs, names)
        title = f"Leaderboard: {len(names)} policies, {len({t.family for t in tasks})} workloads"
        console.print(_table(ranked, title))
        with atomic_writer(output) as file:
            file.write(leaderboard_page(runs, ranked, title, suite))
        note(f"Page: {output}")
        if json_path is not None:
            with atomic_writer(json_path) as file:
                json.dump(_document(suite, runs, ranked), file, indent=1)
                file.write("\n")


def _tasks(suite: str, names: Sequence[str], traces: Sequence[str]) -> list[Task]:
    families, seeds = SUITES[suite]
    without_solver = set(policies.names()) - set(policies.that_can_run(options=True))
    tasks = [
        Task(family, seed, name)
        for family in families
        for seed in seeds
        for name in names
        if family not in ELASTIC or name not in without_solver
    ]
    for text in traces:
        path, at, gpus = text.rpartition("@")
        if not at or not gpus.isdigit() or int(gpus) < 1:
            raise InputError("must be FILE@GPUS", place="--trace", value=text)
        if not Path(path).exists():
            raise InputError("no such file", place="--trace", value=path)
        find_format(Path(path))  # what nobody can read is an error before anything runs
        family = f"{Path(path).name}, {gpus} GPUs"
        tasks += [Task(family, 0, name, path, int(gpus)) for name in names]
    return tasks


def _results(tasks: Sequence[Task], cache: Cache, workers: int) -> dict[Task, Figures]:
    found = {task: figures for task in tasks if (figures := cache.get(task)) is not None}
    left = [task for task in tasks if task not in found]
    if found:
        note(f"{len(found):,} of {len(tasks):,} results are known already")
    with progress_bar("simulations") as bar:
        doing = bar.add_task("leaderboard", total=len(left))
        for task, figures in _computed(left, workers):
            cache.put(task, figures)
            found[task] = figures
            bar.update(doing, advance=1)
    return found


def _computed(tasks: Sequence[Task], workers: int) -> Iterator[tuple[Task, Figures]]:
    if workers == 1 or len(tasks) < 2:
        yield from ((task, task.run()) for task in tasks)
        return
    # Not forked: a fork of a process with threads (the progress display) can deadlock.
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        pending = {pool.submit(Task.run, task): task for task in tasks}
        for future in as_completed(pending):
            yield pending[future], future.result()


def _document(suite: str, runs: Sequence[dict[str, Any]], ranked: Sequence[Ranked]) -> object:
    """What depends on the speed of the machine stands apart, under ``wall_clock``."""
    return {
        "version": __version__,
        "suite": suite,
        "ranks": {
            row.policy: {
                key: {
                    "rank": place.rank,
                    "mean_regret": _rounded(place.mean),
                    "ci95": _rounded(place.half_width),
                    "worst_regret": _rounded(place.worst),
                    "worst_workload": place.worst_family,
                }
                for key, place in row.places.items()
            }
            for row in ranked
        },
        "runs": [
            {key: _rounded(value) for key, value in run.items() if key not in COST} for run in runs
        ],
        "wall_clock": [
            {key: run[key] for key in ("family", "policy", "seed", *COST) if key in run}
            for run in runs
        ],
    }


def _rounded(value: Any) -> Any:
    """Nine digits: more than anyone reads, fewer than processors disagree about."""
    return float(f"{value:.9g}") if isinstance(value, float) else value


def _table(ranked: Sequence[Ranked], title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("policy", no_wrap=True)
    table.add_column("mean\nrank", justify="right")
    for measure in MEASURES:
        table.add_column(measure.title, justify="right")
    table.add_column("decision\nmean, ms", justify="right")
    for row in ranked:
        cells = []
        for measure in MEASURES:
            place = row.places.get(measure.key)
            cells.append("-" if place is None else f"{place.rank}. {place.told(measure)}")
        name = f"{row.policy} (knows the future)" if row.clairvoyant else row.policy
        table.add_row(name, f"{row.mean_rank:.1f}", *cells, f"{row.plan_seconds * 1000:.2f}")
    table.caption = (
        "Rank, and mean regret against the best policy that does not know the future, with a 95 % "
        "interval over workloads: ratios, or percentage points for shares."
    )
    table.caption_justify = "left"
    return table
