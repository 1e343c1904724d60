"""What the running jobs did, as one event with a column for each thing that is told of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from shockwave.model.view import Bools, Floats, Ints


@dataclass(frozen=True, eq=False, slots=True)
class Progressed:
    """What the running jobs did since they were last asked, one array element per job."""

    kind: ClassVar[str] = "progressed"
    time: float
    handle: Ints
    epochs_done: Floats
    configuration: Ints  # index into the job's declared configurations
    epoch_seconds: Floats  # measured in that configuration, nan where nothing was measured
    productive_seconds: Floats  # since the last of these; negative where a crash undid work
    held_seconds: Floats  # since the last of these, restarts included
    restart_seconds: Floats | None = None  # measured cost of the present start; nan if unknown
    unsaved_seconds: Floats | None = None  # work since the last checkpoint; nan if there is none
    silent_seconds: Floats | None = None  # since its last word; nan before the first of a launch

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Progressed):
            return NotImplemented
        return self.time == other.time and all(
            _same(getattr(self, name), getattr(other, name)) for name in PROGRESS_COLUMNS
        )

    __hash__ = None  # type: ignore[assignment]

    def only(self, wanted: Bools) -> Progressed:
        """The columns of some of the jobs."""
        some: dict[str, Any] = {
            name: None if column is None else column[wanted]
            for name in PROGRESS_COLUMNS
            for column in (getattr(self, name),)
        }
        return replace(self, **some)

    @staticmethod
    def nothing(time: float) -> Progressed:
        ints, floats = np.empty(0, dtype=np.int64), np.empty(0)
        return Progressed(time, ints, floats, ints, floats, floats, floats)


PROGRESS_COLUMNS = (
    "handle", "epochs_done", "configuration", "epoch_seconds", "productive_seconds",
    "held_seconds", "restart_seconds", "unsaved_seconds", "silent_seconds",
)  # fmt: skip


def _same(one: Floats | None, other: Floats | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other, equal_nan=True)
