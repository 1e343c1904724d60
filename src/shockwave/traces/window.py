"""The part of a trace whose jobs count: in an open system neither the first nor the last do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shockwave.model.errors import InputError
from shockwave.model.view import Bools


@dataclass(frozen=True, slots=True)
class Window:
    """Jobs that arrive between two fractions of the time from the first arrival to the last.

    A steady system starts empty and runs dry at the end of its trace. What happens in between
    is what it is like, and is measured by the jobs that arrive there; all others still run.
    Raises :class:`InputError` unless ``0 <= start < stop <= 1``.
    """

    start: float
    stop: float

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop <= 1:
            raise InputError(
                "must be two fractions in ascending order, from 0 to 1",
                place="--window",
                value=f"{self.start:g},{self.stop:g}",
                hint="Such as 0.2,0.8",
            )

    @staticmethod
    def parse(text: str) -> Window:
        """The window that ``0.2,0.8`` describes. Raises :class:`InputError`.

        >>> Window.parse("0.2,0.8")
        Window(start=0.2, stop=0.8)
        """
        try:
            start, stop = (float(part) for part in text.split(","))
        except ValueError:
            raise InputError(
                "must be two fractions with a comma between them",
                place="--window",
                value=text,
                hint="Such as 0.2,0.8",
            ) from None
        return Window(start, stop)

    def counts(self, arrival: ArrayLike) -> Bools:
        """[job] whether the job counts. Raises :class:`InputError` if none does.

        >>> Window(0.2, 0.8).counts([0, 10, 50, 80, 100]).tolist()
        [False, False, True, True, False]
        """
        times = np.asarray(arrival, dtype=np.float64)
        if not len(times):
            return np.zeros(0, dtype=np.bool_)
        first = times.min()
        span = times.max() - first
        counted: Bools = (times >= first + self.start * span) & (times <= first + self.stop * span)
        if not counted.any():
            raise InputError(
                "no job arrives in this part of the trace",
                place="--window",
                value=f"{self.start:g},{self.stop:g}",
                hint="Choose a wider one",
            )
        return counted
