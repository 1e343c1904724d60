"""The database: how it is opened, made durable, and how its errors read.

SQLite is opened in WAL mode with ``synchronous = FULL``: what was committed survives a
power cut. PostgreSQL is used as it is configured.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from shockwave.model.errors import InputError, JournalError

_MOST_READERS = 50  # beyond the pool; a web server has about as many threads
_WAIT_FOR_LOCK_MILLISECONDS = 30_000
_ADVISORY_LOCK = 0x5A0C_4A7E  # any number that nothing else uses

_HINTS = (
    ("disk is full", "Free some space; nothing that was confirmed is lost"),
    ("disk i/o", "Check the disk; nothing that was confirmed is lost"),
    ("no space", "Free some space; nothing that was confirmed is lost"),
    ("readonly", "Check the permissions of the file and of its folder"),
    ("read-only", "Check that the database may be written"),
    ("malformed", "Restore the database from a backup, or start with a new state directory"),
    ("not a database", "Move the file away, or choose another state directory"),
    ("unable to open", "Check that the folder exists and may be written"),
    ("locked", "Another program has the database open for writing; end it"),
)


def connect(url: str) -> sa.Engine:
    """An engine for the URL. Raises :class:`InputError` for one that cannot be used."""
    try:
        parsed = sa.make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.get_backend_name() not in ("sqlite", "postgresql"):
            raise InputError(
                "only sqlite and postgresql are supported",
                place="database_url",
                value=shown_url(url),
            )
        engine = sa.create_engine(
            parsed,
            pool_pre_ping=parsed.get_backend_name() != "sqlite",
            max_overflow=_MOST_READERS,
        )
    except (exc.ArgumentError, exc.NoSuchModuleError) as error:
        raise InputError(
            "not the URL of a database",
            place="database_url",
            value=shown_url(url),
            hint="It looks like sqlite:////folder/file.db or postgresql://user@host/name",
        ) from error
    except ModuleNotFoundError as error:
        raise InputError(
            f"the driver {error.name} is not installed",
            place="database_url",
            value=shown_url(url),
            hint="pip install 'shockwave-scheduler[postgres]'",
        ) from error
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _make_durable)
    return engine


def shown_url(url: str) -> str:
    """The URL without its password."""
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except exc.ArgumentError:
        return url.partition("@")[2] or url


def _make_durable(connection: Any, _: object) -> None:
    cursor = connection.cursor()
    try:
        cursor.execute(f"PRAGMA busy_timeout = {_WAIT_FOR_LOCK_MILLISECONDS}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")
    finally:
        cursor.close()


@contextmanager
def clear_errors(where: str) -> Iterator[None]:
    """Turns a database's errors into one line with the next step."""
    try:
        yield
    except exc.IntegrityError as error:
        raise JournalError(
            f"{where}: somebody else wrote to this journal ({_cause(error)}). "
            "Only one scheduler may use a database"
        ) from error
    except (exc.DBAPIError, exc.TimeoutError) as error:
        cause = _cause(error)
        hint = next((hint for part, hint in _HINTS if part in cause.lower()), None)
        raise JournalError(f"{where}: {cause}" + (f". {hint}" if hint else "")) from error


def _cause(error: Exception) -> str:
    origin = getattr(error, "orig", None) or error
    return " ".join(str(origin).split()) or type(origin).__name__


def lock_database(engine: sa.Engine, where: str) -> sa.Connection | None:
    """Refuses a second scheduler on one PostgreSQL database, from whatever machine.

    The connection that is returned holds the lock until it is closed. SQLite needs none:
    its file is in a state directory, which has a lock of its own.
    """
    if engine.dialect.name != "postgresql":
        return None
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    free = connection.execute(sa.select(sa.func.pg_try_advisory_lock(_ADVISORY_LOCK))).scalar_one()
    if not free:
        connection.close()
        raise InputError(
            "another scheduler uses this database",
            source=where,
            hint="Stop that one, or choose another --database-url",
        )
    return connection
