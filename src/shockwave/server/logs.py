"""Reading a job's captured output: whole, its last lines, or as it grows."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from threading import Event
from typing import BinaryIO

from starlette.concurrency import run_in_threadpool

from shockwave.protocol.files import open_plain

CHUNK_BYTES = 64 * 1024
GLANCE_SECONDS = 0.25


def open_log(path: Path) -> BinaryIO | None:
    """The file, if it is one; None for anything else."""
    try:
        return open_plain(path)
    except OSError:
        return None


def seek_to_last_lines(file: BinaryIO, lines: int) -> None:
    """Puts the position at the start of the last ``lines`` lines, reading backwards."""
    position = file.seek(0, os.SEEK_END)
    if lines == 0:
        return
    wanted = lines
    first_block = True
    while position > 0:
        size = min(CHUNK_BYTES, position)
        position -= size
        file.seek(position)
        block = file.read(size)
        if first_block and block.endswith(b"\n"):
            wanted += 1  # the newline that ends the last line starts no other
        first_block = False
        found = block.count(b"\n")
        if found >= wanted:
            cut = len(block)
            for _ in range(wanted):
                cut = block.rfind(b"\n", 0, cut)
            file.seek(position + cut + 1)
            return
        wanted -= found
    file.seek(0)


def read_log(file: BinaryIO, tail: int | None) -> Iterator[bytes]:
    """What is there now, in chunks; ends at the size that the file had when it began."""
    with file:
        remaining = os.fstat(file.fileno()).st_size
        if tail is not None:
            seek_to_last_lines(file, tail)
            remaining -= file.tell()
        while remaining > 0 and (chunk := file.read(min(CHUNK_BYTES, remaining))):
            remaining -= len(chunk)
            yield chunk


async def follow_log(
    find: Callable[[], Path | None],
    is_over: Callable[[], bool],
    closing: Event,
    tail: int | None,
) -> AsyncIterator[bytes]:
    """What is there and what comes, until the job is over or the server closes.

    ``find`` names the file, which may not exist yet. A file that was rotated away is read to its
    end before the new one is opened; one that was truncated is read from its start.
    """
    file: BinaryIO | None = None
    try:
        while True:
            over = closing.is_set() or await run_in_threadpool(is_over)
            path = await run_in_threadpool(find)
            if file is None and path is not None:
                file = open_log(path)
                if file is not None and tail is not None:
                    seek_to_last_lines(file, tail)
                tail = None
            if file is not None:
                replaced = path is not None and _was_replaced(file, path)
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk
                if replaced:
                    file.close()
                    file = None
                    continue
                if os.fstat(file.fileno()).st_size < file.tell():
                    file.seek(0)
                    continue
            if over:
                return
            await asyncio.sleep(GLANCE_SECONDS)
    finally:
        if file is not None:
            file.close()


def _was_replaced(file: BinaryIO, path: Path) -> bool:
    try:
        return os.stat(path, follow_symlinks=False).st_ino != os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False  # between two steps of a rotation
