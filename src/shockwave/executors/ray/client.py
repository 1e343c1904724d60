"""The scheduler's side of the bridge to Ray: every request has a time limit.

A bridge that does not answer in time, or ends, is replaced at once, and :class:`BackendAway` is
raised until the new one is connected. Only the very first connection is waited for.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from shockwave.executors.gangs.errors import BackendAway

logger = logging.getLogger(__name__)

_MODULE = "shockwave.executors.ray.bridge"
_CONNECT_SECONDS = 40.0  # importing Ray and reaching its head
_REQUEST_SECONDS = 15.0
_KNOCK_SECONDS = 3.0
_AGAIN_SECONDS = 1.0  # between two bridges that could not be connected


class RayClient:
    """Asks about gangs whose names begin with ``prefix``, on the Ray cluster at ``address``.

    ``log`` takes what the bridge prints; ``environment`` is added to its own.
    """

    def __init__(
        self,
        address: str,
        prefix: str,
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        connect_seconds: float = _CONNECT_SECONDS,
        request_seconds: float = _REQUEST_SECONDS,
    ) -> None:
        self._address = address
        self._settings = json.dumps({"address": address, "prefix": prefix})
        self._log = log
        self._environment = {**os.environ, **(environment or {})}
        self._connect_seconds = connect_seconds
        self._request_seconds = request_seconds
        self._bridge: _Bridge | None = None
        self._may_start = 0.0  # monotonic
        self._was_connected = False
        self.waits_at_first = True  # for the very first connection
        self._trouble: str | None = None
        self._number = 0
        self._lock = threading.Lock()

    @property
    def bridge_pid(self) -> int | None:
        """Of the bridge that there is now, connected or not."""
        return None if self._bridge is None else self._bridge.process.pid

    def ask(self, do: str, **what: Any) -> dict[str, Any]:
        """The answer. Raises :class:`BackendAway` if there is none in time."""
        self._knock()
        with self._lock:
            bridge = self._connected()
            self._number += 1
            try:
                bridge.send({"number": self._number, "do": do, "what": what})
                return bridge.answer(self._number, self._request_seconds)
            except BackendAway as error:
                raise self._replaced(error) from error

    def _knock(self) -> None:
        """Says within seconds that the head is gone, where Ray's own client would go on waiting."""
        host, colon, port = self._address.rpartition(":")
        if not (colon and port.isdigit()):
            return
        try:
            socket.create_connection((host.strip("[]"), int(port)), _KNOCK_SECONDS).close()
        except OSError as error:
            said = error.strerror or error
            raise BackendAway(
                f"not connected to Ray at {self._address}, nobody listens there: {said}"
            ) from error

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _connected(self) -> _Bridge:
        bridge = self._bridge
        if bridge is None:
            if time.monotonic() < self._may_start:
                raise self._away()
            bridge = self._start()
        if not bridge.connected:
            again = self._was_connected or self._trouble or not self.waits_at_first
            patience = 0.0 if again else self._connect_seconds
            try:
                bridge.answer(0, patience)
            except BackendAway as error:
                if bridge.ended or time.monotonic() - bridge.started > self._connect_seconds:
                    raise self._replaced(error) from error
                raise self._away() from error
            bridge.connected = self._was_connected = True
            self._trouble = None
        return bridge

    def _replaced(self, error: BackendAway) -> BackendAway:
        """The bridge is of no use any more; the next one connects while others wait."""
        assert self._bridge is not None
        was_connected = self._bridge.connected
        self._trouble = str(error)
        logger.warning("the bridge to Ray is replaced: %s", error)
        self._drop()
        if was_connected:
            self._start()
        else:
            self._may_start = time.monotonic() + _AGAIN_SECONDS
        return self._away()

    def _away(self) -> BackendAway:
        trouble = f": {self._trouble}" if self._trouble else ""
        return BackendAway(f"not connected to Ray at {self._address}{trouble}")

    def _start(self) -> _Bridge:
        try:
            self._bridge = _Bridge(self._settings, self._log, self._environment)
        except OSError as error:
            raise BackendAway(f"the bridge to Ray cannot be started: {error}") from error
        return self._bridge

    def _drop(self) -> None:
        if self._bridge is not None:
            self._bridge.kill()
            self._bridge = None


class _Bridge:
    """One process of the bridge."""

    def __init__(self, settings: str, log: Path, environment: dict[str, str]) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, settings],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,  # an interrupt at the terminal is the scheduler's
            )
        self.started = time.monotonic()
        self.connected = False
        self.ended = False
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, request: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise BackendAway("the bridge has ended") from error

    def answer(self, number: int, seconds: float) -> dict[str, Any]:
        """The answer to a request. Raises :class:`BackendAway` if it does not come in time."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                record = self._answers.get(timeout=max(deadline - time.monotonic(), 0.0))
            except queue.Empty:
                raise BackendAway(f"no answer in {seconds:g} s") from None
            if record is None:
                self.ended = True
                raise BackendAway("the bridge has ended")
            if "error" in record:
                self.ended = True
                raise BackendAway(record["error"])
            if record["number"] == number:
                answer: dict[str, Any] = record["answer"]
                return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(OSError):  # what it has not read any more
                pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)
