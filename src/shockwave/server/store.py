"""What survives: submissions, requests and the journal, in SQLite or PostgreSQL.

Three tables. ``meta`` says which schema this is and when the run's second 0 was, ``jobs``
holds what people submitted, and ``events`` is the journal: append-only, numbered without
gaps from 1. A number is given out by the one scheduler that writes; a second writer would
collide with it and fail instead of mixing two histories.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from shockwave.engine.journal import Journal
from shockwave.model.errors import InputError, JournalError
from shockwave.model.events import Event, from_record, to_record
from shockwave.server.database import clear_errors, connect, lock_database, shown_url

SCHEMA_VERSION = 1
_BATCH = 2_000  # rows that are read at once

_metadata = sa.MetaData()
_meta = sa.Table(
    "meta",
    _metadata,
    sa.Column("key", sa.String(200), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
_jobs = sa.Table(
    "jobs",
    _metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("id", sa.String(64), nullable=False, unique=True),
    sa.Column("submission", sa.Text, nullable=False),
    sa.Column("submitted_unix", sa.Double, nullable=False),
    sa.Column("idempotency_key", sa.String(256), unique=True),
    sa.Column("cancel_requested", sa.Boolean, nullable=False, default=False),
)
_events = sa.Table(
    "events",
    _metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("time", sa.Double, nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("job", sa.String(64)),
    sa.Column("record", sa.Text, nullable=False),
)


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A submission as it was accepted. ``submission`` is JSON."""

    number: int
    id: str
    submission: str
    submitted_unix: float
    idempotency_key: str | None
    cancel_requested: bool


