"""Real time, which has to be waited for, and a wait that can be ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from shockwave.engine.clock import Clock


class Interrupted(Exception):  # noqa: N818  (not an error: the scheduler was asked to end)
    """The wait was ended by :meth:`RealClock.interrupt`."""


class RealClock(Clock):
    """Seconds since the run's origin. Never goes back, whatever is done to the wall clock.

    It starts at ``not_before`` at the earliest, the time of the journal's last event: if the
    machine's clock was set back between two starts, time would otherwise repeat. A wait ends
    every ``look_seconds``, so that the loop can see what jobs and nodes did, and when somebody
    wakes it.
    """

    def __init__(
        self,
        origin_unix: float,
        *,
        not_before: float = 0.0,
        look_seconds: float = 1.0,
        unix_time: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._offset = max(unix_time() - origin_unix, not_before) - monotonic()
        self._look_seconds = look_seconds
        self._woken = threading.Event()
        self._interrupted = False

    def now(self) -> float:
        return self._monotonic() + self._offset

    def wait_until(self, seconds: float) -> float:
        """Raises :class:`Interrupted` as soon as somebody interrupts the clock."""
        wait = min(seconds - self.now(), self._look_seconds)
        if wait > 0:
            self._woken.wait(wait)
        if self._interrupted:
            raise Interrupted
        self._woken.clear()
        return self.now()

    def wake(self) -> None:
        """End this wait, or the next one if nobody waits now."""
        self._woken.set()

    def interrupt(self) -> None:
        """End this wait and every later one."""
        self._interrupted = True
        self._woken.set()
