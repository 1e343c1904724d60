"""Jobs that cannot go on as they are: out of time, silent, or waiting for what will never be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.engine.state import SchedulerState
from shockwave.model.events import JobFailed, JobSilent
from shockwave.model.view import Ints

_SAME_TIME_SECONDS = 1e-6


@dataclass(frozen=True, slots=True)
class Silence:
    """From when on a job that used to report is taken for hanging.

    After ``epochs`` times what an epoch of it usually takes, and ``least_seconds`` at least.
    """

    epochs: float = 10.0
    least_seconds: float = 300.0


def waiting_in_vain(state: SchedulerState, now: float) -> list[JobFailed]:
    """The ends of jobs that need another one to finish which did not."""
    return [
        JobFailed(now, state.table.spec(handle).id, f"it needs job {needed}, which did not finish")
        for handle, needed in state.dependencies.broken
    ]


def out_of_time(state: SchedulerState, now: float) -> Ints:
    """The running jobs that have held GPUs for as long as they may."""
    if not state.table.any_time_limit:
        return np.empty(0, dtype=np.int64)
    running = state.running()
    overdue = state.table.time_limit_at(running) <= now + _SAME_TIME_SECONDS
    return np.asarray(running[overdue])


def newly_silent(state: SchedulerState, now: float, silence: Silence) -> list[JobSilent]:
    """The running jobs that have reported before, and then nothing for very long.

    Asked when the progress of all jobs has just been taken in.
    """
    table, running = state.table, state.running()
    rows = table.rows(running)
    usual = table.usual_epoch_seconds(rows)
    silent_for = now - table.heard[rows]
    limit = np.maximum(silence.epochs * usual, silence.least_seconds)  # nan stays nan
    found = np.flatnonzero((silent_for > limit) & ~table.silent[rows])
    return [
        JobSilent(now, table.spec(int(running[i])).id, float(silent_for[i]), float(usual[i]))
        for i in found.tolist()
    ]
