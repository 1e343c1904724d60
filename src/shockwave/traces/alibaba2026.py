"""Alibaba's trace of 2026 (``job_info_df.csv``): jobs of high priority, and those on spot GPUs."""

from __future__ import annotations

from collections.abc import Mapping

from shockwave.model.job import TraceJob
from shockwave.traces.recorded import (
    ONLY_RUNTIMES,
    TableFormat,
    number,
    recorded_job,
    whole_gpus,
)


class Alibaba2026Format(TableFormat):
    """The table of jobs. ``gpu_request`` is per worker; the organisation is the tenant."""

    name = "alibaba-2026"
    columns = frozenset(
        [
            "job_name",
            "organization",
            "gpu_model",
            "gpu_request",
            "worker_num",
            "submit_time",
            "duration",
            "job_type",
        ]
    )
    assumptions = (
        ONLY_RUNTIMES,
        "all workers of a job start together, and GPUs of all models count as equal",
        "a part of a GPU is a whole one; the whole request is kept as gpu_request",
        "jobs of high priority and spot jobs have equal weight; which is which is kept as job_type",
    )

    def job(self, row: Mapping[str, str], source: str, line: int) -> TraceJob:
        each = number(row["gpu_request"], "number of GPUs")
        workers = number(row["worker_num"], "number of workers")
        return recorded_job(
            id=row["job_name"],
            submitted_seconds=number(row["submit_time"], "submission"),
            gpus=whole_gpus([(workers, each)]),
            seconds=number(row["duration"], "duration"),
            tenant=row["organization"],
            source=source,
            gpu_type=row["gpu_model"],
            gpu_request=each * workers if each != int(each) else None,
            job_type=row["job_type"],
        )
