"""Output of a rank in a file that cannot grow without bound."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from shockwave.protocol.files import open_plain


class RotatingLog:
    """Appends to ``path``; when it is full it becomes ``path.1``, that one ``path.2``, ...

    Together at most ``(backups + 1) * most_bytes``. Output that the disk does not take is
    dropped: a full disk must not stop the training.
    """

    def __init__(self, path: Path, most_bytes: int, backups: int) -> None:
        self._path = path
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

    def _append(self, data: bytes) -> None:
        assert self._descriptor is not None
        while data:
            written = os.write(self._descriptor, data)
            self._size += written
            data = data[written:]

    def _rotate(self) -> None:
        self.close()
        if self._backups == 0:
            self._path.unlink()
            return
        for number in range(self._backups, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = older.with_name(f"{self._path.name}.{number - 1}") if number > 1 else self._path
            with suppress(FileNotFoundError):
                os.replace(newer, older)


def tail(path: Path, lines: int = 10, most_bytes: int = 2000) -> str:
    """The last lines of a log, the rotated part included; empty if there is none."""
    data = b""
    for file in (path.with_name(f"{path.name}.1"), path):
        with suppress(OSError), open_plain(file) as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - most_bytes))
            data += log.read(most_bytes)
    text = data[-most_bytes:].decode("utf-8", errors="replace")
    return "\n".join(text.splitlines()[-lines:]).replace("\0", "�").strip()
