"""Old events move to files, and nobody who reads notices."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.services import check, config, journal, running, slow, submit, tiny

from shockwave.model.errors import JournalError
from shockwave.model.events import Event, NodeOccupied, RoundDecided
from shockwave.server import service as service_module
from shockwave.server.archive import Archive
from shockwave.server.service import Service
from shockwave.server.store import Store

EVENTS: list[Event] = [NodeOccupied(float(number), "n0", number) for number in range(1, 48)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = opened(tmp_path)
    store.append(1, EVENTS, 0, [])
    yield store
    store.close()


def opened(folder: Path, *, only_read: bool = False) -> Store:
    archive = Archive(folder / "archive", segment_events=10)
    return Store(f"sqlite:///{folder / 'shockwave.db'}", archive, only_read=only_read)


def everything(store: Store) -> list[Event]:
    return [event for _, event in store.events()]


def in_database(store: Store) -> list[int]:
    return [number for number, _ in store._rows(0, 1000)]


def segments(folder: Path) -> list[Path]:
    return sorted((folder / "archive").iterdir())


def test_whole_segments_move_and_are_read_across(store: Store, tmp_path: Path) -> None:
    assert store.archive_events(before_seconds=39.0, up_to=100) == 30
    assert in_database(store) == list(range(31, 48))
    assert [path.name for path in segments(tmp_path)] == [
        f"journal-{first:012d}-{first + 9:012d}.jsonl.gz" for first in (1, 11, 21)
    ]
    assert everything(store) == EVENTS
    for after in (0, 9, 10, 25, 29, 30, 31, 46, 47):
        for limit in (1, 7, 100):
            numbers = [number for number, _ in store.records(after, limit)]
            assert numbers == list(range(after + 1, 48))[:limit]
        assert [event for _, event in store.events(after)] == EVENTS[after:]
    assert store.last_event() == (47, 47.0)
    assert [e.time for e in store.events_since(40.0, ["node-occupied"])] == list(range(40, 48))
    assert len(store.events_since(5.0, ["node-occupied"])) == 17  # the others are archived


def test_a_long_past_is_moved_in_pieces(store: Store) -> None:
    moved = [store.archive_events(39.0, 100, most_segments=2) for _ in range(3)]
    assert moved == [20, 10, 0]
    assert everything(store) == EVENTS


def test_nothing_that_a_snapshot_needs_is_moved(store: Store) -> None:
    assert store.archive_events(before_seconds=1e9, up_to=25) == 20
    assert in_database(store)[0] == 21
    assert store.archive_events(before_seconds=1e9, up_to=25) == 0


def test_a_journal_that_was_moved_as_a_whole_goes_on(store: Store, tmp_path: Path) -> None:
    store.append(48, [NodeOccupied(float(n), "n0", n) for n in range(48, 51)], 0, [])
    assert store.archive_events(before_seconds=1e9, up_to=50) == 50
    assert in_database(store) == []
    assert store.last_event() == (50, 50.0)
    again = opened(tmp_path)
    again.append(51, [NodeOccupied(51.0, "n0", 51)], 0, [])
    assert [number for number, _ in again.events(45)] == [46, 47, 48, 49, 50, 51]
    again.close()


def test_interrupted_between_the_file_and_the_database_it_loses_and_doubles_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    calls = iter([lambda: None, die])
    forget = store._forget_archived

    def sometimes() -> None:
        next(calls)()
        forget()

    monkeypatch.setattr(store, "_forget_archived", sometimes)
    with pytest.raises(KeyboardInterrupt):
        store.archive_events(before_seconds=39.0, up_to=100)
    assert len(segments(tmp_path)) == 1
    assert in_database(store)[0] == 1  # not deleted yet
    again = opened(tmp_path)
    assert everything(again) == EVENTS
    assert again.archive_events(before_seconds=39.0, up_to=100) == 20
    assert in_database(again)[0] == 31
    assert everything(again) == EVENTS
    again.close()


def test_a_file_is_complete_or_not_there(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def power_cut(*_: object) -> None:
        raise OSError("power cut")

    monkeypatch.setattr("os.replace", power_cut)
    with pytest.raises(OSError, match="power cut"):
        store.archive_events(before_seconds=39.0, up_to=100)
    monkeypatch.undo()
    again = opened(tmp_path)
    assert everything(again) == EVENTS
    again.close()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def shorten(path: Path) -> None:
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(lines[:-1])))


def garble(path: Path) -> None:
    path.write_bytes(b"not compressed at all")


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut, "journal-000000000011-000000000020.jsonl.gz: cannot be read"),
        (garble, "journal-000000000011-000000000020.jsonl.gz: cannot be read"),
        (shorten, "journal-000000000011-000000000020.jsonl.gz: ends with event 19, not 20"),
        (remove, "lacks events 11 to 20"),
    ],
)
def test_a_damaged_file_is_named(store: Store, tmp_path: Path, damage: object, said: str) -> None:
    store.archive_events(before_seconds=39.0, up_to=100)
    damage(segments(tmp_path)[1])  # type: ignore[operator]
    again = opened(tmp_path)
    with pytest.raises(JournalError, match=said):
        list(again.events())
    assert next(again.events(20))[0] == 21  # what needs it not, goes on
    again.close()


def test_who_reads_while_events_move_misses_none(store: Store, tmp_path: Path) -> None:
    reader = opened(tmp_path, only_read=True)
    seen = [number for number, _ in reader.records(0, 4)]
    going_on = reader.events(4)
    seen.append(next(going_on)[0])
    store.archive_events(before_seconds=39.0, up_to=100)
    assert [number for number, _ in reader.records(12, 3)] == [13, 14, 15]
    assert seen + [number for number, _ in going_on] == list(range(1, 48))
    assert [number for number, _ in store.records(4, 100)] == list(range(5, 48))
    reader.close()


def test_a_scheduler_archives_its_past_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "_ARCHIVE_EVERY_SECONDS", 0.0)
    settings = {"snapshot_events": 1, "journal_days": 0}
    for _ in range(6):
        service = Service(slow(tmp_path, **settings))
        service.start()
        service._store.archive.segment_events = 3
        for _ in range(4):
            submit(service, tiny())
        service.stop()
    assert segments(tmp_path)
    events = journal(tmp_path)
    assert check(tmp_path) == []
    with running(config(tmp_path, round_seconds=0.25)) as service:
        assert service.desk.totals().jobs["waiting"] == 24
        first = [record["kind"] for _, record in service.desk.events(0, 3)]
        assert first == [event.kind for event in events[:3]]
    assert not any(isinstance(event, RoundDecided) for event in events)
