"""A run by whatever a person calls it: a journal file, a state directory, a database's URL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from shockwave.engine.journal import read_journal
from shockwave.model.errors import InputError
from shockwave.model.events import Event

if TYPE_CHECKING:
    from shockwave.server.store import Store

DATABASE = "shockwave.db"


def events_of(run: str) -> Iterator[Event]:
    """All events of the run, archived ones included. Raises :class:`InputError`."""
    path = Path(run)
    if "://" not in run and not path.is_dir() and path.suffix != ".db":
        if not path.is_file():
            raise InputError(
                "there is no journal",
                source=run,
                hint="Name a JSON Lines file, a state directory or a database URL",
            )
        return read_journal(path)
    return _stored(run)


def open_store(run: str, archive: Path | None = None) -> Store:
    """The store of a state directory, a database file or a URL, only to be read.

    ``archive`` is where its old events are, if not beside the database.
    """
    from shockwave.server.archive import Archive  # only these need a database driver
    from shockwave.server.store import Store

    path = Path(run)
    if "://" in run:
        return Store(run, Archive(archive or Path("archive")), only_read=True)
    if path.is_dir():
        path = path / DATABASE
    if not path.is_file():
        raise InputError(
            "there is no state of a scheduler", source=str(path), hint="Name a state directory"
        )
    url = f"sqlite:///{path.absolute()}"
    return Store(url, Archive(path.parent / "archive"), only_read=True)


def _stored(run: str) -> Iterator[Event]:
    store = open_store(run)
    try:
        for _, event in store.events():
            yield event
    finally:
        store.close()