class Store:
    """Thread-safe. Every write is one transaction and durable when the method returns.

    Raises :class:`InputError` where the database cannot be used, and :class:`JournalError`
    where it fails or holds something else than a journal. ``only_read`` looks at what is
    there, beside a scheduler that may be running on it.
    """

    def __init__(self, url: str, *, only_read: bool = False) -> None:
        self.where = shown_url(url)
        self._engine = connect(url)
        self._writing = threading.Lock()
        self._lock: sa.Connection | None = None
        try:
            self._open(only_read)
        except BaseException:
            self.close()
            raise

    def _open(self, only_read: bool) -> None:
        try:
            self._engine.connect().close()
        except sa.exc.DBAPIError as error:
            with clear_errors(self.where):
                if "not a database" in str(error) or "malformed" in str(error):
                    raise
            cause = " ".join(str(error.orig).split())
            raise InputError(
                f"the database cannot be opened: {cause}",
                source=self.where,
                hint="Check database_url, and that the server runs",
            ) from error
        with clear_errors(self.where):
            if not only_read:
                self._lock = lock_database(self._engine, self.where)
                _metadata.create_all(self._engine)
            elif not sa.inspect(self._engine).has_table(_events.name):
                raise InputError("not the database of a scheduler", source=self.where)
        found = self.remember("schema_version", str(SCHEMA_VERSION))
        if found != str(SCHEMA_VERSION):
            raise InputError(
                f"the database has schema version {found}, this program knows {SCHEMA_VERSION}",
                source=self.where,
                hint="Use the version of shockwave that made it, or another state directory",
            )

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        self._engine.dispose()

    # Small facts.

    def remember(self, key: str, value: str) -> str:
        """What is stored under ``key``; ``value`` if nothing was, from now on."""
        with self._writing, clear_errors(self.where), self._engine.begin() as connection:
            found = connection.execute(
                sa.select(_meta.c.value).where(_meta.c.key == key)
            ).scalar_one_or_none()
            if found is None:
                connection.execute(_meta.insert().values(key=key, value=value))
                return value
            return str(found)

    def origin_unix(self, now_unix: float) -> float:
        """When the run's second 0 was, in unix seconds: now, if this is the first start."""
        return float(self.remember("started_unix", repr(now_unix)))

    def drained(self) -> frozenset[str]:
        """Nodes that somebody wants to be empty."""
        wanted = sa.select(_meta.c.key).where(_meta.c.key.like("drained:%"))
        with clear_errors(self.where), self._engine.connect() as connection:
            return frozenset(
                key.removeprefix("drained:") for key in connection.execute(wanted).scalars()
            )

    def set_drained(self, node: str, drained: bool) -> None:
        key = f"drained:{node}"
        with self._writing, clear_errors(self.where), self._engine.begin() as connection:
            connection.execute(_meta.delete().where(_meta.c.key == key))
            if drained:
                connection.execute(_meta.insert().values(key=key, value="1"))

    # Submissions.

    def add_job(
        self,
        submission: str,
        submitted_unix: float,
        idempotency_key: str | None,
        name_job: Callable[[int], str],
    ) -> tuple[StoredJob, bool]:
        """A new job, and True; or the job that has this key already, and False."""
        with self._writing, clear_errors(self.where), self._engine.begin() as connection:
            if idempotency_key is not None:
                earlier = connection.execute(
                    sa.select(_jobs).where(_jobs.c.idempotency_key == idempotency_key)
                ).one_or_none()
                if earlier is not None:
                    return StoredJob(*earlier), False
            last = connection.execute(sa.select(sa.func.max(_jobs.c.number))).scalar_one()
            number = (last or 0) + 1
            job = StoredJob(
                number, name_job(number), submission, submitted_unix, idempotency_key, False
            )
            connection.execute(
                _jobs.insert().values(
                    number=job.number,
                    id=job.id,
                    submission=job.submission,
                    submitted_unix=job.submitted_unix,
                    idempotency_key=job.idempotency_key,
                    cancel_requested=False,
                )
            )
            return job, True

    def request_cancel(self, job: str) -> None:
        with self._writing, clear_errors(self.where), self._engine.begin() as connection:
            connection.execute(
                _jobs.update().where(_jobs.c.id == job).values(cancel_requested=True)
            )

    def jobs(self) -> list[StoredJob]:
        """All submissions, in order."""
        with clear_errors(self.where), self._engine.connect() as connection:
            rows = connection.execute(sa.select(_jobs).order_by(_jobs.c.number))
            return [StoredJob(*row) for row in rows]

    def job(self, job: str) -> StoredJob | None:
        with clear_errors(self.where), self._engine.connect() as connection:
            row = connection.execute(sa.select(_jobs).where(_jobs.c.id == job)).one_or_none()
            return None if row is None else StoredJob(*row)

    # The journal.

    def last_time(self) -> float:
        """When the last event happened, in seconds of the run; 0 before the first."""
        with clear_errors(self.where), self._engine.connect() as connection:
            last = connection.execute(sa.select(sa.func.max(_events.c.time))).scalar_one()
            return float(last or 0.0)

    def last_sequence_number(self) -> int:
        with clear_errors(self.where), self._engine.connect() as connection:
            last = connection.execute(sa.select(sa.func.max(_events.c.seq))).scalar_one()
            return int(last or 0)

    def append(self, first: int, events: Sequence[Event]) -> None:
        """Events with the numbers ``first, first + 1, ...``, all of them or none."""
        rows = [
            {
                "seq": number,
                "time": event.time,
                "kind": event.kind,
                "job": job_of(event),
                "record": json.dumps(to_record(event), separators=(",", ":")),
            }
            for number, event in enumerate(events, start=first)
        ]
        with self._writing, clear_errors(self.where), self._engine.begin() as connection:
            connection.execute(_events.insert(), rows)

    def records(self, after: int, limit: int) -> list[tuple[int, dict[str, Any]]]:
        """Up to ``limit`` events with numbers above ``after``, as JSON types."""
        wanted = (
            sa.select(_events.c.seq, _events.c.record)
            .where(_events.c.seq > after)
            .order_by(_events.c.seq)
            .limit(limit)
        )
        with clear_errors(self.where), self._engine.connect() as connection:
            rows = connection.execute(wanted).all()
        return [(int(seq), self._parsed(int(seq), record)) for seq, record in rows]

    def events(self) -> Iterator[tuple[int, Event]]:
        """The whole journal. Raises :class:`JournalError` that names what is damaged."""
        last = 0
        while batch := self.records(last, _BATCH):
            for number, record in batch:
                if number != last + 1:
                    raise JournalError(
                        f"{self.where}: the journal lacks events {last + 1} to {number - 1}"
                    )
                try:
                    event = from_record(record)
                except JournalError as error:
                    raise JournalError(f"{self.where}, event {number}: {error}") from error
                yield number, event
                last = number

    def _parsed(self, number: int, record: str) -> dict[str, Any]:
        try:
            parsed = json.loads(record)
        except ValueError as error:
            raise JournalError(f"{self.where}, event {number}: not JSON ({error})") from error
        if not isinstance(parsed, dict):
            raise JournalError(f"{self.where}, event {number}: not an event: {record[:80]}")
        return parsed


def job_of(event: Event) -> str | None:
    """The id of the job that an event is about."""
    job = getattr(event, "job", None)
    return job if isinstance(job, str) or job is None else str(job.id)


# Told what has become durable: the number of the first event, and the events.
Listener = Callable[[int, Sequence[Event]], None]


class StoreJournal(Journal):
    """Collects events; a flush makes them durable in one transaction and tells the listener."""

    def __init__(self, store: Store, listener: Listener) -> None:
        self._store = store
        self._listener = listener
        self._waiting: list[Event] = []
        self._last = store.last_sequence_number()

    def append(self, event: Event) -> None:
        self._waiting.append(event)

    def flush(self) -> None:
        if not self._waiting:
            return
        first, events = self._last + 1, self._waiting
        self._store.append(first, events)
        self._last += len(events)
        self._waiting = []
        self._listener(first, events)
