"""What was measured of the training programs of Pollux and Sia, and how fast they are with it.

Every application has a folder of profiles: ``validation-N.csv`` (a row an epoch at batch size
``N``: ``iteration`` counts steps from the start, ``progress`` what they are worth in steps of the
smallest batch, ``grad_sqr`` and ``grad_var`` are statistics of the gradients), ``placements*.csv``
(seconds a step takes on a placement, written as GPUs per node: 44 is two nodes of four) and
``scalability*.csv`` (the same by nodes and GPUs). The suffix of the last two says the type of GPU.

A batch that does not fit the GPUs is computed in ``parts`` of equal size, and gradients are
exchanged once: a step takes ``step + (parts - 1) * (step - sync)`` seconds. Between profiled batch
sizes and numbers of GPUs, times are interpolated linearly.

With a batch ``m`` times the smallest one, a step is worth ``(var + sqr) / (var / m + sqr)`` steps
of the smallest. A tuned job takes the batch size that makes most progress per second.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shockwave.model.errors import TraceError
from shockwave.model.job import TraceJob
from shockwave.model.speeds import Speeds
from shockwave.model.view import Bools, Floats
from shockwave.traces.base import Rejects, RowError
from shockwave.traces.recorded import TableFormat, number

_VALIDATION = re.compile(r"validation-(\d+)\.csv")
# Types of GPUs by the suffix of their tables, and how many a node has. Of those of one type the
# first counts; a job without a choice is as fast as on the first of all.
_GPU_TYPES = {
    "": ("T4", 4), "-aws": ("T4", 4), "-rtx": ("2080Ti", 8), "-quad": ("RTX6000", 4),
    "-dgx-ext": ("A100", 8), "-dgx": ("A100", 8), "-azure": ("V100", 8),
}  # fmt: skip
UNNAMED = "gpu"  # the type of nodes that name none: such GPUs are of the first profiled type
MOST_GPUS = 1 << 16
_BATCH_SIZES_TRIED = 50


class _Profile(TableFormat):
    """A table of a profile; any order of columns will do."""

    name = "sia-profile"

    def __init__(self, columns: frozenset[str]) -> None:
        self.columns = columns

    def job(self, row: Mapping[str, str], source: str, line: int) -> TraceJob:
        raise NotImplementedError("a profile has no jobs")

    def numbers(self, path: Path) -> list[dict[str, float]]:
        """The rows of the file. Raises :class:`TraceError` for one that is not all numbers."""
        rejects = Rejects()
        found: list[dict[str, float]] = []
        for line, row in self.rows(path, rejects):
            try:
                found.append({name: number(row[name], name) for name in self.columns})
            except RowError as unusable:
                problem = f"rows must not {unusable.reason}"
                raise TraceError(problem, source=str(path), place=f"line {line}") from None
        if rejects.total or not found:
            problem = (
                f"its rows cannot be read: {rejects.told()}" if rejects.total else "has no rows"
            )
            raise TraceError(problem, source=str(path))
        return found


@dataclass(frozen=True)
class Gradients:
    """Statistics that tell what a larger batch is worth."""

    sizes: Floats  # [size] ascending
    progress: Floats  # [epoch] made in it
    squared: Floats  # [size, epoch]
    variance: Floats  # [size, epoch]

    def gain(self, batch: Floats) -> Floats:
        """[batch size, epoch] the steps of the smallest batch that one step is worth."""
        above = np.clip(np.searchsorted(self.sizes, batch), 1, len(self.sizes) - 1)
        low, high = self.sizes[above - 1], self.sizes[above]
        part = np.clip((batch - low) / (high - low), 0.0, 1.0)[:, None]
        squared = (1 - part) * self.squared[above - 1] + part * self.squared[above]
        variance = (1 - part) * self.variance[above - 1] + part * self.variance[above]
        scale = (batch / self.sizes[0])[:, None]
        rest = variance / scale + squared
        worth = np.divide(variance + squared, rest, out=np.ones_like(rest), where=rest > 0)
        return np.asarray(worth)


@dataclass(frozen=True)
class Application:
    """What was measured of one training program.

    ``gradients`` is None where they were not measured: then nobody knows what another batch size
    would do, and jobs are rigid.
    """

    steps: Mapping[int, Floats]  # by batch size: steps until the end of every epoch
    speeds: Mapping[int, Floats]  # by GPUs: rows of local batch size, step and sync seconds
    by_type: Mapping[str, tuple[int, Mapping[int, Floats]]]  # GPUs of a node, and the same
    gradients: Gradients | None = None

    @property
    def epochs(self) -> int:
        return min(len(steps) for steps in self.steps.values())

    @property
    def batch_sizes(self) -> tuple[int, int]:
        return min(self.steps), max(self.steps)

    @property
    def smallest_local_size(self) -> float:
        """The smallest batch that was measured on a single GPU of a gang."""
        return float(min(table[0, 0] for table in self.speeds.values()))

    def epoch_seconds(self, batch_size: int, gpus: int) -> float:
        """The mean over all epochs at that batch size on the first type, rounded to 0.1 ms."""
        sizes = sorted(self.steps)
        totals = [float(self.steps[size][self.epochs - 1]) for size in sizes]
        steps = float(np.interp(batch_size, sizes, totals)) / self.epochs
        seconds = _step_seconds(self.speeds, np.array([float(batch_size)]), gpus)
        return round(steps * float(seconds[0]), 4)

    def tuned_speeds(self, slowdown: float = 1.0) -> Speeds | None:
        """Seconds of every epoch with the best batch size, on whatever was profiled.

        1, 2, 4, ... GPUs of a node, then whole nodes. None where gradients were not measured.
        """
        if self.gradients is None:
            return None
        found = {}
        for gpu_type, (node_gpus, tables) in self.by_type.items():
            smallest = min(float(table[0, 0]) for table in tables.values())
            most = min(max(tables), int(self.batch_sizes[1] // smallest))
            within = [2**k for k in range(int(math.log2(node_gpus)) + 1)]
            several = (*within, *range(2 * node_gpus, most + 1, node_gpus))
            counts = [n for n in several if min(tables) <= n <= most] or [min(tables)]
            found[gpu_type] = {n: self._tuned(tables, n, smallest, slowdown) for n in counts}
        return Speeds({UNNAMED: next(iter(found.values())), **found})

    def _tuned(
        self, tables: Mapping[int, Floats], gpus: int, smallest: float, slowdown: float
    ) -> tuple[float, ...]:
        assert self.gradients is not None
        least, most = self.batch_sizes
        batch = np.geomspace(max(least, smallest * gpus), most, _BATCH_SIZES_TRIED)
        # The gradients of a single batch tell too little to learn faster: one GPU takes two.
        halved = (batch > least * (1 + 1e-8)) if gpus == 1 else np.zeros(len(batch), dtype=bool)
        seconds = _step_seconds(tables, batch, gpus, halved)
        fastest = (self.gradients.gain(batch) / seconds[:, None]).max(axis=0)
        times = self.gradients.progress / fastest * slowdown
        return tuple(round(float(time), 4) for time in times)

    @classmethod
    def read(cls, folder: Path) -> Application:
        """The profiles in the folder. Raises :class:`TraceError` where one is missing or bad."""
        steps: dict[int, Floats] = {}
        paths: dict[int, Path] = {}
        for path in sorted(folder.iterdir()):
            match = _VALIDATION.fullmatch(path.name)
            if match is not None and int(match[1]) > 0:
                rows = _Profile(frozenset(("progress", "iteration"))).numbers(path)
                steps[int(match[1])] = np.array([row["iteration"] for row in rows])
                paths[int(match[1])] = path
        if not steps:
            raise TraceError("has no validation-N.csv", source=str(folder))
        suffixes = [s for s in _GPU_TYPES if (folder / f"placements{s}.csv").is_file()]
        by_type: dict[str, tuple[int, Mapping[int, Floats]]] = {}
        for suffix, (gpu_type, node_gpus) in _GPU_TYPES.items():
            if gpu_type not in by_type and suffix in suffixes:
                found = _speeds(folder, suffix, node_gpus)
                by_type |= {gpu_type: (node_gpus, found)} if found else {}
        if not suffixes:
            raise TraceError("has no placements.csv", source=str(folder))
        speeds = _speeds(folder, suffixes[0])
        if not speeds:
            path = folder / f"placements{suffixes[0]}.csv"
            raise TraceError("has no times above 0", source=str(path))
        gradients = _gradients(dict(sorted(paths.items()))) if by_type else None
        return cls(steps, speeds, by_type, gradients)


def _gradients(paths: Mapping[int, Path]) -> Gradients | None:
    columns = frozenset(("progress", "grad_sqr", "grad_var"))
    for path in paths.values():
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            if not columns <= {name.strip() for name in file.readline().split(",")}:
                return None
    if len(paths) < 2:
        return None
    tables = [_Profile(columns).numbers(path) for path in paths.values()]
    epochs = min(len(rows) for rows in tables)
    column = {
        name: np.array([[row[name] for row in rows[:epochs]] for rows in tables])
        for name in columns
    }
    progress = np.diff(column["progress"].min(axis=0), prepend=0.0)
    if not ((progress > 0).all() and min(column["grad_sqr"].min(), column["grad_var"].min()) >= 0):
        problem = "must make progress in every epoch, and gradients must not be negative"
        raise TraceError(problem, source=str(next(iter(paths.values())).parent))
    sizes = np.array(list(paths), dtype=np.float64)
    return Gradients(sizes, progress, column["grad_sqr"], column["grad_var"])


def _step_seconds(
    tables: Mapping[int, Floats], batch: Floats, gpus: int, halved: Bools | None = None
) -> Floats:
    """[batch size] seconds of a step, between the numbers of GPUs that were measured."""
    widths = sorted(tables)
    above = next((width for width in widths if width >= gpus), widths[-1])
    below = max((width for width in widths if width <= gpus), default=widths[0])
    low, high = (_on(tables[width], batch / gpus, halved) for width in (below, above))
    part = 0.0 if above == below else (gpus - below) / (above - below)
    return np.asarray(low + (high - low) * part)


def _on(table: Floats, local_size: Floats, halved: Bools | None) -> Floats:
    parts = np.maximum(np.ceil(local_size / float(table[-1, 0]) - 1e-8), 1.0)
    if halved is not None:
        parts = np.where(halved, np.maximum(parts, 2.0), parts)
    step = np.interp(local_size / parts, table[:, 0], table[:, 1])
    sync = np.interp(local_size / parts, table[:, 0], table[:, 2])
    return np.asarray(step + (parts - 1) * np.maximum(step - sync, 0.0))


def _speeds(folder: Path, suffix: str, node_gpus: int | None = None) -> dict[int, Floats]:
    """By number of GPUs, on as few nodes as were measured.

    With ``node_gpus`` only what lies within a node of so many, or fills several of them.
    """
    found: dict[int, dict[int, list[tuple[float, float, float]]]] = defaultdict(dict)

    def add(nodes: int, gpus: int, row: dict[str, float]) -> None:
        whole = nodes == 1 if node_gpus is None or gpus <= node_gpus else gpus == nodes * node_gpus
        if node_gpus is not None and not whole:
            return
        if 1 <= gpus <= MOST_GPUS and row["local_bsz"] > 0 and row["step_time"] > 0:
            measured = (row["local_bsz"], row["step_time"], row["sync_time"])
            found[gpus].setdefault(nodes, []).append(measured)

    times = frozenset(("local_bsz", "step_time", "sync_time"))
    for row in _Profile(times | {"placement"}).numbers(folder / f"placements{suffix}.csv"):
        placement = str(int(row["placement"]))
        add(len(placement), sum(int(digit) for digit in placement if digit.isdigit()), row)
    scaling = folder / f"scalability{suffix}.csv"
    if scaling.is_file():
        for row in _Profile(times | {"num_nodes", "num_replicas"}).numbers(scaling):
            add(int(row["num_nodes"]), int(row["num_replicas"]), row)
    return {gpus: _averaged(by_nodes[min(by_nodes)]) for gpus, by_nodes in found.items()}


def _averaged(rows: list[tuple[float, float, float]]) -> Floats:
    """One row a local batch size, ascending."""
    table = np.array(sorted(rows))
    sizes = np.unique(table[:, 0])
    return np.array([table[table[:, 0] == size].mean(axis=0) for size in sizes])
