"""Reading a job's captured output: all its pieces, the last lines, since a time, or as it grows.

The newest piece of a log is ``rank-0.log``, older ones are ``rank-0.log.1`` and so on. Beside
each is a file that says when what was written, and by which launch of the job.
"""

from __future__ import annotations

import asyncio
import os
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import BinaryIO

from starlette.concurrency import run_in_threadpool

from shockwave.protocol.files import open_plain
from shockwave.protocol.paths import times_of

CHUNK_BYTES = 64 * 1024
GLANCE_SECONDS = 0.25
_MOST_PIECES = 100
_MARK_SECONDS = 1.0  # what is written within so many seconds has one time


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of a log, and how it is shown."""

    tail: int | None = None  # lines
    since: float | None = None  # unix seconds
    launches: bool = False  # a line between two launches of the job
    times: bool = False  # the time in front of each line


@dataclass(slots=True)
class Mark:
    """What was written from ``offset`` on was written at ``time`` (unix), by ``launch``."""

    offset: int
    time: float
    launch: int


@dataclass(slots=True)
class Piece:
    """One file of a log, and what is known of its times."""

    file: BinaryIO
    times: BinaryIO | None
    marks: list[Mark] = field(default_factory=list)
    _rest: bytes = b""

    @property
    def inode(self) -> int:
        return os.fstat(self.file.fileno()).st_ino

    @property
    def size(self) -> int:
        return os.fstat(self.file.fileno()).st_size

    def read_marks(self) -> None:
        """Those that were added since the last time; whatever is none is passed over."""
        while self.times is not None and (data := self.times.read(CHUNK_BYTES)):
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                try:
                    offset, time, launch = line.split()
                    self.marks.append(Mark(int(offset), float(time), int(launch)))
                except ValueError:
                    continue

    def close(self) -> None:
        self.file.close()
        if self.times is not None:
            self.times.close()


def open_log(path: Path) -> BinaryIO | None:
    """The file, if it is one; None for anything else."""
    try:
        return open_plain(path)
    except OSError:
        return None


def has_log(path: Path) -> bool:
    """Whether there is any piece; right after a rotation only older ones are there."""
    for piece in (path, _older(path, 1)):
        file = open_log(piece)
        if file is not None:
            file.close()
            return True
    return False


class LogReader:
    """Reads pieces from old to new, each byte once, while they are written and rotated."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        self._path = path
        self._wanted = wanted
        self._pieces = _open_pieces(path)  # oldest first; those that are read are closed
        self._launch: int | None = None  # that the reader was told of
        self._time: float | None = None
        self._line_begins = True
        self._start()

    def read(self) -> Iterator[bytes]:
        """All that is there now, and was not read before."""
        self._find_newer()
        while self._pieces:
            piece = self._pieces[0]
            end = piece.size
            piece.read_marks()  # after the size: the marks of all that is there are known
            if end < piece.file.tell():  # somebody emptied it
                piece.file.seek(0)
                piece.marks.clear()
            yield from self._read(piece, end)
            if len(self._pieces) == 1:
                return
            self._pieces.pop(0).close()

    def close(self) -> None:
        for piece in self._pieces:
            piece.close()
        self._pieces = []

    # Where to begin.

    def _start(self) -> None:
        for piece in self._pieces:
            piece.read_marks()
        if self._wanted.since is not None:
            self._skip_until(self._wanted.since - _MARK_SECONDS)
        if self._wanted.tail is not None:
            self._skip_to_last_lines(self._wanted.tail)

    def _skip_until(self, time: float) -> None:
        """Pieces without times are taken for old."""
        while self._pieces:
            piece = self._pieces[0]
            first = bisect_left([mark.time for mark in piece.marks], time)
            if first < len(piece.marks):
                piece.file.seek(min(piece.marks[first].offset, piece.size))
                return
            if len(self._pieces) == 1:
                piece.file.seek(0, os.SEEK_END)
                return
            self._pieces.pop(0).close()

    def _skip_to_last_lines(self, lines: int) -> None:
        missing = lines
        for number, piece in reversed(list(enumerate(self._pieces))):
            begin = piece.file.tell()
            missing = seek_to_last_lines(piece.file, missing)
            piece.file.seek(max(piece.file.tell(), begin))
            if missing == 0:
                for older in self._pieces[:number]:
                    older.close()
                del self._pieces[:number]
                return

    # Reading on.

    def _find_newer(self) -> None:
        """Pieces that have come since the last look."""
        if self._pieces and not _was_replaced(self._pieces[-1].file, self._path):
            return
        known = {piece.inode for piece in self._pieces}
        found = _open_pieces(self._path)
        read = [number for number, piece in enumerate(found) if piece.inode in known]
        first_newer = read[-1] + 1 if read else 0
        for piece in found[:first_newer]:
            piece.close()
        self._pieces += found[first_newer:]

    def _read(self, piece: Piece, end: int) -> Iterator[bytes]:
        position = piece.file.tell()
        while position < end:
            cut = self._cross_mark(piece, position)
            yield from self._separator(piece, position)
            size = min(CHUNK_BYTES, min(cut, end) - position)
            chunk = piece.file.read(size)
            if not chunk:
                return
            position += len(chunk)
            yield self._decorated(chunk)

    def _cross_mark(self, piece: Piece, position: int) -> int:
        """Where the next mark is, if it matters; remembers the time of what comes next."""
        if not (self._wanted.launches or self._wanted.times):
            return position + CHUNK_BYTES
        index = bisect_left([mark.offset for mark in piece.marks], position + 1)
        if index > 0:
            self._time = piece.marks[index - 1].time
        return piece.marks[index].offset if index < len(piece.marks) else position + CHUNK_BYTES

    def _separator(self, piece: Piece, position: int) -> Iterator[bytes]:
        if not self._wanted.launches:
            return
        index = bisect_left([mark.offset for mark in piece.marks], position + 1)
        launch = piece.marks[index - 1].launch if index > 0 else None
        if launch is None or launch == self._launch:
            return
        self._launch = launch
        begin = b"" if self._line_begins else b"\n"
        self._line_begins = True
        yield begin + f"--- launch {launch}, {_written(self._time)} ---\n".encode()

    def _decorated(self, chunk: bytes) -> bytes:
        if not self._wanted.times:
            self._line_begins = chunk.endswith(b"\n")
            return chunk
        prefix = f"{_written(self._time)} ".encode()
        lines = chunk.split(b"\n")
        ends_line = lines[-1] == b""
        if ends_line:
            lines.pop()
        first = self._line_begins
        self._line_begins = ends_line
        made = [prefix + line if first or i > 0 else line for i, line in enumerate(lines)]
        return b"\n".join(made) + (b"\n" if ends_line else b"")


