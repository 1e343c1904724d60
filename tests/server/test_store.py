"""The store: what was confirmed is there, and what is wrong is said."""

from __future__ import annotations

import itertools
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.server.postgres import postgres_server
from tests.server.services import config, known, running, submit, tiny, wait_for

from shockwave.model.cluster import Node
from shockwave.model.errors import InputError, JournalError
from shockwave.model.events import (
    Event,
    JobChanged,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeUp,
    RoundDecided,
    StopReason,
)
from shockwave.model.job import JobSpec
from shockwave.server.archive import Archive
from shockwave.server.facts import JobFacts
from shockwave.server.lock import StateLock, prepare_state_dir
from shockwave.server.store import Store
from shockwave.traces import load

SPEC = JobSpec("j-1", 0.5, 2, 10, (32, 64), (1.5, math.nan), name="☃", model="a\0b")
EVENTS: list[Event] = [
    NodeUp(0.0, Node("n0", 4)),
    JobSubmitted(1.0, SPEC),
    JobStarted(2.0, "j-1", (("n0", (0, 1)),), 1),
    JobStopped(3.0, "j-1", 4.5, StopReason.CRASHED, "exit code 1\nlast line"),
    RoundDecided(4.0, 2, 1, 1, 0, 4, 0, 0, 0.1, price=1.25),
]


def opened(url: str, folder: Path, **options: bool) -> Store:
    return Store(url, Archive(folder / "archive"), **options)


def at(path: Path, **options: bool) -> Store:
    return opened(f"sqlite:///{path}", path.parent, **options)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture
def postgres_url(postgres: str) -> str:
    """An empty database."""
    import psycopg  # only where there is a server to speak to

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shockwave.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    return tmp_path / "shockwave.db"


def filled(path: Path) -> None:
    store = at(path)
    store.append(1, EVENTS, 0, [])
    store.close()


# What holds for every database.


def test_what_was_written_is_read_back_and_nothing_else(url: str, tmp_path: Path) -> None:
    store = opened(url, tmp_path)
    store.append(1, EVENTS[:3], 0, [])
    assert store.last_event() == (3, 2.0)
    store.append(4, EVENTS[3:], 1, [])
    store.close()

    again = opened(url, tmp_path)
    assert [number for number, _ in again.events()] == [1, 2, 3, 4, 5]
    assert repr([event for _, event in again.events()]) == repr(EVENTS)  # nan equals nan there
    assert again.last_event() == (5, 4.0)
    assert [number for number, _ in again.records(after=1, limit=2)] == [2, 3]
    assert again.records(after=5, limit=2) == []
    again.close()


def test_a_write_is_all_or_nothing(url: str, tmp_path: Path) -> None:
    store = opened(url, tmp_path)
    store.append(1, EVENTS[:3], 0, [])
    with pytest.raises(JournalError, match="somebody else wrote"):
        store.append(3, [*EVENTS[3:], JobSubmitted(5.0, replace(SPEC, id="j-2"))], 1, [])
    assert store.last_event()[0] == 3
    assert [job.id for job in store.index()[1]] == ["j-1"]
    store.close()


def test_the_index_has_what_was_submitted_changed_and_ended(url: str, tmp_path: Path) -> None:
    store = opened(url, tmp_path)
    other = replace(SPEC, id="j-2", name="other", tenant="b")
    events: list[Event] = [
        JobSubmitted(1.0, SPEC, '{"a":1}', "key"),
        JobSubmitted(1.0, other, '{"a":2}'),
        JobChanged(2.0, replace(other, tenant="c"), '{"a":3}'),
    ]
    done = JobFacts(1, SPEC, 0.0, state="finished")
    store.append(1, [*events, JobFinished(3.0, "j-1", 1.0)], 0, [done])
    last, (first, second) = store.index()
    assert last == 4
    assert (first.state, second.state) == ("finished", "active")
    assert (second.tenant, second.submission) == ("c", '{"a":3}')
    assert store.job_of_key("key") == store.job("j-1") == first
    assert store.job("j-9") is store.job_of_key("other") is None
    assert store.ids_of_name("other") == ["j-2"]
    ended = store.ended_jobs(states=["finished"], tenant=None, after=0, limit=5)
    assert [repr(facts) for facts in ended] == [repr(done)]
    assert store.ended_jobs(states=[], tenant="b", after=0, limit=5) == []
    assert store.ended_jobs(states=[], tenant=None, after=1, limit=5) == []
    store.close()


def test_small_facts_are_kept(url: str, tmp_path: Path) -> None:
    store = opened(url, tmp_path)
    assert store.started_unix() == 0.0
    assert store.origin_unix(123.25) == 123.25
    store.close()
    again = opened(url, tmp_path)
    assert again.origin_unix(999.0) == again.started_unix() == 123.25
    again.close()


def test_a_second_scheduler_on_one_postgresql_is_refused(postgres_url: str, tmp_path: Path) -> None:
    store = opened(postgres_url, tmp_path)
    with pytest.raises(InputError, match="another scheduler uses this database"):
        opened(postgres_url, tmp_path)
    opened(postgres_url, tmp_path, only_read=True).close()
    store.close()
    opened(postgres_url, tmp_path).close()


def test_a_scheduler_runs_on_postgresql(postgres_url: str, tmp_path: Path) -> None:
    settings = config(tmp_path, database_url=postgres_url)
    with running(settings) as service:
        job = submit(service, tiny())
        wait_for(lambda: known(service, job).state == "finished", "the job")
    with running(settings) as service:
        assert known(service, job).state == "finished"
    assert not (tmp_path / "shockwave.db").exists()
    assert [past.spec.id for past in load(postgres_url)] == [job]  # as a trace


