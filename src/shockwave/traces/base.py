"""What a trace format is: one class with one method, a path in, jobs out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from shockwave.model.job import TraceJob


class TraceFormat(ABC):
    """Reads the jobs of one kind of trace file.

    ``name`` is what users choose the format by, ``suffixes`` (such as ``".jsonl"``) the
    file names that it is chosen for unasked. A package adds its own format with an entry
    point of the group ``shockwave.traces`` that names the class.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def read(self, path: Path) -> list[TraceJob]:
        """All jobs of the file. Raises :class:`~shockwave.model.errors.TraceError`."""
