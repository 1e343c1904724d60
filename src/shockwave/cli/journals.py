"""A run by whatever a person calls it: a journal file, a state directory, a database's URL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shockwave.engine.journal import read_journal
from shockwave.model.errors import InputError, JournalError
from shockwave.model.events import Event

if TYPE_CHECKING:
    from shockwave.server.store import Store

DATABASE = "shockwave.db"
StateDirOption = Annotated[
    Path | None,
    typer.Option(help="Of the scheduler, where a run is the URL of a database."),
]


def events_of(run: str, state_dir: Path | None = None) -> Iterator[Event]:
    """All events of the run, archived ones included. Raises :class:`InputError`.

    ``state_dir`` is where the archive is, of a database that is not in its state directory.
    """
    path = Path(run)
    if "://" not in run and not path.is_dir() and path.suffix != ".db":
        if not path.is_file():
            raise InputError(
                "there is no journal",
                source=run,
                hint="Name a JSON Lines file, a state directory or a database URL",
            )
        return _written(path)
    return _stored(run, state_dir)


def open_store(run: str, state_dir: Path | None = None) -> Store:
    """The store of a state directory, a database file or a URL, only to be read.

    Of a URL, old events are in the scheduler's ``state_dir``.
    """
    from shockwave.server.archive import Archive  # only these need a database driver
    from shockwave.server.store import Store

    path = Path(run)
    if "://" in run:
        if state_dir is not None and not state_dir.is_dir():
            raise InputError("is not a state directory", place="--state-dir", value=str(state_dir))
        folder = None if state_dir is None else state_dir / "archive"
        return Store(run, Archive(folder), only_read=True)
    if path.is_dir():
        path = path / DATABASE
    if not path.is_file():
        raise InputError(
            "there is no state of a scheduler", source=str(path), hint="Name a state directory"
        )
    url = f"sqlite:///{path.absolute()}"
    return Store(url, Archive(path.parent / "archive"), only_read=True)


def _written(path: Path) -> Iterator[Event]:
    try:
        yield from read_journal(path)
    except JournalError as error:
        raise InputError(
            str(error), hint="Name a journal, as `shockwave simulate --journal` writes it"
        ) from error


def _stored(run: str, state_dir: Path | None) -> Iterator[Event]:
    store = open_store(run, state_dir)
    try:
        for _, event in store.events():
            yield event
    finally:
        store.close()
