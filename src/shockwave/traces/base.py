"""What a trace format is: one class with one method, a path in, jobs out."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TextIO

from shockwave.model.job import TraceJob


class RowError(Exception):
    """A row of a source that cannot become a job. ``reason`` is one of few; ``detail`` says more.

    Rows are counted by reason, so a reason holds no values of the row.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


@dataclass
class Rejects:
    """What became of the rows of a source: how many there were, and which could not be used.

    ``file`` receives every reject as a JSON object a line, with the text of its row. ``where``
    is added to every reason, for rows of a table that lies beside the one of the jobs.
    """

    file: TextIO | None = None
    where: str = ""
    rows: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, line: int, unusable: RowError, text: str) -> None:
        reason = unusable.reason + self.where
        self.reasons[reason] += 1
        if self.file is not None:
            record = {"line": line, "reason": reason, "detail": unusable.detail}
            self.file.write(json.dumps({**record, "text": text}) + "\n")

    def include(self, other: Rejects) -> None:
        """Counts the rejects of another table as rows of this one."""
        self.rows += other.total
        self.reasons += other.reasons

    @property
    def total(self) -> int:
        return self.reasons.total()

    def told(self) -> str:
        """The counts in words, most frequent reason first."""
        return ", ".join(f"{count:,} {reason}" for reason, count in self.reasons.most_common())


@dataclass(frozen=True)
class Sample:
    """What a format is recognised by: the path and the first lines (of a folder none)."""

    path: Path
    lines: tuple[str, ...] = ()


class TraceFormat(ABC):
    """Reads the jobs of one kind of trace file.

    ``name`` is what users choose the format by, ``suffixes`` (such as ``".jsonl"``) the
    file names that it is chosen for unasked. A package adds its own format with an entry
    point of the group ``shockwave.traces`` that names the class.

    ``calendar`` tells that arrivals are dates (seconds since 1970) and not seconds of the
    trace, and ``assumptions`` what the source leaves open and how it was filled in.
    ``profiles`` is the file or folder of profiles that a source needs beside it, where the
    user named one.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    calendar: ClassVar[bool] = False
    assumptions: ClassVar[tuple[str, ...]] = ()
    profiles: Path | None = None

    @abstractmethod
    def read(self, path: Path) -> list[TraceJob]:
        """All jobs of the file. Raises :class:`~shockwave.model.errors.TraceError`."""

    def recognises(self, sample: Sample) -> bool:
        """Whether the file is of this format; by its suffix, if nothing better is known."""
        name = sample.path.name.lower()
        return name.endswith(tuple(suffix.lower() for suffix in self.suffixes))

    def stream(self, path: Path, rejects: Rejects) -> Iterator[TraceJob]:
        """The jobs in the order of the file, one at a time; rows of no use go to ``rejects``."""
        for job in self.read(path):
            rejects.rows += 1
            yield job
