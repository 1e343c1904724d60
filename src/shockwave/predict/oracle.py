"""The oracle knows every regime to come. For tests and upper bounds only."""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np

from shockwave.model.job import Regime
from shockwave.model.view import Floats, Ints, View
from shockwave.predict.base import Forecast, Predictor
from shockwave.predict.forecasts import CertainForecast


class Truth(Protocol):
    """Whoever knows the whole life of every job, by its handle: 0, 1, 2, ..."""

    def regimes(self, handle: int) -> tuple[Regime, ...]:
        """All regimes of the job from its first epoch to its last."""


class Oracle(Predictor):
    """Walks through the true regimes from the epochs done so far. Clairvoyant."""

    name: ClassVar[str] = "oracle"
    clairvoyant: ClassVar[bool] = True

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._known = np.zeros(0, dtype=bool)
        self._regimes = np.zeros(0, dtype=np.int64)  # [handle] how many regimes
        self._ends = np.zeros((0, 1))  # [handle, regime] epochs done when the regime ends
        self._seconds = np.zeros((0, 1))  # [handle, regime] seconds per epoch

    def forecast(self, view: View) -> Forecast:
        self._look_up(view.handle)
        width = int(self._regimes[view.handle].max(initial=1))
        ends = self._ends[view.handle, :width]
        starts = np.concatenate([np.zeros((len(view), 1)), ends[:, :-1]], axis=1)
        left = np.maximum(ends - np.maximum(starts, view.epochs_done[:, None]), 0.0)
        return CertainForecast(left, self._seconds[view.handle, :width])

    def _look_up(self, handles: Ints) -> None:
        """Fetch the lives of handles not seen before into the padded columns."""
        if not len(handles):
            return
        self._grow(int(handles.max()) + 1, self._ends.shape[1])
        for handle in handles[~self._known[handles]].tolist():
            regimes = self._truth.regimes(handle)
            if len(regimes) > self._ends.shape[1]:
                self._grow(len(self._known), len(regimes))
            ends = np.cumsum([regime.epochs for regime in regimes])
            self._ends[handle, : len(ends)] = ends
            self._ends[handle, len(ends) :] = ends[-1]
            self._seconds[handle, : len(ends)] = [regime.epoch_seconds for regime in regimes]
            self._regimes[handle] = len(ends)
            self._known[handle] = True

    def _grow(self, handles: int, regimes: int) -> None:
        rows, width = self._ends.shape
        if handles <= rows and regimes <= width:
            return
        rows = max(2 * rows, handles) if handles > rows else rows
        self._known = np.append(self._known, np.zeros(rows - len(self._known), dtype=bool))
        self._regimes = np.append(
            self._regimes, np.zeros(rows - len(self._regimes), dtype=np.int64)
        )
        self._ends = _padded(self._ends, rows, max(regimes, width))
        self._seconds = _padded(self._seconds, rows, max(regimes, width))


def _padded(table: Floats, rows: int, columns: int) -> Floats:
    """The table enlarged; new columns repeat the last one, so that no epochs are added."""
    return (
        np.pad(
            np.pad(table, ((0, 0), (0, columns - table.shape[1])), mode="edge"),
            ((0, rows - table.shape[0]), (0, 0)),
        )
        if len(table)
        else np.zeros((rows, columns))
    )
