"""Notices that are on their way: an index of the journal's events that survives restarts.

``position`` is how far the journal was read; it moves in the same transaction that adds what was
found there, so nothing is missed and nothing is there twice. A notice leaves when it arrived, or
when it is given up. What arrived just before a crash may arrive again; its number is the same.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

FILE = "notifications.db"
_FIRST_WAIT_SECONDS = 5.0
_LONGEST_WAIT_SECONDS = 3600.0
GIVEN_UP_AFTER_SECONDS = 3 * 86_400.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS position (one INTEGER PRIMARY KEY CHECK (one = 1), sequence INTEGER);
CREATE TABLE IF NOT EXISTS waiting (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    sequence INTEGER NOT NULL, occasion TEXT NOT NULL, job TEXT NOT NULL, target TEXT NOT NULL,
    body TEXT NOT NULL, since REAL NOT NULL,
    UNIQUE (sequence, occasion, job, target)
);
CREATE TABLE IF NOT EXISTS targets (
    target TEXT PRIMARY KEY, failures INTEGER NOT NULL, due REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS expected (job TEXT PRIMARY KEY, finish REAL NOT NULL, told INTEGER);
"""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notice for one target. ``since`` is when it was put here (unix seconds)."""

    id: int
    sequence: int
    occasion: str
    job: str
    target: str
    body: str
    since: float


@dataclass(frozen=True, slots=True)
class Addressed:
    """A notice with those that it goes to."""

    sequence: int
    occasion: str
    job: str
    body: str
    targets: tuple[str, ...]


class Outbox:
    """Thread-safe. Every change is durable when the method returns."""

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)  # it has addresses of people
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.executescript(_SCHEMA)

    def close(self) -> None:
        with self._lock:
            self._database.close()

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def position(self, begin: int) -> int:
        """How far the journal was read; ``begin`` if nobody ever did, from now on."""
        with self._change() as database:
            database.execute("INSERT OR IGNORE INTO position VALUES (1, ?)", (begin,))
            (found,) = database.execute("SELECT sequence FROM position").fetchone()
        return int(found)

    def add(self, position: int, found: Sequence[Addressed], now: float) -> None:
        """The journal was read up to ``position``, and this is what people shall know of it."""
        rows = [
            (item.sequence, item.occasion, item.job, target, item.body, now)
            for item in found
            for target in item.targets
        ]
        with self._change() as database:
            database.executemany(
                "INSERT OR IGNORE INTO waiting (sequence, occasion, job, target, body, since) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )
            database.execute("UPDATE position SET sequence = ?", (position,))

    def due(self, now: float) -> list[Delivery]:
        """The first notice of each target that may be tried now."""
        with self._lock:
            rows = self._database.execute(
                "SELECT MIN(id), sequence, occasion, job, target, body, since FROM waiting "
                "LEFT JOIN targets USING (target) "
                "WHERE COALESCE(due, 0) <= ? GROUP BY target ORDER BY 1",
                (now,),
            ).fetchall()
        return [Delivery(*row) for row in rows]

    def arrived(self, delivery: Delivery) -> None:
        with self._change() as database:
            database.execute("DELETE FROM waiting WHERE id = ?", (delivery.id,))
            database.execute("DELETE FROM targets WHERE target = ?", (delivery.target,))

    def failed(self, delivery: Delivery, now: float) -> float | None:
        """It is tried again after the seconds returned; None if it is given up."""
        with self._change() as database:
            found = database.execute(
                "SELECT failures FROM targets WHERE target = ?", (delivery.target,)
            ).fetchone()
            failures = 1 + (found[0] if found else 0)
            wait = min(_FIRST_WAIT_SECONDS * 2.0 ** min(failures - 1, 20), _LONGEST_WAIT_SECONDS)
            database.execute(
                "INSERT OR REPLACE INTO targets VALUES (?, ?, ?)",
                (delivery.target, failures, now + wait),
            )
            if now - delivery.since > GIVEN_UP_AFTER_SECONDS:
                database.execute("DELETE FROM waiting WHERE id = ?", (delivery.id,))
                return None
        return wait

    # What was expected of jobs when they started.

    def expect(self, job: str, finish_unix: float) -> None:
        """Only the first time: what was expected then is what people were told. 0: not known."""
        with self._change() as database:
            database.execute("INSERT OR IGNORE INTO expected VALUES (?, ?, 0)", (job, finish_unix))
            database.execute(
                "UPDATE expected SET finish = ? WHERE job = ? AND finish = 0", (finish_unix, job)
            )

    def expected(self) -> dict[str, float]:
        """The expected finish of jobs whose owners do not know yet that they will miss it."""
        with self._lock:
            rows = self._database.execute("SELECT job, finish FROM expected WHERE told = 0")
            return {job: float(finish) for job, finish in rows.fetchall()}

    def told_late(self, job: str) -> None:
        with self._change() as database:
            database.execute("UPDATE expected SET told = 1 WHERE job = ?", (job,))

    def forget(self, job: str) -> None:
        """The job has ended."""
        with self._change() as database:
            database.execute("DELETE FROM expected WHERE job = ?", (job,))
