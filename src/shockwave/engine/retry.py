"""When a job that crashed may try again, and when it is given up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retries:
    """Back-off doubles with every crash in a row that made no progress in between.

    ``most_crashes`` such crashes and the job is given up; ``None`` never gives up, which
    is right for simulations, whose crashes are injected.
    """

    most_crashes: int | None = None
    first_back_off_seconds: float = 0.0
    longest_back_off_seconds: float = 600.0

    def gives_up(self, crashes: int, retries: int | None = None) -> bool:
        """``retries`` is what the job itself allows, if it says so."""
        if retries is not None:
            return crashes > retries
        return self.most_crashes is not None and crashes >= self.most_crashes

    def back_off_seconds(self, crashes: int) -> float:
        """How long a job waits after its ``crashes``-th crash in a row, from 1.

        >>> [Retries(first_back_off_seconds=10).back_off_seconds(n) for n in (1, 2, 3, 9)]
        [10.0, 20.0, 40.0, 600.0]
        """
        doubled = self.first_back_off_seconds * 2.0 ** min(crashes - 1, 30)
        return min(doubled, self.longest_back_off_seconds)
