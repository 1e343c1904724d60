"""The workloads of Pollux and Sia: ``name,time,application,num_replicas,batch_size``.

The profiles of the applications (:mod:`shockwave.traces.sia_profiles`) say how fast a job is. A job
whose gradients were measured is elastic, with the batch size tuned on whatever it runs; without
them it is rigid, with the GPUs and the batch size that it asks for, and how far it could be resized
is kept as ``elastic_gpus_min``, ``elastic_gpus_max``, ``elastic_batch_size_min`` and
``elastic_batch_size_max``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from shockwave.model.errors import InputError
from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob, timeline
from shockwave.model.speeds import Speeds
from shockwave.traces.base import Rejects, RowError
from shockwave.traces.recorded import TableFormat, number, whole
from shockwave.traces.sia_profiles import MOST_GPUS, Application

_FOLDERS_ABOVE = 3
# As in Sia's simulator (simulator_config.py and applications.py): how much slower jobs were on real
# clusters than their profiles say, and what a start costs. Pollux has neither.
_SLOWDOWNS = {
    "cifar10": 1.8, "imagenet": 1.2, "yolov3": 1.2, "bert": 1.2, "deepspeech2": 1.2, "ncf": 1.5,
}  # fmt: skip
_RESTART_SECONDS = {
    "cifar10": 50.0, "deepspeech2": 25.0, "bert": 120.0, "yolov3": 80.0, "imagenet": 250.0,
    "ncf": 15.0,
}  # fmt: skip


class SiaFormat(TableFormat):
    """A workload of Pollux or Sia. The application is the model."""

    name = "sia"
    columns = frozenset(("name", "time", "application", "num_replicas", "batch_size"))
    assumptions = (
        "jobs whose gradients were measured are elastic, and their batch size is at any time the "
        "one that makes most progress; a gang takes as few nodes as were measured; GPUs without a "
        "name are the first type that is profiled, T4 before RTX 2080 Ti, Quadro RTX 6000, A100 "
        "and V100; where several types are profiled, slowdowns and costs of starts are those of "
        "Sia's simulator",
        "other jobs are rigid, with the GPUs and the batch size that they ask for; an epoch takes "
        "the mean over all epochs of its batch size on the first type; bounds are kept as "
        "elastic_gpus_min, elastic_gpus_max, elastic_batch_size_min and elastic_batch_size_max",
    )

    def stream(self, path: Path, rejects: Rejects) -> Iterator[TraceJob]:
        folder = self._find_profiles(path)
        self._folders = {entry.name: entry for entry in folder.iterdir() if entry.is_dir()}
        self._applications: dict[str, tuple[Application, Speeds | None]] = {}
        yield from super().stream(path, rejects)

    def job(self, row: Mapping[str, str], source: str, line: int) -> TraceJob:
        name = row["application"]
        application, speeds = self._application(name)
        gpus = whole(row["num_replicas"], "number of GPUs")
        size = whole(row["batch_size"], "batch size")
        if not 1 <= gpus <= MOST_GPUS:
            raise RowError("need no GPU, or more than anyone has", str(gpus))
        smallest, largest = application.batch_sizes
        if not smallest <= size <= largest:
            raise RowError("have a batch size outside of the profiled ones", str(size))
        if not (row["name"] and row["name"].isprintable()):
            raise RowError("have no id")
        seconds = math.nan if speeds is not None else application.epoch_seconds(size, gpus)
        if speeds is None and not 0 < seconds < math.inf:
            raise RowError("have no time in the profiles", f"{size} on {gpus} GPUs")
        epochs = application.epochs if speeds is None else speeds.epochs
        spec = JobSpec(
            id=row["name"],
            arrival_seconds=number(row["time"], "arrival"),
            gpus=gpus,
            epochs=epochs,
            configurations=(size,),
            epoch_seconds=(seconds,),
            adaptation=Adaptation.STATIC,
            model=name,
            gpu_counts=() if speeds is None else speeds.counts,
            gpu_types=() if speeds is None else speeds.types,
        )
        whole_job = (Regime(size, epochs, seconds if speeds is None else 1.0),)
        if speeds is None:
            bounds = {
                "elastic_gpus_min": 1,
                "elastic_gpus_max": max(int(largest // application.smallest_local_size), gpus),
                "elastic_batch_size_min": smallest,
                "elastic_batch_size_max": largest,
            }
            return TraceJob(spec, whole_job, {**bounds, "source": source})
        return TraceJob(
            spec,
            timeline(whole_job, speeds.epoch_seconds(speeds.types[0], gpus)),
            {"source": source},
            speeds=speeds,
            restart_seconds=_RESTART_SECONDS.get(name) if len(application.by_type) > 1 else None,
        )

    def _application(self, name: str) -> tuple[Application, Speeds | None]:
        if name not in self._folders:
            raise RowError("have an application without profiles", name)
        if name not in self._applications:
            found = Application.read(self._folders[name])
            slowdown = _SLOWDOWNS.get(name, 1.0) if len(found.by_type) > 1 else 1.0
            self._applications[name] = found, found.tuned_speeds(slowdown)
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
