"""What a policy remembers of jobs from one decision to the next."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Floats, Ints


class PerJob:
    """A number per job, by handle; ``nan`` until it is set."""

    def __init__(self) -> None:
        self._values = np.full(64, np.nan)

    def get(self, handles: Ints) -> Floats:
        self._reserve(handles)
        return self._values[handles]

    def set(self, handles: Ints, values: Floats) -> None:
        self._reserve(handles)
        self._values[handles] = values

    def _reserve(self, handles: Ints) -> None:
        highest = int(handles.max(initial=0))
        if highest >= len(self._values):
            grown = np.full(2 * highest + 1, np.nan)
            grown[: len(self._values)] = self._values
            self._values = grown
