"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, overload

from shockwave.model.errors import InputError


@overload
def atomic_writer(
    path: str | Path, *, binary: Literal[False] = False
) -> AbstractContextManager[IO[str]]: ...
@overload
def atomic_writer(
    path: str | Path, *, binary: Literal[True]
) -> AbstractContextManager[IO[bytes]]: ...
@contextmanager
def atomic_writer(path: str | Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """A file that takes the place of ``path`` when the block ends without an error.

    The text goes to a temporary file beside ``path``, reaches the disk, and is renamed. A
    reader sees the old file or the new one; after an error the old one is untouched. Raises
    :class:`OSError` where the folder cannot be written.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        how: dict[str, Any] = {} if binary else {"encoding": "utf-8", "newline": "\n"}
        with temporary.open("wb" if binary else "w", **how) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def check_writable(path: Path) -> None:
    """Raises :class:`InputError` now if ``path`` could not be written later, after long work."""
    folder = path.parent
    if path.is_dir():
        raise InputError("is a folder, expected a file to write", source=str(path))
    if not folder.is_dir():
        raise InputError("the folder does not exist", source=str(path), hint=f"mkdir -p {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InputError("cannot be written", source=str(path), hint="Check the permissions")


def _sync_folder(folder: Path) -> None:
    """Makes the rename itself durable, where the platform lets a folder be opened."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
