"""The journal: everything that happened, in order, append-only."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TextIO

from shockwave.model.errors import JournalError
from shockwave.model.events import Event, from_record, to_record
from shockwave.protocol.files import atomic_writer


class Journal(ABC):
    """Takes events in order. What was appended is never changed."""

    @abstractmethod
    def append(self, event: Event) -> None: ...

    def flush(self) -> None:  # noqa: B027
        """Make durable what was appended. Called before orders are carried out."""


class MemoryJournal(Journal):
    """Keeps the events as a list: ``journal.events``."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def append(self, event: Event) -> None:
        self.events.append(event)


class FileJournal(Journal):
    """Writes one JSON object a line; a context manager. After an error there is no file."""

    def __init__(self, path: Path) -> None:
        self._writer = atomic_writer(path)

    def append(self, event: Event) -> None:
        self._file.write(json.dumps(to_record(event), separators=(",", ":")) + "\n")

    def __enter__(self) -> FileJournal:
        self._file: TextIO = self._writer.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.__exit__(kind, error, trace)


def read_journal(path: Path) -> Iterator[Event]:
    """The events of a journal file. Raises :class:`JournalError` with the line number."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line.decode("utf-8"))
            except ValueError as error:  # of the text or of the JSON
                raise JournalError(f"{path}, line {number}: not JSON ({error})") from error
            if not isinstance(record, dict):
                raise JournalError(f"{path}, line {number}: not an event: {str(record)[:80]}")
            try:
                event = from_record(record)
            except JournalError as error:
                raise JournalError(f"{path}, line {number}: {error}") from error
            yield event
