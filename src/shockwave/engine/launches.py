"""What an executor is told of the gangs that it is to start, or to find again."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from shockwave.engine.executor import Known, Launch
from shockwave.engine.table import JobTable
from shockwave.model.events import Placement


def launches_of(table: JobTable, placements: Mapping[int, Placement]) -> list[Launch]:
    """Orders to start, or to find again, gangs that the journal has as started."""
    rows = table.rows(np.fromiter(placements, np.int64, len(placements)))
    columns = (
        table.starts, table.configuration, table.epochs_done, table.regime_start,
        table.productive_seconds, table.received_seconds, table.confirmed,
    )  # fmt: skip
    facts = zip(*(column[rows].tolist() for column in columns), strict=True)
    launches = []
    for (handle, placement), (attempt, index, epochs, regime, *rest) in zip(
        placements.items(), facts, strict=True
    ):
        spec = table.spec(handle)
        known = Known(epochs, regime, spec.configurations[index], *rest)
        option = None if table.options is None else table.options.option(table.row(handle))
        launches.append(Launch(handle, spec, placement, attempt, known, option))
    return launches
