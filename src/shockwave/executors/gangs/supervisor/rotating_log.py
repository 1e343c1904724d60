"""Output of a rank in a file that cannot grow without bound."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from shockwave.protocol.files import open_plain
from shockwave.protocol.paths import times_of

_MARK_SECONDS = 1.0  # what is written within so many seconds has one time


class RotatingLog:
    """Appends to ``path``; when it is full it becomes ``path.1``, that one ``path.2``, ...

    Together at most ``(backups + 1) * most_bytes``, and no more again for a file beside each
    that says when what was written, and by which launch. Output that the disk does not take is
    dropped: a full disk must not stop the training.
    """

    def __init__(
        self,
        path: Path,
        most_bytes: int,
        backups: int,
        *,
        launch: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._launch = launch
        self._clock = clock
        self._marked: float | None = None  # unix seconds; None before the first of this file
        self._mark_bytes = 0
        self._most_bytes = max(most_bytes, 1)
        self._backups = backups
        self._descriptor: int | None = None
        self._size = 0

    def write(self, data: bytes) -> None:
        with suppress(OSError):
            while data:
                self._open()
                room = self._most_bytes - self._size
                if room <= 0:
                    self._rotate()
                    continue
                part, data = data[:room], data[room:]
                self._mark()
                self._append(part)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> None:
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o644)
            self._size = os.fstat(self._descriptor).st_size

    def _mark(self) -> None:
        """Before the output that it is about, so that a reader never lacks one."""
        now = self._clock()
        if self._marked is not None:  # the first is always there: it tells of the launch
            recent = 0 <= now - self._marked < _MARK_SECONDS
            if recent or self._mark_bytes >= self._most_bytes:
                return
        self._marked = now
        line = f"{self._size} {now:.3f} {self._launch}\n".encode()
        self._mark_bytes += len(line)
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(times_of(self._path), flags, 0o644)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)

    def _append(self, data: bytes) -> None:
        assert self._descriptor is not None
        while data:
            written = os.write(self._descriptor, data)
            self._size += written
            data = data[written:]

    def _rotate(self) -> None:
        self.close()
        self._marked, self._mark_bytes = None, 0
        if self._backups == 0:
            self._path.unlink()
            times_of(self._path).unlink(missing_ok=True)
            return
        for number in range(self._backups, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = older.with_name(f"{self._path.name}.{number - 1}") if number > 1 else self._path
            for before, after in ((times_of(newer), times_of(older)), (newer, older)):
                with suppress(FileNotFoundError):
                    os.replace(before, after)


def tail(path: Path, lines: int = 10, most_bytes: int = 2000) -> str:
    """The last lines of a log, the rotated part included; empty if there is none."""
    data = b""
    for file in (path.with_name(f"{path.name}.1"), path):
        with suppress(OSError), open_plain(file) as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - most_bytes))
            data += log.read(most_bytes)
    text = data[-most_bytes:].decode("utf-8", errors="replace")
    return "\n".join(text.splitlines()[-lines:]).replace("\0", "�").strip()
