"""Columns of numbers, a row a job, that grow with the jobs and widen with their configurations."""

from __future__ import annotations

from typing import Any

import numpy as np

from shockwave.model.view import Bools, Floats, Ints

_WIDE = {"profile": np.nan, "measured": np.nan, "closed_epochs": 0.0}  # [row, configuration]
_DTYPES = {"Floats": np.float64, "Ints": np.int64, "Bools": np.bool_}


class Columns:
    """What is kept of every job; what a column means is said beside it."""

    arrival: Floats
    epochs: Floats
    weight: Floats
    epochs_done: Floats
    regime_start: Floats
    productive_seconds: Floats
    received_seconds: Floats
    fair_seconds: Floats
    active_integral: Floats
    eligible_after: Floats
    crash_epochs: Floats  # done when it last crashed
    restart_seconds: Floats  # measured; nan until then
    unsaved_seconds: Floats  # work since the last checkpoint; nan if there is none
    kill_epochs: Floats  # done when others last killed it
    started: Floats  # when its present lease began
    leased_seconds: Floats  # that it held GPUs before that
    time_limit: Floats  # seconds that it may hold GPUs; infinite if it did not say
    heard: Floats  # when it last started, or did something new
    handle: Ints
    gpus: Ints
    tenant: Ints
    kind: Ints
    adaptation: Ints
    configurations: Ints
    configuration: Ints
    state: Ints
    rounds_active: Ints
    starts: Ints
    crashes: Ints  # in a row, without progress in between
    failed_starts: Ints  # in a row
    kills: Ints  # by others, in a row, without progress in between
    preemptible: Ints
    group: Ints
    group_parallel: Ints
    held: Bools
    cancelling: Bools
    requeueing: Bools
    confirmed: Bools  # seen to run since its last start
    silent: Bools  # has said nothing for so long that it may hang
    contested: Bools  # others would get the GPUs that it gives up
    profile: Floats
    measured: Floats
    closed_epochs: Floats

    def __init__(self, capacity: int = 64, width: int = 2) -> None:
        for name, dtype in _NARROW.items():
            setattr(self, name, np.zeros(capacity, dtype=dtype))
        for name, empty in _WIDE.items():
            setattr(self, name, np.full((capacity, width), empty))

    def _reserve(self, rows: int, width: int) -> None:
        """Makes room for so many rows and configurations."""
        capacity, old_width = self.profile.shape
        if rows > capacity:
            capacity = max(rows, 2 * capacity)
            for name in _NARROW:
                old = getattr(self, name)
                new = np.zeros(capacity, dtype=old.dtype)
                new[: len(old)] = old
                setattr(self, name, new)
        if capacity > self.profile.shape[0] or width > old_width:
            for name, empty in _WIDE.items():
                old = getattr(self, name)
                grown = np.full((capacity, max(width, old_width)), empty)
                grown[: old.shape[0], :old_width] = old
                setattr(self, name, grown)

    def _keep(self, rows: Ints) -> None:
        """Only these rows stay, and move up."""
        for name in (*_NARROW, *_WIDE):
            old = getattr(self, name)
            new = np.full_like(old, _WIDE.get(name, 0))
            new[: len(rows)] = old[rows]
            setattr(self, name, new)

    def _dump_columns(self, rows: int) -> dict[str, np.ndarray[Any, Any]]:
        """The first ``rows`` of every column."""
        return {name: getattr(self, name)[:rows] for name in (*_NARROW, *_WIDE)}

    def _load_columns(self, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        for name in (*_NARROW, *_WIDE):
            getattr(self, name)[: len(arrays[name])] = arrays[name]


# The columns of one number a job are those that are declared above and are not wide.
_NARROW = {
    name: _DTYPES[kind] for name, kind in Columns.__annotations__.items() if name not in _WIDE
}
