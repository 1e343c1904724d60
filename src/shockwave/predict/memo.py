"""What was computed for jobs that did not move since the last forecast is remembered.

On a busy cluster most jobs of a view wait. What is known of them is the same round after
round, and so is what is predicted of them until there is something new to learn from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np

from shockwave.model.view import Floats, Ints, View


class Memo:
    """Rows of ``width`` numbers by handle, each with the facts that it was computed from."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._facts = np.zeros((0, 0))
        self._rows = np.zeros((0, width))

    def rows(self, view: View, stamp: int, compute: Callable[[View], Floats]) -> Floats:
        """[job, number] calling ``compute`` for jobs whose facts or ``stamp`` are new."""
        if not len(view):
            return np.zeros((0, self._width))
        facts = _facts(view, stamp)
        self._reserve(int(view.handle.max()) + 1, facts.shape[1])
        stale = np.flatnonzero((self._facts[view.handle] != facts).any(axis=1))
        if len(stale):
            handles = view.handle[stale]
            self._rows[handles] = compute(_rows(view, stale))
            self._facts[handles] = facts[stale]
        return np.asarray(self._rows[view.handle])

    def _reserve(self, handles: int, width: int) -> None:
        rows, old_width = self._facts.shape
        if width != old_width:
            rows, self._facts = 0, np.zeros((0, width))
            self._rows = np.zeros((0, self._width))
        if handles > rows:
            more = max(handles, 2 * rows) - rows
            self._facts = np.concatenate([self._facts, np.full((more, width), -1.0)])
            self._rows = np.concatenate([self._rows, np.zeros((more, self._width))])


def _facts(view: View, stamp: int) -> Floats:
    """[job, fact] everything about a job that its forecast depends on."""
    columns = [
        np.full(len(view), stamp),
        view.epochs,
        view.epochs_done,
        view.regime_epochs,
        view.configuration,
        view.configurations,
        view.adaptation,
        view.kind,
        view.gpus,
        *np.nan_to_num(view.epoch_seconds, nan=-1.0).T,
        *view.configuration_epochs.T,
    ]
    return np.stack(columns, axis=1).astype(np.float64)


def _rows(view: View, rows: Ints) -> View:
    """The view of some of its jobs."""
    columns = {
        column.name: getattr(view, column.name)[rows]
        for column in fields(view)
        if isinstance(getattr(view, column.name), np.ndarray)
    }
    return replace(view, **columns)
