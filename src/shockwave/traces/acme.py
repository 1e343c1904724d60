"""Shanghai AI Lab's Acme: two clusters, Seren and Kalos, whose logs differ in their time zones.

Kalos counts the time in the queue as part of ``duration``, so only the dates are believed.
"""

from __future__ import annotations

from collections.abc import Mapping

from shockwave.model.job import TraceJob
from shockwave.traces.recorded import (
    ONLY_RUNTIMES,
    TableFormat,
    instant,
    is_nothing,
    number,
    recorded_job,
    span_seconds,
    whole,
)


class AcmeFormat(TableFormat):
    """``trace_seren.csv`` or ``trace_kalos.csv``. The kind of work is the model."""

    name = "acme"
    calendar = True
    columns = frozenset(
        [
            "job_id",
            "user",
            "node_num",
            "gpu_num",
            "type",
            "state",
            "submit_time",
            "start_time",
            "end_time",
            "duration",
            "queue",
            "gpu_time",
        ]
    )
    assumptions = (
        ONLY_RUNTIMES,
        "jobs that failed or were cancelled run as long as they did",
        "runtimes are from start to end; where a date is missing, the recorded duration, which "
        "in Kalos holds the time in the queue, less that time",
    )

    def job(self, row: Mapping[str, str], source: str, line: int) -> TraceJob:
        dated = not (is_nothing(row["start_time"]) or is_nothing(row["end_time"]))
        duration = row["duration"]
        if not dated and "fail_time" in row and not is_nothing(row["queue"]):
            duration = str(number(duration, "duration") - number(row["queue"], "time in the queue"))
        return recorded_job(
            id=row["job_id"],
            submitted_seconds=instant(row["submit_time"], "submission"),
            gpus=whole(row["gpu_num"], "number of GPUs"),
            seconds=span_seconds(row["start_time"], row["end_time"], duration),
            tenant=row["user"],
            model=row["type"] or "unknown",
            source=source,
            user=row["user"],
            state=row["state"],
        )
