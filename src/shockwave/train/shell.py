"""A shell as a job: ``python -m shockwave.train.shell [COMMAND ...]`` on a terminal of its own.

Whoever attaches (``shockwave shell``, ``shockwave attach``) does so by a socket in a folder that
only the job's own user can enter. The shell goes on when nobody is attached, and the job ends
with it. What a client sends is frames: one byte ``d`` or ``w``, a length of four bytes, and
input, or rows and columns of two bytes each. What it gets is what the terminal shows.
"""

from __future__ import annotations

import fcntl
import os
import pty
import selectors
import shutil
import signal
import socket
import struct
import sys
import tempfile
import termios
import time
from contextlib import suppress
from pathlib import Path

from shockwave.protocol.paths import JobPaths
from shockwave.protocol.reports import ReportWriter
from shockwave.train.environment import JobEnvironment

LINK = "shell"  # the name under which a job says where its socket is
SCHEME = "unix:"
HEADER = struct.Struct("!cI")
SIZE = struct.Struct("!HH")  # rows, columns
INPUT, RESIZE = b"d", b"w"
_CHUNK_BYTES = 1 << 16
_KEPT_BYTES = 1 << 16  # of what was shown, for whoever attaches later
_LONGEST_FRAME = 1 << 20


def frame(kind: bytes, data: bytes) -> bytes:
    return HEADER.pack(kind, len(data)) + data


class Shell:
    """One terminal, and one client at a time; a new one takes over."""

    def __init__(self, command: list[str], address: Path) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(address))
        self._listener.listen(4)
        self._client: socket.socket | None = None
        self._received = b""
        self._shown = b""
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            try:
                os.execvp(command[0], command)
            except OSError as error:
                print(f"cannot start {command[0]!r}: {error}", flush=True)
                os._exit(127)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._terminal, selectors.EVENT_READ)

    def run(self) -> int:
        """Until the shell ends; returns its exit code."""
        running = True
        while running:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._welcome()
                elif key.fileobj == self._terminal:
                    running = self._show()
                else:
                    self._take()
        self._leave()
        _, status = os.waitpid(self._pid, 0)
        return os.waitstatus_to_exitcode(status)

    def hang_up(self) -> None:
        """As a terminal does that is closed."""
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGHUP)

    def _welcome(self) -> None:
        client, _ = self._listener.accept()
        self._leave()
        client.settimeout(10.0)  # a client that does not read must not stop the shell for long
        self._client = client
        self._selector.register(client, selectors.EVENT_READ)
        self._send(self._shown)

    def _leave(self) -> None:
        if self._client is not None:
            self._selector.unregister(self._client)
            self._client.close()
            self._client, self._received = None, b""

    def _show(self) -> bool:
        """False when the shell has closed its terminal."""
        try:
            data = os.read(self._terminal, _CHUNK_BYTES)
        except OSError:
            return False
        self._shown = (self._shown + data)[-_KEPT_BYTES:]
        self._send(data)
        return bool(data)

    def _send(self, data: bytes) -> None:
        if self._client is not None:
            try:
                self._client.sendall(data)
            except OSError:
                self._leave()

    def _take(self) -> None:
        assert self._client is not None
        try:
            data = self._client.recv(_CHUNK_BYTES)
        except OSError:
            data = b""
        if not data:
            self._leave()
            return
        self._received += data
        while len(self._received) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._received)
            if length > _LONGEST_FRAME:
                self._leave()
                return
            end = HEADER.size + length
            if len(self._received) < end:
                return
            body, self._received = self._received[HEADER.size : end], self._received[end:]
            if kind == INPUT:
                while body:
                    body = body[os.write(self._terminal, body) :]
            elif kind == RESIZE and length == SIZE.size:
                rows, columns = SIZE.unpack(body)
                size = struct.pack("HHHH", rows, columns, 0, 0)
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)


def main() -> int:
    command = sys.argv[1:] or [os.environ.get("SHELL") or "/bin/sh"]
    who = JobEnvironment.read(os.environ)
    if who.rank != 0:
        signal.pause()  # the first rank has the shell, the others keep their GPUs for it
    folder = Path(tempfile.mkdtemp(prefix="shockwave-"))
    try:
        address = folder / "shell"
        shell = Shell(command, address)
        signal.signal(signal.SIGTERM, lambda *_: shell.hang_up())
        if who.directory is not None:
            _tell(JobPaths(who.directory), who.generation, address)
        print("A shell waits for you: shockwave attach", who.job or "", flush=True)
        return shell.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tell(paths: JobPaths, generation: int, address: Path) -> None:
    reports = ReportWriter(paths.reports(generation))
    record: dict[str, object] = {"time": time.time(), "event": "link", "epoch": 0}
    reports.append(record | {"name": LINK, "url": f"{SCHEME}{address}"}, durable=True)
    reports.close()


if __name__ == "__main__":
    sys.exit(main())
