"""What a live scheduler's jobs really did, from its database, as a trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from shockwave.cli.journals import DATABASE, open_store
from shockwave.model.errors import InputError, JournalError, TraceError
from shockwave.model.job import TraceJob
from shockwave.traces.base import Rejects, Sample
from shockwave.traces.journal import JournalFormat, recorded_jobs
from shockwave.traces.recorded import RecordedFormat

_MAGIC = "SQLite format 3"


class DatabaseFormat(RecordedFormat):
    """A state directory of ``shockwave serve``, the SQLite file in it, or a database's URL."""

    name = "database"
    assumptions = JournalFormat.assumptions

    def recognises(self, sample: Sample) -> bool:
        if sample.path.is_dir():
            return (sample.path / DATABASE).is_file()
        return next(iter(sample.lines), "").startswith(_MAGIC)

    def stream(self, path: Path, rejects: Rejects) -> Iterator[TraceJob]:
        try:
            store = open_store(_run(path))
            try:
                yield from recorded_jobs(store.events(), f"{self.name}:{path.name}", rejects)
            finally:
                store.close()
        except JournalError as error:
            raise TraceError(str(error), source=str(path)) from error
        except ModuleNotFoundError as error:
            raise InputError(
                f"needs {error.name}",
                source=str(path),
                hint="pip install 'shockwave-scheduler[server]'",
            ) from error


def _run(path: Path) -> str:
    """The path, or the URL that it was: a path keeps only one slash of several."""
    text = str(path)
    scheme, at, rest = text.partition(":/")
    if not at or path.exists():
        return text
    return f"{scheme}:////{rest}" if scheme.startswith("sqlite") else f"{scheme}://{rest}"
