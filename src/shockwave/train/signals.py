"""Signals become a flag; everything else happens at the next step boundary."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable
from types import FrameType
from typing import Any


class StopSignals:
    """Listens for signals that ask the process to stop.

    The handler sets a flag. After an interrupt from the keyboard the previous handler is put
    back, so that a second one ends the process at once. Outside the main thread no handler can
    be installed, and the flag stays down.
    """

    def __init__(self, signals: Iterable[signal.Signals]) -> None:
        self._signals = tuple(signals)
        self._previous: dict[signal.Signals, Any] = {}
        self.received = False

    def listen(self) -> None:
        """Installs the handlers; calling it again takes them back from whoever replaced them."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in self._signals:
            previous = signal.signal(number, self._handle)
            self._previous.setdefault(number, previous)

    def release(self) -> None:
        """Puts the handlers back that were there before."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, previous in self._previous.items():
            signal.signal(number, signal.SIG_DFL if previous is None else previous)
        self._previous.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.received = True
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, self._previous[signal.SIGINT])
