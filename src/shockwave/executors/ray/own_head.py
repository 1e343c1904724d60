"""A Ray of our own on this machine, for those who have no cluster.

It outlives the scheduler as its gangs do, and the next scheduler on the same folder finds it
again. Ray listens on every address of the machine, so it gets a token that others do not know.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from shockwave.executors.gangs.supervisor.rotating_log import tail
from shockwave.executors.options import UNKNOWN_TYPE
from shockwave.model.errors import ExecutorError
from shockwave.protocol.environment import is_own
from shockwave.protocol.files import read_json, write_json
from shockwave.protocol.processes import is_same, session_members, signal_process, start_ticks

_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_ATTEMPTS = 3
_GLANCE_SECONDS = 0.1
_STARTED = "Ray runtime started"
_NODE_NAME = "n0"


class _DidNotStartError(ExecutorError):
    """It may the next time: Ray gives itself half a minute, which is short on a busy machine."""


class OwnHead:
    """A head with ``gpus`` GPUs that is its own and only node. ``root`` remembers it."""

    def __init__(self, root: Path, gpus: int, gpu_type: str = UNKNOWN_TYPE) -> None:
        self._record = root / "ray-head.json"
        self._log = root / "ray-head.log"
        self._gpus = gpus
        self._gpu_type = gpu_type
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> tuple[str, dict[str, str]]:
        """Its address, and what a client needs in its environment.

        Raises :class:`ExecutorError` if it does not start.
        """
        known = read_json(self._record)
        if known is not None and is_same(known["pid"], known["start_ticks"]):
            return known["address"], _variables(known["token"])
        for _ in range(_ATTEMPTS - 1):
            with suppress(_DidNotStartError):
                return self._start_once()
        return self._start_once()

    def stop(self) -> None:
        """Ends it with everything that runs on it."""
        known = read_json(self._record)
        self._record.unlink(missing_ok=True)
        if self._process is not None:
            self._end(self._process.pid, start_ticks(self._process.pid))
            self._process.wait()
            self._process = None
        elif known is not None:
            self._end(known["pid"], known["start_ticks"])

    def leave(self) -> None:
        """It runs on without us."""
        if self._process is not None and self._process.poll() is None:
            self._process.returncode = 0  # or the interpreter warns of a child left behind
        self._process = None

    def _start_once(self) -> tuple[str, dict[str, str]]:
        address, token = f"127.0.0.1:{_free_port()}", secrets.token_hex(32)
        self._process = self._spawn(address, token)
        try:
            self._wait_until_started(self._process)
            self._remember(self._process.pid, address, token)
        except BaseException:
            self.stop()
            raise
        return address, _variables(token)

    def _spawn(self, address: str, token: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
        argv += ["--node-ip-address=127.0.0.1", f"--port={address.rpartition(':')[2]}"]
        argv += [f"--num-gpus={self._gpus}", f"--node-name={_NODE_NAME}"]
        if self._gpu_type != UNKNOWN_TYPE:
            argv += [f"--labels=ray.io/accelerator-type={self._gpu_type}"]
        argv += ["--include-dashboard=false", "--disable-usage-stats"]
        environment = {k: v for k, v in os.environ.items() if not is_own(k)}
        try:
            with self._log.open("wb") as output:
                return subprocess.Popen(
                    argv,
                    env={**environment, **_variables(token)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,  # outlives the scheduler and its terminal
                )
        except OSError as error:
            raise ExecutorError(f"Ray cannot be started: {error}") from error

    def _wait_until_started(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while _STARTED not in self._log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise _DidNotStartError(
                    f"Ray did not start; {self._log} ends with\n{tail(self._log)}"
                )
            time.sleep(_GLANCE_SECONDS)

    def _remember(self, pid: int, address: str, token: str) -> None:
        record = {"pid": pid, "start_ticks": start_ticks(pid), "address": address, "token": token}
        try:
            write_json(self._record, record, private=True)
        except OSError as error:
            raise ExecutorError(f"{self._record} cannot be written: {error}") from error

    def _end(self, pid: int, ticks: int | None) -> None:
        """Ray's processes share a session; what is left of it when the leader ends is killed."""
        if start_ticks(pid) not in (ticks, None):
            return  # the number is somebody else's by now
        signal_process(pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while start_ticks(pid) is not None and time.monotonic() < deadline:
            if self._process is not None:
                self._process.poll()
            time.sleep(_GLANCE_SECONDS)
        while found := session_members(pid):
            for member in found:
                signal_process(member, signal.SIGKILL)
            time.sleep(_GLANCE_SECONDS)


def _variables(token: str) -> dict[str, str]:
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
