"""Jobs that could not be started the last time: others go first, but not for ever."""

from __future__ import annotations

import numpy as np

from shockwave.engine.table import JobTable
from shockwave.model.view import Bools, Ints


def are_doubtful(table: JobTable, handles: Ints, now: float, patience_seconds: float) -> Bools:
    """[handle] whether its last start came to nothing, and it has not run since.

    One that could have been tried again for ``patience_seconds`` is given a fair turn.
    """
    if not table.any_failed_start:
        return np.zeros(len(handles), dtype=np.bool_)
    rows = table.rows(handles)
    tried = table.failed_starts[rows] > 0
    return np.asarray(tried & (now < table.eligible_after[rows] + patience_seconds))


def next_fair_turn(table: JobTable, now: float, patience_seconds: float) -> float:
    """When the next job ceases to be doubtful; infinite if none is."""
    if not table.any_failed_start:
        return np.inf
    rows = table.rows(table.active)
    tried = rows[table.failed_starts[rows] > 0]
    turns = table.eligible_after[tried] + patience_seconds
    return float(turns[turns > now].min(initial=np.inf))
