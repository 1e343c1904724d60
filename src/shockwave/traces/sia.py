"""The workloads of Pollux and Sia: ``name,time,application,num_replicas,batch_size``.

Every application has a folder of profiles: ``validation-N.csv`` (a row an epoch at batch size
``N``, ``iteration`` counts steps from the start), ``placements*.csv`` (seconds a step takes on
a placement, written as GPUs per node: 44 is two nodes of four) and ``scalability*.csv`` (the
same by nodes and GPUs). Both papers' jobs are elastic; here a job is rigid, with the GPUs and
the batch size that it asks for, and its bounds are kept as ``elastic_gpus_min``,
``elastic_gpus_max``, ``elastic_batch_size_min`` and ``elastic_batch_size_max``.

An epoch takes ``steps * (step + (parts - 1) * (step - sync))`` seconds: a batch that does not
fit the GPUs is computed in ``parts`` of equal size, and gradients are exchanged once. Between
profiled batch sizes and numbers of GPUs, times are interpolated linearly.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shockwave.model.errors import InputError, TraceError
from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob
from shockwave.model.view import Floats
from shockwave.traces.base import Rejects, RowError
from shockwave.traces.recorded import TableFormat, number, whole

_FOLDERS_ABOVE = 3
_VALIDATION = re.compile(r"validation-(\d+)\.csv")
# The first of these that an application has: no suffix and "aws" are the same GPUs, NVIDIA T4.
_GPU_TYPES = ("", "-aws", "-rtx", "-quad", "-dgx-ext", "-dgx", "-azure")
_MOST_GPUS = 1 << 16


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
class Application:
    """What was measured of one training program."""

    steps: Mapping[int, Floats]  # by batch size: steps until the end of every epoch
    speeds: Mapping[int, Floats]  # by GPUs: rows of local batch size, step and sync seconds

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
        """The mean over all epochs, rounded to 0.1 ms."""
        sizes = sorted(self.steps)
        totals = [float(self.steps[size][self.epochs - 1]) for size in sizes]
        steps = float(np.interp(batch_size, sizes, totals)) / self.epochs
        widths = sorted(self.speeds)
        seconds = [self._step_seconds(batch_size / gpus, width) for width in widths]
        return round(float(steps * np.interp(gpus, widths, seconds)), 4)

    def _step_seconds(self, local_size: float, gpus: int) -> float:
        table = self.speeds[gpus]
        parts = max(math.ceil(local_size / float(table[-1, 0]) - 1e-8), 1)
        step = float(np.interp(local_size / parts, table[:, 0], table[:, 1]))
        sync = float(np.interp(local_size / parts, table[:, 0], table[:, 2]))
        return step + (parts - 1) * max(step - sync, 0.0)

    @classmethod
    def read(cls, folder: Path) -> Application:
        """The profiles in the folder. Raises :class:`TraceError` where one is missing or bad."""
        steps: dict[int, Floats] = {}
        for path in sorted(folder.iterdir()):
            match = _VALIDATION.fullmatch(path.name)
            if match is not None and int(match[1]) > 0:
                rows = _Profile(frozenset(("progress", "iteration"))).numbers(path)
                steps[int(match[1])] = np.array([row["iteration"] for row in rows])
        if not steps:
            raise TraceError("has no validation-N.csv", source=str(folder))
        suffix = next((s for s in _GPU_TYPES if (folder / f"placements{s}.csv").is_file()), None)
        if suffix is None:
            raise TraceError("has no placements.csv", source=str(folder))
        return cls(steps, _speeds(folder, suffix))


def _speeds(folder: Path, suffix: str) -> dict[int, Floats]:
    """By number of GPUs, on as few nodes as were measured."""
    found: dict[int, dict[int, list[tuple[float, float, float]]]] = defaultdict(dict)

    def add(nodes: int, gpus: int, row: dict[str, float]) -> None:
        if 1 <= gpus <= _MOST_GPUS and row["local_bsz"] > 0 and row["step_time"] > 0:
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
    if not found:
        raise TraceError("has no times above 0", source=str(folder / f"placements{suffix}.csv"))
    return {gpus: _averaged(by_nodes[min(by_nodes)]) for gpus, by_nodes in found.items()}


def _averaged(rows: list[tuple[float, float, float]]) -> Floats:
    """One row a local batch size, ascending."""
    table = np.array(sorted(rows))
    sizes = np.unique(table[:, 0])
    return np.array([table[table[:, 0] == size].mean(axis=0) for size in sizes])


class SiaFormat(TableFormat):
    """A workload of Pollux or Sia. The application is the model."""

    name = "sia"
    columns = frozenset(("name", "time", "application", "num_replicas", "batch_size"))
    assumptions = (
        "jobs are rigid, with the GPUs and the batch size that they ask for, and never adapt; "
        "bounds of elastic jobs are kept as elastic_gpus_min, elastic_gpus_max, "
        "elastic_batch_size_min and elastic_batch_size_max",
        "all GPUs are of one type, the first of T4, RTX 2080 Ti, Quadro RTX 6000, A100 and V100 "
        "that is profiled, and a gang takes as few nodes as were measured",
        "an epoch takes the mean over all epochs of its batch size",
    )

    def stream(self, path: Path, rejects: Rejects) -> Iterator[TraceJob]:
        folder = self._find_profiles(path)
        self._folders = {entry.name: entry for entry in folder.iterdir() if entry.is_dir()}
        self._applications: dict[str, Application] = {}
        yield from super().stream(path, rejects)

    def job(self, row: Mapping[str, str], source: str, line: int) -> TraceJob:
        application = self._application(row["application"])
        gpus = whole(row["num_replicas"], "number of GPUs")
        size = whole(row["batch_size"], "batch size")
        if not 1 <= gpus <= _MOST_GPUS:
            raise RowError("need no GPU, or more than anyone has", str(gpus))
        smallest, largest = application.batch_sizes
        if not smallest <= size <= largest:
            raise RowError("have a batch size outside of the profiled ones", str(size))
        if not (row["name"] and row["name"].isprintable()):
            raise RowError("have no id")
        seconds = application.epoch_seconds(size, gpus)
        if not 0 < seconds < math.inf:
            raise RowError("have no time in the profiles", f"{size} on {gpus} GPUs")
        return TraceJob(
            JobSpec(
                id=row["name"],
                arrival_seconds=number(row["time"], "arrival"),
                gpus=gpus,
                epochs=application.epochs,
                configurations=(size,),
                epoch_seconds=(seconds,),
                adaptation=Adaptation.STATIC,
                model=row["application"],
            ),
            (Regime(size, application.epochs, seconds),),
            {
                "elastic_gpus_min": 1,
                "elastic_gpus_max": max(int(largest // application.smallest_local_size), gpus),
                "elastic_batch_size_min": smallest,
                "elastic_batch_size_max": largest,
                "source": source,
            },
        )

    def _application(self, name: str) -> Application:
        if name not in self._folders:
            raise RowError("have an application without profiles", name)
        if name not in self._applications:
            self._applications[name] = Application.read(self._folders[name])
        return self._applications[name]

    def _find_profiles(self, path: Path) -> Path:
        if self.profiles is not None:
            if not self.profiles.is_dir():
                problem = "is a file, expected the folder of the applications' profiles"
                raise InputError(problem, source=str(self.profiles), place="--profiles")
            return self.profiles
        folder = path.absolute().parent
        for _ in range(_FOLDERS_ABOVE + 1):
            for found in (folder, folder / "traces", folder / "sched" / "traces"):
                if any(found.glob("*/validation-*.csv")):
                    return found
            folder = folder.parent
        raise InputError(
            "the profiles of its applications are not beside it",
            source=str(path),
            hint="Name their folder by --profiles, the one with APPLICATION/placements.csv",
        )
