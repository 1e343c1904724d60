"""The tables that a scheduler keeps.

``meta`` says which schema this is and when the run's second 0 was. ``events`` is the journal:
append-only, numbered without gaps; old events move to files (:mod:`shockwave.server.archive`).
A number is given out by the one scheduler that writes; a second writer would collide with it
and fail instead of mixing two histories. ``jobs`` is an index and no truth of its own: what was
submitted, and the last facts of jobs that have ended, written in the same transaction as the
events that say so. ``shockwave check`` rebuilds it and compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from shockwave.model.events import JobSubmitted

SCHEMA_VERSION = 2
ACTIVE = "active"  # the state of a job in the index until it has ended

METADATA = sa.MetaData()
META = sa.Table(
    "meta",
    METADATA,
    sa.Column("key", sa.String(200), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
JOBS = sa.Table(
    "jobs",
    METADATA,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("id", sa.String(64), nullable=False, unique=True),
    sa.Column("name", sa.String(128), nullable=False, index=True),
    sa.Column("tenant", sa.String(128), nullable=False),
    sa.Column("owner", sa.String(128), nullable=False),
    sa.Column("group_id", sa.String(160), nullable=False, index=True),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("key", sa.String(300), unique=True),
    sa.Column("submission", sa.Text, nullable=False),
    sa.Column("facts", sa.Text),  # of a job that has ended
    sa.Index("jobs_by_state", "state", "number"),
)
EVENTS = sa.Table(
    "events",
    METADATA,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("time", sa.Double, nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("record", sa.Text, nullable=False),
)


@dataclass(frozen=True, slots=True)
class IndexedJob:
    """A row of the index of jobs. ``submission`` is JSON, ``facts`` those of an ended job."""

    number: int
    id: str
    name: str
    tenant: str
    owner: str
    group_id: str
    state: str
    key: str | None
    submission: str
    facts: str | None


def indexed(number: int, event: JobSubmitted) -> dict[str, Any]:
    """The row of the index that a submission makes."""
    job = event.job
    return {
        "number": number,
        "id": job.id,
        "name": job.name,
        "tenant": job.tenant,
        "owner": job.owner,
        "group_id": job.group,
        "state": ACTIVE,
        "key": event.key,
        "submission": event.submission or "{}",
    }
