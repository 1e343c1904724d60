"""JSON files that are there whole or not at all, in a folder where the job may write too."""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

_MOST_BYTES = 1 << 24


def write_json(path: Path, record: dict[str, Any], *, durable: bool = True) -> None:
    """Replaces ``path``; if ``durable`` it is on the disk then. Raises :class:`OSError`."""
    temporary = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(record, file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def open_plain(path: Path) -> BinaryIO:
    """Opens a plain file to read. Raises :class:`OSError` for anything else.

    A job may leave anything in its folder: a pipe would make a reader wait for ever, a link
    would make it read what is none of the job's.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a plain file")
    return os.fdopen(descriptor, "rb")


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file, or None if it is missing, damaged or something else."""
    try:
        with open_plain(path) as file:
            record = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
