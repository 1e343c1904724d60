"""Files that are there whole or not at all, in folders where others may write too.

A scheduler that runs as root writes and reads in the folders of other users. They may put
anything there, so no link is ever followed, and what is written belongs to the folder's owner.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO

from . import VERSION

_MOST_BYTES = 1 << 24


@contextmanager
def atomic_writer(path: str | Path) -> Iterator[TextIO]:
    """A text file that takes the place of ``path`` when the block ends without an error.

    A reader sees the old file or the new one; after an error the old one is untouched. The new
    one is on the disk when this returns. Raises :class:`OSError` where the folder cannot be
    written.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    with (
        _replacing(target, durable=True) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as file,
    ):
        yield file
        _finish(file, durable=True)


@contextmanager
def atomic_bytes(path: Path, *, check: Callable[[], None] = lambda: None) -> Iterator[BinaryIO]:
    """The same for bytes. ``check`` may raise to prevent it, right before it takes effect."""
    with _replacing(path, durable=True) as temporary:
        with temporary.open("wb") as file:
            yield file
            _finish(file, durable=True)
        check()


def write_json(
    path: Path, record: Mapping[str, Any], *, durable: bool = True, private: bool = False
) -> None:
    """Replaces ``path``; if ``durable`` it is on the disk then. Raises :class:`OSError`.

    A ``private`` file is for nobody else to read.
    """

    with _replacing(path, durable=durable) as temporary:
        with suppress(FileNotFoundError):
            temporary.unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600 if private else 0o666)
        with open(descriptor, "w", encoding="utf-8") as file:
            give_to_owner_of(path.parent, descriptor)
            json.dump({"protocol": VERSION, **record}, file)
            _finish(file, durable=durable)


@contextmanager
def _replacing(target: Path, *, durable: bool) -> Iterator[Path]:
    """A temporary name beside ``target``; what is there when the block ends takes its place."""
    temporary = target.with_name(f".{target.name}.{os.uname().nodename}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        sync_folder(target.parent)


def _finish(file: IO[Any], *, durable: bool) -> None:
    file.flush()
    if durable:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Makes a rename in it durable, where the platform lets a folder be opened."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def open_plain(path: Path) -> BinaryIO:
    """Opens a plain file to read. Raises :class:`OSError` for anything else.

    A job may leave anything in its folder: a pipe would make a reader wait for ever, a link
    would make it read what is none of the job's.
    """
    return os.fdopen(_open_plain(path, os.O_RDONLY), "rb")


def open_to_append(path: Path) -> BinaryIO:
    """Opens a plain file to write at its end, made if it is missing. Raises :class:`OSError`."""
    descriptor = _open_plain(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    give_to_owner_of(path.parent, descriptor)
    return os.fdopen(descriptor, "ab", buffering=0)


def _open_plain(path: Path, flags: int) -> int:
    """Neither the file nor its folder may be a link, nor the file have a second name."""
    only = os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | only)
    try:
        descriptor = os.open(path.name, flags | os.O_NONBLOCK | only, 0o644, dir_fd=folder)
    finally:
        os.close(folder)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or (flags & os.O_WRONLY and status.st_nlink > 1):
        os.close(descriptor)
        raise OSError(f"{path} is not a plain file")
    return descriptor


def give_to_owner_of(folder: Path, descriptor: int) -> None:
    """Makes the folder's owner that of a new file, where we are root and the folder is not."""
    if os.geteuid() == 0:
        status = os.stat(folder, follow_symlinks=False)
        if status.st_uid != 0:
            os.fchown(descriptor, status.st_uid, status.st_gid)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file, or None if it is missing, damaged or something else."""
    try:
        with open_plain(path) as file:
            record = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
