"""Time, passed in: virtual time obeys, real time is waited for."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Clock(ABC):
    """Seconds since the run began."""

    @abstractmethod
    def wait_until(self, seconds: float) -> float:
        """Returns the time when it is at least ``seconds``; later where that has passed."""


class VirtualClock(Clock):
    """It is always exactly as late as it should be."""

    def wait_until(self, seconds: float) -> float:
        return seconds
