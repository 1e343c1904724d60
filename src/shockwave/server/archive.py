"""Old parts of the journal, as compressed files that are complete or not there.

``journal-<first>-<last>.jsonl.gz``, an event a line. The numbers follow on each other, and the
events of the database on the last of them.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from shockwave.model.errors import JournalError
from shockwave.protocol.files import atomic_bytes

SEGMENT_EVENTS = 50_000
_NAME = re.compile(r"journal-(\d+)-(\d+)\.jsonl\.gz")


class Archive:
    """The files in one folder. One scheduler writes, anybody reads; None where nobody knows it."""

    def __init__(self, folder: Path | None, segment_events: int = SEGMENT_EVENTS) -> None:
        self.segment_events = segment_events
        self.folder = folder
        self._segments: list[tuple[int, int, Path]] = []  # (first, last, file), in order
        self.refresh()

    def refresh(self) -> None:
        found = []
        for path in [] if self.folder is None else self.folder.glob("journal-*.jsonl.gz"):
            match = _NAME.fullmatch(path.name)
            if match:
                found.append((int(match[1]), int(match[2]), path))
        self._segments = sorted(found)

    @property
    def last(self) -> int:
        """The number of the last event that is here; 0 if there is none."""
        return self._segments[-1][1] if self._segments else 0

    def add(self, first: int, lines: Sequence[str]) -> None:
        """Events that follow on the last one here."""
        if self.folder is None or first != self.last + 1:
            raise JournalError(f"{self.folder}: event {self.last + 1} would be missing")
        last = first + len(lines) - 1
        self.folder.mkdir(exist_ok=True, mode=0o700)
        path = self.folder / f"journal-{first:012d}-{last:012d}.jsonl.gz"
        text = "".join(f"{line}\n" for line in lines).encode()
        with atomic_bytes(path) as file:
            file.write(gzip.compress(text, compresslevel=6, mtime=0))
        self._segments.append((first, last, path))

    def last_before(self, seconds: float) -> int:
        """The number of an event before that time, after which nothing earlier begins a file."""
        after = 0
        for first, _, path in self._segments:
            with gzip.open(path, "rb") as file:
                if json.loads(file.readline())["time"] >= seconds:
                    break
            after = first - 1
        return after

    def lines(self, after: int) -> Iterator[tuple[int, bytes]]:
        """Events with numbers above ``after``. Raises :class:`JournalError` for a damaged file."""
        for first, last, path in self._segments:
            if last <= after:
                continue
            number = first - 1
            try:
                with gzip.open(path, "rb") as file:
                    for number, line in enumerate(file, start=first):
                        if number > after:
                            yield number, line
            except (OSError, EOFError) as error:
                raise JournalError(f"{path}: cannot be read: {error}") from error
            if number != last:
                raise JournalError(f"{path}: ends with event {number}, not {last}")
