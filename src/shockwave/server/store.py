"""What survives: the journal, in SQLite or PostgreSQL, and an index of jobs beside it.

Old events move to files (:mod:`shockwave.server.archive`) and are read from there as if they had
stayed. What the tables hold is said in :mod:`shockwave.server.schema`.
"""

from __future__ import annotations

import itertools
import json
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from shockwave.engine.journal import event_of_line
from shockwave.model.errors import InputError, JournalError
from shockwave.model.event_records import to_record
from shockwave.model.events import Event, JobChanged, JobSubmitted
from shockwave.server import facts as facts_module
from shockwave.server.archive import Archive
from shockwave.server.database import clear_errors, connect, lock_database, shown_url
from shockwave.server.facts import JobFacts
from shockwave.server.schema import (
    ACTIVE,
    EVENTS,
    JOBS,
    META,
    METADATA,
    SCHEMA_VERSION,
    IndexedJob,
    indexed,
)

_BATCH = 2_000  # rows that are read at once


class Store:
    """Thread-safe. Every write is one transaction and durable when the method returns.

    Raises :class:`InputError` where the database cannot be used, and :class:`JournalError`
    where it fails or holds something else than a journal. ``only_read`` looks at what is
    there, beside a scheduler that may be running on it.
    """

    def __init__(self, url: str, archive: Archive, *, only_read: bool = False) -> None:
        self.url = url
        self.where = shown_url(url)
        self.archive = archive
        self._only_read = only_read
        self._engine = connect(url)
        self._writing = threading.Lock()
        self._lock: sa.Connection | None = None
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
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
            if not self._only_read:
                self._lock = lock_database(self._engine, self.where)
            is_new = not sa.inspect(self._engine).has_table(META.name)
            if is_new and self._only_read:
                raise InputError("not the database of a scheduler", source=self.where)
            if is_new:
                self._make_tables()
            else:
                self._check_version()

    def _make_tables(self) -> None:
        """All of them or none: whoever is killed meanwhile begins anew."""
        with self._engine.begin() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN")  # its driver does so for rows only
            METADATA.create_all(connection)
            version = {"key": "schema_version", "value": str(SCHEMA_VERSION)}
            connection.execute(META.insert().values(version))

    def _check_version(self) -> None:
        wanted = sa.select(META.c.value).where(META.c.key == "schema_version")
        with clear_errors(self.where), self._engine.connect() as connection:
            found = connection.execute(wanted).scalar_one_or_none()
        if found != str(SCHEMA_VERSION):
            newer = found is not None and found.isdigit() and int(found) > SCHEMA_VERSION
            raise InputError(
                f"the state has schema version {found}, this program knows {SCHEMA_VERSION}",
                source=self.where,
                hint="Use a newer version of shockwave"
                if newer
                else "Use the version of shockwave that made it, or another state directory",
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
                sa.select(META.c.value).where(META.c.key == key)
            ).scalar_one_or_none()
            if found is None:
                connection.execute(META.insert().values(key=key, value=value))
                return value
            return str(found)

    def origin_unix(self, now_unix: float) -> float:
        """When the run's second 0 was, in unix seconds: now, if this is the first start."""
        return float(self.remember("started_unix", repr(now_unix)))

    def started_unix(self) -> float:
        """When the run's second 0 was; 0 before the first start."""
        wanted = sa.select(META.c.value).where(META.c.key == "started_unix")
        with clear_errors(self.where), self._engine.connect() as connection:
            return float(connection.execute(wanted).scalar_one_or_none() or 0.0)

    # The index of jobs.

    def job(self, job: str) -> IndexedJob | None:
        return self._one_job(JOBS.c.id == job)

    def job_of_key(self, key: str) -> IndexedJob | None:
        return self._one_job(JOBS.c.key == key)

    def _one_job(self, condition: sa.ColumnElement[bool]) -> IndexedJob | None:
        with clear_errors(self.where), self._engine.connect() as connection:
            row = connection.execute(sa.select(JOBS).where(condition)).one_or_none()
            return None if row is None else IndexedJob(*row)

    def ids_of_name(self, name: str, limit: int = 10, owner: str | None = None) -> list[str]:
        """The latest jobs of that name, newest first; of the owner, if one is given."""
        wanted = (
            sa.select(JOBS.c.id)
            .where(JOBS.c.name == name)
            .order_by(JOBS.c.number.desc())
            .limit(limit)
        )
        if owner is not None:
            wanted = wanted.where(JOBS.c.owner == owner)
        with clear_errors(self.where), self._engine.connect() as connection:
            return list(connection.execute(wanted).scalars())

    def ended_jobs(
        self,
        *,
        states: Sequence[str],
        tenant: str | None,
        after: int,
        limit: int,
        owner: str | None = None,
        group: str | None = None,
    ) -> list[JobFacts]:
        """Jobs that have ended, in order of submission from number ``after`` on."""
        wanted = sa.select(JOBS.c.facts).where(JOBS.c.number > after, JOBS.c.state != ACTIVE)
        if states:
            wanted = wanted.where(JOBS.c.state.in_(states))
        if tenant is not None:
            wanted = wanted.where(JOBS.c.tenant == tenant)
        if owner is not None:
            wanted = wanted.where(JOBS.c.owner == owner)
        if group is not None:
            wanted = wanted.where(JOBS.c.group_id == group)
        wanted = wanted.order_by(JOBS.c.number).limit(limit)
        with clear_errors(self.where), self._engine.connect() as connection:
            texts = connection.execute(wanted).scalars().all()
        return [facts_module.from_json(text) for text in texts]

    def ended_of_group(self, group: str) -> dict[str, int]:
        """How many jobs of a group have ended, by state."""
        wanted = (
            sa.select(JOBS.c.state, sa.func.count())
            .where(JOBS.c.group_id == group, JOBS.c.state != ACTIVE)
            .group_by(JOBS.c.state)
        )
        with clear_errors(self.where), self._engine.connect() as connection:
            return {str(state): int(count) for state, count in connection.execute(wanted)}

    def index(self) -> tuple[int, list[IndexedJob]]:
        """The last event, and all rows of the index as they were then."""
        newest = sa.select(sa.func.max(EVENTS.c.seq).label("seq")).subquery()
        wanted = (
            sa.select(newest.c.seq, JOBS)
            .select_from(newest.outerjoin(JOBS, sa.true()))
            .order_by(JOBS.c.number)
        )  # one statement, because a scheduler may be writing
        with clear_errors(self.where), self._engine.connect() as connection:
            rows = connection.execute(wanted).all()
        jobs = [IndexedJob(*row[1:]) for row in rows if row.number is not None]
        return self.archive.last if rows[0].seq is None else int(rows[0].seq), jobs

    # The journal.

    def last_event(self) -> tuple[int, float]:
        """The number and the time of the last event; zeros before the first."""
        wanted = sa.select(EVENTS.c.seq, EVENTS.c.time).order_by(EVENTS.c.seq.desc()).limit(1)
        with clear_errors(self.where), self._engine.connect() as connection:
            row = connection.execute(wanted).one_or_none()
        if row is not None:
            return int(row.seq), float(row.time)
        last = self.archive.last
        return last, max((event.time for _, event in self.events(last - 1)), default=0.0)

    def append(
        self, first: int, events: Sequence[Event], jobs_before: int, ended: Sequence[JobFacts]
    ) -> None:
        """Events with the numbers ``first, first + 1, ...`` and what the index has of them.

        ``jobs_before`` were submitted before these events; ``ended`` are the jobs that end with
        them. All of it or nothing.
        """
        rows = [
            {
                "seq": number,
                "time": event.time,
                "kind": event.kind,
                "record": json.dumps(to_record(event), separators=(",", ":")),
            }
            for number, event in enumerate(events, start=first)
        ]
        submitted = [event for event in events if isinstance(event, JobSubmitted)]
        new = [indexed(number, e) for number, e in enumerate(submitted, start=jobs_before + 1)]
        with self._writing, clear_errors(self.where), self._engine.begin() as connection:
            connection.execute(EVENTS.insert(), rows)
            if new:
                connection.execute(JOBS.insert(), new)
            for event in events:
                if isinstance(event, JobChanged):
                    changed = {"name": event.job.name, "tenant": event.job.tenant}
                    if event.submission is not None:
                        changed["submission"] = event.submission
                    connection.execute(
                        JOBS.update().where(JOBS.c.id == event.job.id).values(changed)
                    )
            for facts in ended:
                connection.execute(
                    JOBS.update()
                    .where(JOBS.c.number == facts.number)
                    .values(state=facts.state, facts=facts_module.to_json(facts))
                )

    def records(self, after: int, limit: int) -> list[tuple[int, dict[str, Any]]]:
        """Up to ``limit`` events with numbers above ``after``, as JSON types."""
        lines = itertools.islice(self._lines(after, min(limit, _BATCH)), max(limit, 0))
        return [(number, json.loads(line)) for number, line in lines]

    def line(self, number: int) -> bytes | None:
        """One event as it is stored."""
        for found, line in self._lines(number - 1, 1):
            return line.rstrip(b"\n") if found == number else None
        return None

    def events(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        """The journal from a number on. Raises :class:`JournalError` that names what is damaged."""
        last = after
        for number, line in self._lines(after):
            if number != last + 1:
                hint = "" if self.archive.last else ". Is --state-dir that of the scheduler?"
                raise JournalError(
                    f"{self.where}: the journal lacks events {last + 1} to {number - 1}{hint}"
                )
            yield number, event_of_line(line, f"{self.where}, event {number}")
            last = number

    def _lines(self, after: int, batch: int = _BATCH) -> Iterator[tuple[int, bytes]]:
        """Events move to the archive while somebody reads: what is gone here is there."""
        while True:
            if after < self.archive.last:
                yield from self.archive.lines(after)
                after = self.archive.last
            rows = self._rows(after, batch)
            if not rows or rows[0][0] != after + 1:
                if self._only_read:
                    self.archive.refresh()
                if after < self.archive.last:
                    continue
            if not rows:
                return
            for number, record in rows:
                yield number, record.encode()
            after = rows[-1][0]

    def _rows(self, after: int, limit: int) -> list[tuple[int, str]]:
        wanted = (
            sa.select(EVENTS.c.seq, EVENTS.c.record)
            .where(EVENTS.c.seq > after)
            .order_by(EVENTS.c.seq)
            .limit(limit)
        )
        with clear_errors(self.where), self._engine.connect() as connection:
            return [(int(row.seq), str(row.record)) for row in connection.execute(wanted)]

    def events_since(self, seconds: float, kinds: Sequence[str]) -> list[Event]:
        """Events of these kinds from a time on, as far as they are not archived yet."""
        return [event for _, event in self._stored(self.last_before(seconds), kinds)]

    def last_before(self, seconds: float) -> int:
        """The number of the last event before a time, as far as they are not archived yet."""
        last, _ = self.last_event()
        low, high = self.archive.last, last
        with clear_errors(self.where), self._engine.connect() as connection:
            while low < high:  # numbers grow with time, so the first one can be searched for
                middle = (low + high) // 2
                wanted = sa.select(EVENTS.c.time).where(EVENTS.c.seq == middle + 1)
                time = connection.execute(wanted).scalar_one_or_none()
                if time is None or time < seconds:  # None: archived a moment ago
                    low = middle + 1
                else:
                    high = middle
        return low

    def events_between(
        self, begin: float, end: float, kinds: Sequence[str]
    ) -> Iterator[tuple[int, Event]]:
        """Events of these kinds from ``begin`` until ``end``, archived ones included."""
        tags = tuple(f'"kind":"{kind}"'.encode() for kind in kinds)
        for number, line in self.archive.lines(self.archive.last_before(begin)):
            if any(tag in line for tag in tags):  # most are not read any closer
                event = event_of_line(line, f"the archive, event {number}")
                if event.kind in kinds and begin <= event.time < end:
                    yield number, event
        for number, event in self._stored(self.last_before(begin), kinds, end):
            yield number, event

    def _stored(
        self, after: int, kinds: Sequence[str], end: float = math.inf
    ) -> Iterator[tuple[int, Event]]:
        found = sa.select(EVENTS.c.seq, EVENTS.c.record).where(
            EVENTS.c.seq > after, EVENTS.c.kind.in_(kinds), EVENTS.c.time < end
        )
        with clear_errors(self.where), self._engine.connect() as connection:
            rows = connection.execute(found.order_by(EVENTS.c.seq)).all()
        for row in rows:
            yield int(row.seq), event_of_line(row.record.encode(), f"{self.where}, event {row.seq}")

    def archive_events(
        self, before_seconds: float, up_to: int, most_segments: float = math.inf
    ) -> int:
        """Moves events older than a time, and numbered ``up_to`` at most, to the archive.

        Returns how many, no more than fill ``most_segments`` files. Interrupted at any point it
        loses nothing: events are deleted here when their file is complete, and read from there
        as soon as it is.
        """
        self._forget_archived()
        moved = 0
        while moved < most_segments * self.archive.segment_events:
            wanted = (
                sa.select(EVENTS.c.seq, EVENTS.c.record)
                .where(
                    EVENTS.c.seq > self.archive.last,
                    EVENTS.c.seq <= up_to,
                    EVENTS.c.time < before_seconds,
                )
                .order_by(EVENTS.c.seq)
                .limit(self.archive.segment_events)
            )
            with clear_errors(self.where), self._engine.connect() as connection:
                rows = connection.execute(wanted).all()
            if len(rows) < self.archive.segment_events:
                break
            self.archive.add(int(rows[0].seq), [str(row.record) for row in rows])
            self._forget_archived()
            moved += len(rows)
        return moved

    def _forget_archived(self) -> None:
        with self._writing, clear_errors(self.where), self._engine.begin() as connection:
            connection.execute(EVENTS.delete().where(EVENTS.c.seq <= self.archive.last))