def read_log(path: Path, wanted: Wanted) -> Iterator[bytes]:
    """What is there now, in chunks."""
    reader = LogReader(path, wanted)
    try:
        yield from reader.read()
    finally:
        reader.close()


async def follow_log(
    find: Callable[[], Path | None],
    is_over: Callable[[], bool],
    closing: Event,
    wanted: Wanted,
) -> AsyncIterator[bytes]:
    """What is there and what comes, until the job is over or the server closes.

    ``find`` names the file, which may not exist yet.
    """
    reader: LogReader | None = None
    try:
        while True:
            over = closing.is_set() or await run_in_threadpool(is_over)
            if reader is None:
                path = await run_in_threadpool(find)
                reader = None if path is None else LogReader(path, wanted)
            if reader is not None:
                for chunk in reader.read():
                    yield chunk
            if over:
                return
            await asyncio.sleep(GLANCE_SECONDS)
    finally:
        if reader is not None:
            reader.close()


def seek_to_last_lines(file: BinaryIO, lines: int) -> int:
    """Puts the position at the start of the last ``lines`` lines, reading backwards.

    Returns how many lines more would be needed.
    """
    position = file.seek(0, os.SEEK_END)
    if lines == 0:
        return 0
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
            return 0
        wanted -= found
    file.seek(0)
    return lines if first_block else max(wanted - 1, 0)


def _older(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


def _open_pieces(path: Path) -> list[Piece]:
    """Oldest first. A rotation meanwhile loses nothing: the newest is opened first."""
    pieces: list[Piece] = []
    seen: set[int] = set()
    for number in range(_MOST_PIECES):
        file = open_log(_older(path, number))
        if file is None:
            if number == 0:
                continue  # right after a rotation
            break
        inode = os.fstat(file.fileno()).st_ino
        if inode in seen:
            file.close()
            continue
        seen.add(inode)
        pieces.append(Piece(file, open_log(times_of(_older(path, number)))))
    return pieces[::-1]


def _was_replaced(file: BinaryIO, path: Path) -> bool:
    try:
        return os.stat(path, follow_symlinks=False).st_ino != os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False  # between two steps of a rotation


def _written(unix: float | None) -> str:
    if unix is None:
        return "time unknown"
    return datetime.fromtimestamp(unix).astimezone().isoformat(" ", "seconds")
