"""When a job that crashed or could not start may try again, and when it is given up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retries:
    """Back-off doubles with every crash in a row that made no progress in between.

    ``most_crashes`` such crashes and the job is given up, and likewise after
    ``most_failed_starts`` starts in a row that came to nothing. ``None`` never gives up, which
    is right for the crashes of simulations, which are injected and end.
    """

    most_crashes: int | None = None
    first_back_off_seconds: float = 0.0
    longest_back_off_seconds: float = 600.0
    most_failed_starts: int | None = 8

    def gives_up(self, tries: int, *, crashed: bool = True, retries: int | None = None) -> bool:
        """``retries`` is how many crashes the job itself allows, if it says so."""
        if retries is not None:
            return tries > retries
        most = self.most_crashes if crashed else self.most_failed_starts
        return most is not None and tries >= most

    def back_off_seconds(self, tries: int) -> float:
        """How long a job waits after so many tries in a row that came to nothing, from 1.

        >>> [Retries(first_back_off_seconds=10).back_off_seconds(n) for n in (1, 2, 3, 9)]
        [10.0, 20.0, 40.0, 600.0]
        """
        doubled = self.first_back_off_seconds * 2.0 ** min(tries - 1, 30)
        return min(doubled, self.longest_back_off_seconds)
