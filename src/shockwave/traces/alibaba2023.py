"""Alibaba's trace of 2023 (``openb_pod_list_*.csv``): pods that may share a GPU.

``num_gpu`` is whole; a pod with one may hold a part of it only, ``gpu_milli`` thousandths.
"""

from __future__ import annotations

from collections.abc import Mapping

from shockwave.model.job import TraceJob
from shockwave.traces.base import RowError
from shockwave.traces.recorded import (
    ONLY_RUNTIMES,
    TableFormat,
    is_nothing,
    number,
    recorded_job,
    whole,
)


class Alibaba2023Format(TableFormat):
    """The table of pods. The class of service is the tenant."""

    name = "alibaba-2023"
    columns = frozenset(
        [
            "name",
            "num_gpu",
            "gpu_milli",
            "gpu_spec",
            "qos",
            "pod_phase",
            "creation_time",
            "deletion_time",
            "scheduled_time",
        ]
    )
    assumptions = (
        ONLY_RUNTIMES,
        "a part of a GPU is a whole one; the part is kept as gpu_request",
        "pods run from when they were scheduled until they were deleted",
    )

    def job(self, row: Mapping[str, str], source: str, line: int) -> TraceJob:
        gpus = whole(row["num_gpu"], "number of GPUs")
        if gpus > 0 and is_nothing(row["scheduled_time"]):
            raise RowError("were never scheduled")
        part = number(row["gpu_milli"], "part of a GPU") / 1000 if gpus == 1 else 1.0
        started = number(row["scheduled_time"], "start") if gpus > 0 else 0.0
        return recorded_job(
            id=row["name"],
            submitted_seconds=number(row["creation_time"], "submission"),
            gpus=gpus,
            seconds=number(row["deletion_time"], "end") - started,
            tenant=row["qos"],
            source=source,
            state=row["pod_phase"],
            gpu_request=part if part < 1 else None,
            gpu_type=row["gpu_spec"],
        )
