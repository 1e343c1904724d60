"""SenseTime's Helios: a table for each of Earth, Saturn, Uranus and Venus."""

from __future__ import annotations

from collections.abc import Mapping

from shockwave.model.job import TraceJob
from shockwave.traces.recorded import (
    NO_ZONE,
    ONLY_RUNTIMES,
    TableFormat,
    instant,
    recorded_job,
    span_seconds,
    whole,
)


class HeliosFormat(TableFormat):
    """``cluster_log.csv``. The virtual cluster is the tenant."""

    name = "helios"
    calendar = True
    columns = frozenset(
        [
            "job_id",
            "user",
            "vc",
            "gpu_num",
            "state",
            "submit_time",
            "start_time",
            "end_time",
            "duration",
        ]
    )
    assumptions = (
        ONLY_RUNTIMES,
        NO_ZONE,
        "jobs that failed or were cancelled run as long as they did",
    )

    def job(self, row: Mapping[str, str], source: str, line: int) -> TraceJob:
        gpus = whole(row["gpu_num"], "number of GPUs")
        return recorded_job(
            id=row["job_id"],
            submitted_seconds=instant(row["submit_time"], "submission"),
            gpus=gpus,
            seconds=span_seconds(row["start_time"], row["end_time"], row["duration"]),
            tenant=row["vc"],
            source=source,
            user=row["user"],
            state=row["state"],
        )
