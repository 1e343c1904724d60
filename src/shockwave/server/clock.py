"""The clock of live runs: real time, and a wait that another thread can end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from shockwave.engine.clock import Clock

_LONGEST_WAIT_SECONDS = 3600.0


class Interrupted(Exception):  # noqa: N818  (no error: the scheduler was asked to end)
    """Somebody called :meth:`RealClock.interrupt`."""


class RealClock(Clock):
    """Seconds since the run began. They never go back, even if the machine's clock is set back.

    ``not_before`` is the time of the last event of the journal: the clock starts there if the
    machine's clock was set back since that event.
    """

    def __init__(
        self,
        origin_unix: float,
        *,
        not_before: float = 0.0,
        unix_time: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._offset = max(unix_time() - origin_unix, not_before) - monotonic()
        self._interrupted = threading.Event()

    def now(self) -> float:
        return self._monotonic() + self._offset

    def wait_until(self, seconds: float) -> float:
        """Raises :class:`Interrupted` as soon as somebody interrupts the clock."""
        while not self._interrupted.is_set():
            now = self.now()
            if now >= seconds:
                return now
            self._interrupted.wait(min(seconds - now, _LONGEST_WAIT_SECONDS))
        raise Interrupted

    def interrupt(self) -> None:
        """End this wait and every later one."""
        self._interrupted.set()