# What can be wrong with one.


def test_one_whose_making_was_interrupted_is_made_anew(tmp_path: Path) -> None:
    """After whatever statement, the last one included."""
    statements = 0
    for most in itertools.count(1):
        path, statements = tmp_path / f"{most}.db", 0

        def interrupt(connection: sa.Connection, *_: object, most: int = most) -> None:
            nonlocal statements
            statements += 1
            if statements == most:
                raise KeyboardInterrupt

        sa.event.listen(sa.Engine, "after_cursor_execute", interrupt)
        try:
            at(path).close()
            break
        except KeyboardInterrupt:
            pass
        finally:
            sa.event.remove(sa.Engine, "after_cursor_execute", interrupt)
        with closing(at(path)) as store:
            assert store.last_event() == (0, 0.0)
    assert statements > 5  # tables and their indices, and the version


@pytest.mark.parametrize(
    ("version", "advice"),
    [("1", "Use the version of shockwave that made it"), ("99", "Use a newer version")],
)
def test_a_schema_of_another_version_is_refused(
    sqlite_path: Path, version: str, advice: str
) -> None:
    filled(sqlite_path)
    with sqlite3.connect(sqlite_path) as connection:
        connection.execute(f"UPDATE meta SET value = '{version}' WHERE key = 'schema_version'")
    connection.close()
    for only_read in (False, True):
        with pytest.raises(InputError, match=f"schema version {version}, .*{advice}"):
            at(sqlite_path, only_read=only_read)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("DELETE FROM events WHERE seq = 3", "lacks events 3 to 3"),
        ("UPDATE events SET record = '{\"kind\"' WHERE seq = 5", "event 5: not JSON"),
        ("UPDATE events SET record = '[1]' WHERE seq = 2", "event 2: not an event"),
        ('UPDATE events SET record = \'{"kind":"odd"}\' WHERE seq = 2', "event 2: not an event"),
    ],
)
def test_a_damaged_event_is_named(sqlite_path: Path, damage: str, said: str) -> None:
    filled(sqlite_path)
    with sqlite3.connect(sqlite_path) as connection:
        connection.execute(damage)
    connection.close()
    store = at(sqlite_path)
    with pytest.raises(JournalError, match=said):
        list(store.events())
    store.close()


def test_a_file_that_is_no_database_is_named(sqlite_path: Path) -> None:
    sqlite_path.write_bytes(b"not a database at all, but long enough to look like one" * 50)
    with pytest.raises(JournalError, match="not a database"):
        at(sqlite_path)


def test_a_torn_write_ahead_log_is_cut_off_at_the_last_whole_transaction(tmp_path: Path) -> None:
    path = tmp_path / "shockwave.db"
    store = at(path)
    store.append(1, EVENTS[:2], 0, [])
    whole = (tmp_path / "shockwave.db-wal").read_bytes()
    store.append(3, EVENTS[2:], 1, [])
    torn = (tmp_path / "shockwave.db-wal").read_bytes()[: len(whole) + 700]
    database = path.read_bytes()
    store.close()
    elsewhere = tmp_path / "after-the-crash"
    elsewhere.mkdir()
    (elsewhere / "shockwave.db").write_bytes(database)
    (elsewhere / "shockwave.db-wal").write_bytes(torn)
    again = at(elsewhere / "shockwave.db")
    assert [number for number, _ in again.events()] == [1, 2]
    again.append(3, EVENTS[2:], 1, [])
    assert again.last_event()[0] == 5
    again.close()


def test_a_full_disk_loses_nothing_that_was_confirmed(sqlite_path: Path) -> None:
    store = at(sqlite_path)
    store.append(1, EVENTS[:1], 0, [])
    with store._engine.connect() as connection:  # the pool hands out the same one again
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    big = JobStopped(1.0, "j-1", 0.0, StopReason.CRASHED, "x" * 500_000)
    with pytest.raises(JournalError, match=r"disk is full\. Free some space"):
        store.append(2, [big], 0, [])
    assert store.last_event()[0] == 1
    with store._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
    store.append(2, [big], 0, [])
    assert store.last_event()[0] == 2
    store.close()


def test_a_database_that_cannot_be_written_is_named(sqlite_path: Path) -> None:
    filled(sqlite_path)
    store = at(sqlite_path)
    with store._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = 1")
    with pytest.raises(JournalError, match="readonly database"):
        store.append(6, EVENTS, 1, [])
    store.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nonsense", "not the URL of a database"),
        ("mysql://user:secret@host/db", "only sqlite and postgresql"),
        ("sqlite:////nowhere/at/all/x.db", "cannot be opened"),
        ("postgresql://user:secret@127.0.0.1:1/db", "cannot be opened"),
    ],
)
def test_a_database_that_cannot_be_used_is_told_without_its_password(
    url: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said) as error:
        opened(url, tmp_path)
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_only_a_schedulers_database_can_be_looked_at(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not the database of a scheduler"):
        at(tmp_path / "empty.db", only_read=True)


# The lock of a state directory.


def test_a_state_directory_has_one_scheduler(tmp_path: Path) -> None:
    import os

    first, second = StateLock(tmp_path), StateLock(tmp_path)
    first.acquire()
    with pytest.raises(
        InputError, match=rf"process {os.getpid()} on .*\) uses this state directory"
    ):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        prepare_state_dir(tmp_path / "file" / "state")
    prepare_state_dir(tmp_path / "new" / "state")
    assert (tmp_path / "new" / "state").stat().st_mode & 0o077 == 0
