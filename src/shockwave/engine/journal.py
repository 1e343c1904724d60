"""The journal: everything that happened, in order, append-only."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from shockwave.model.errors import JournalError
from shockwave.model.event_records import from_record, to_record
from shockwave.model.events import Event
from shockwave.model.progress import Progressed
from shockwave.protocol.files import atomic_writer


class Journal(ABC):
    """Takes events in order. What was written is never changed."""

    @abstractmethod
    def write(self, events: Sequence[Event]) -> None:
        """All of them or none; durable when it returns, where the journal is."""


class MemoryJournal(Journal):
    """Keeps the events as a list: ``journal.events``.

    Without the progress of every round, which no metric needs and which would fill the
    memory in a long simulation. Another journal ``beside`` it gets everything.
    """

    def __init__(self, beside: Journal | None = None) -> None:
        self.events: list[Event] = []
        self._beside = beside

    def write(self, events: Sequence[Event]) -> None:
        if self._beside is not None:
            self._beside.write(events)
        self.events += [event for event in events if not isinstance(event, Progressed)]


class FileJournal(Journal):
    """Writes one JSON object a line; a context manager. After an error there is no file."""

    def __init__(self, path: Path) -> None:
        self._writer = atomic_writer(path)

    def write(self, events: Sequence[Event]) -> None:
        for event in events:
            self._file.write(json.dumps(to_record(event), separators=(",", ":")) + "\n")

    def __enter__(self) -> FileJournal:
        self._file: IO[str] = self._writer.__enter__()
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
            yield event_of_line(line, f"{path}, line {number}")


def event_of_line(line: bytes, place: str) -> Event:
    """The event that a line of a journal holds. Raises :class:`JournalError` with its place."""
    try:
        record = json.loads(line.decode("utf-8"))
    except ValueError as error:  # of the text or of the JSON
        raise JournalError(f"{place}: not JSON ({error})") from error
    if not isinstance(record, dict):
        raise JournalError(f"{place}: not an event: {str(record)[:80]}")
    try:
        return from_record(record)
    except JournalError as error:
        raise JournalError(f"{place}: {error}") from error
