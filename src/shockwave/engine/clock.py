"""Time, passed in: virtual time obeys, real time is waited for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar


class Clock(ABC):
    """Seconds since the run began."""

    is_real: ClassVar[bool] = True

    @abstractmethod
    def wait_until(self, seconds: float) -> float:
        """Returns the time when it is at least ``seconds``; later where that has passed.

        A real clock may return earlier, when there is something to look at.
        """


class VirtualClock(Clock):
    """It is always exactly as late as it should be."""

    is_real = False

    def wait_until(self, seconds: float) -> float:
        return seconds
