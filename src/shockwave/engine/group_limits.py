"""How many jobs of a group may run at once."""

from __future__ import annotations

import numpy as np

from shockwave.engine.table import RUNNING, JobTable
from shockwave.model.view import Bools, Ints


def beyond_group_limit(table: JobTable, rows: Ints, barred: Bools) -> Bools:
    """[row] whether the job waits while its group has all that it may run at once.

    Places go to those that are not ``barred`` otherwise, in order of submission.
    """
    beyond = np.zeros(len(rows), dtype=np.bool_)
    limited = np.flatnonzero((table.group[rows] > 0) & (table.group_parallel[rows] > 0))
    _, group = np.unique(table.group[rows[limited]], return_inverse=True)
    running = table.state[rows[limited]] == RUNNING
    taken = np.bincount(group, weights=running).astype(np.int64)
    waits = ~running & ~barred[limited]
    limited, group = limited[waits], group[waits]
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], group[order])  # where its group begins
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - first
    beyond[limited] = place + taken[group] >= table.group_parallel[rows[limited]]
    return beyond
