"""Time cut into rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rounds:
    """The lengths that scheduling is cut into, in seconds, and where the cutting began."""

    round_seconds: float = 120.0
    restart_seconds: float = 20.0
    first_round: int = 0  # the round that starts at ``first_seconds``
    first_seconds: float = 0.0

    def start(self, round_index: int) -> float:
        """When a round starts."""
        return self.first_seconds + (round_index - self.first_round) * self.round_seconds

    def at(self, seconds: float) -> int:
        """The round that ``seconds`` lies in."""
        since = (seconds - self.first_seconds) / self.round_seconds
        return self.first_round + math.floor(since + 1e-9)

    def boundary(self, seconds: float) -> int:
        """The first round that starts at or after ``seconds``."""
        since = (seconds - self.first_seconds) / self.round_seconds
        return self.first_round + math.ceil(since - 1e-9)
