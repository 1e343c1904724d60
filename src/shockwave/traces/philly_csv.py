"""Microsoft's Philly as a table: ``timestamp,duration,num_gpus,gpu_time,cluster``.

The form in which simulators pass it on (Pollux, Sia). It has no ids: a job is called by its
line.
"""

from __future__ import annotations

from collections.abc import Mapping

from shockwave.model.job import TraceJob
from shockwave.traces.recorded import (
    NO_ZONE,
    ONLY_RUNTIMES,
    TableFormat,
    instant,
    number,
    recorded_job,
    whole,
)


class PhillyTableFormat(TableFormat):
    """The table. The virtual cluster is the tenant."""

    name = "philly-csv"
    calendar = True
    columns = frozenset(("timestamp", "duration", "num_gpus", "gpu_time", "cluster"))
    assumptions = (ONLY_RUNTIMES, NO_ZONE, "ids are line numbers, as the source has none")

    def job(self, row: Mapping[str, str], source: str, line: int) -> TraceJob:
        return recorded_job(
            id=str(line),
            submitted_seconds=instant(row["timestamp"], "submission"),
            gpus=whole(row["num_gpus"], "number of GPUs"),
            seconds=number(row["duration"], "duration"),
            tenant=row["cluster"],
            source=source,
        )
