"""Snapshots shorten a restart and decide nothing: without a good one the journal is read."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.server.scripted import ScriptedScheduler
from tests.server.services import (
    all_jobs,
    check,
    config,
    known,
    running,
    simply_die,
    slow,
    submit,
    tiny,
    wait_for,
)

from shockwave.engine.snapshot import to_document
from shockwave.server.records import Submission
from shockwave.server.recovery import fold
from shockwave.server.service import Service
from shockwave.server.snapshots import Snapshots


def files(state_dir: Path) -> list[Path]:
    return sorted((state_dir / "snapshots").iterdir())


@pytest.fixture
def scheduler(tmp_path: Path) -> ScriptedScheduler:
    return ScriptedScheduler(tmp_path)


def save(scheduler: ScriptedScheduler) -> Snapshots:
    snapshots = Snapshots(scheduler.state_dir / "snapshots", scheduler.store)
    with scheduler.log.at_rest(), scheduler.board.projection() as projection:
        snapshots.save(scheduler.log.state, projection)
    return snapshots


def lived(scheduler: ScriptedScheduler) -> Snapshots:
    """Three snapshots, and events before, between and after them."""
    submission = Submission(command=["true"], epochs=4, tenant="a")
    jobs = [scheduler.submit(submission, None)[0].id for _ in range(6)]
    for now, job in enumerate(jobs[:4]):
        scheduler.now = float(now)
        scheduler.start(job)
        scheduler.progress(job, 1.5, 2.0, epochs_done=1.5)
        scheduler.decide(price=0.5)
        snapshots = save(scheduler)
        scheduler.finish(job)
    scheduler.cancel(jobs[5])
    scheduler.drain("node-1", resume=False)
    return snapshots


def same_as_now(scheduler: ScriptedScheduler, snapshots: Snapshots) -> bool:
    scheduler.log.take_requests()
    state, projection = fold(scheduler.store, snapshots, scheduler.store.started_unix())
    document, arrays = to_document(state)
    expected, expected_arrays = to_document(scheduler.log.state)
    with scheduler.board.projection() as shown:
        return (
            document == expected
            and all((arrays[name] == expected_arrays[name]).all() for name in ("epochs_done",))
            and projection.dump() == shown.dump()
        )


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-50] ^= 1
    path.write_bytes(bytes(content))


def make_empty(path: Path) -> None:
    path.write_bytes(b"")


def of_another_format(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"format": 2', b'"format": 9'))


DAMAGES = [cut_off, flip_a_bit, make_empty, of_another_format]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("damaged", [0, 1, 2, 3])
def test_a_damaged_snapshot_is_passed_over_for_the_one_before_or_the_journal(
    scheduler: ScriptedScheduler,
    damage: Callable[[Path], None],
    damaged: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    snapshots = lived(scheduler)
    kept = files(scheduler.state_dir)
    assert len(kept) == 3
    for path in kept[3 - damaged :]:
        damage(path)
    with caplog.at_level(logging.WARNING):
        assert same_as_now(scheduler, snapshots)
    assert sum("cannot be used" in record.message for record in caplog.records) == damaged
    scheduler.close()


def test_without_snapshots_the_journal_is_enough(scheduler: ScriptedScheduler) -> None:
    snapshots = lived(scheduler)
    shutil.rmtree(scheduler.state_dir / "snapshots")
    assert same_as_now(scheduler, snapshots)
    scheduler.close()


def test_a_snapshot_of_another_journal_is_refused(
    scheduler: ScriptedScheduler, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lived(scheduler)
    (tmp_path / "other").mkdir()
    with closing(ScriptedScheduler(tmp_path / "other")) as other:
        for _ in range(60):  # so that no snapshot is ahead of it
            other.decide()
        shutil.copytree(scheduler.state_dir / "snapshots", other.state_dir / "snapshots")
        assert same_as_now(other, Snapshots(other.state_dir / "snapshots", other.store))
        assert "belongs to another journal" in caplog.text
    scheduler.close()


def test_a_snapshot_ahead_of_a_journal_that_was_put_back_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The database is restored from a backup, the folder of snapshots is not."""
    state, backup = tmp_path / "state", tmp_path / "backup"
    with running(slow(state)) as service:
        first = submit(service, tiny(name="first"))
    backup.mkdir()
    shutil.copy(state / "shockwave.db", backup)
    with running(slow(state)) as service:
        lost = [submit(service, tiny(name="lost")) for _ in range(3)]
    shutil.copy(backup / "shockwave.db", state)
    with running(slow(state)) as service:
        again = [submit(service, tiny(name="again")) for _ in range(5)]
    with running(slow(state)) as service:
        assert [job.id for job in all_jobs(service)] == [first, *again]
        assert all(service.desk.job(job) is None for job in lost)
    assert all("belongs to another journal" in line for line in check(state))


def test_snapshots_of_a_future_that_was_taken_back_do_not_stay(
    scheduler: ScriptedScheduler,
) -> None:
    lived(scheduler)
    for path in files(scheduler.state_dir):
        path.rename(path.with_name(f"snapshot-{int(path.name[9:]) + 1000:012d}"))
    save(scheduler)
    assert [int(path.name[9:]) for path in files(scheduler.state_dir)] == [
        scheduler.board.sequence_number
    ]
    scheduler.close()


def test_what_breaks_off_while_a_snapshot_is_written_leaves_the_ones_before(
    scheduler: ScriptedScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots = lived(scheduler)
    before = {path.name: path.read_bytes() for path in files(scheduler.state_dir)}
    monkeypatch.setattr("os.replace", _power_cut)
    with pytest.raises(OSError, match="power cut"):
        save(scheduler)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in files(scheduler.state_dir)} == before
    assert same_as_now(scheduler, snapshots)
    scheduler.close()


def _power_cut(*_: object) -> None:
    raise OSError("power cut")


def test_ended_jobs_leave_memory_and_are_still_shown(tmp_path: Path) -> None:
    with running(config(tmp_path, slots=4)) as service:
        names = [f"job-{number}" for number in range(6)]
        jobs = [submit(service, tiny(epochs=1, seconds=0.0, name=name)) for name in names]
        wait_for(lambda: len(service.desk.plan().jobs) == 0, "all jobs")
        with service._now.board.projection() as projection:
            assert projection.jobs == {}
            assert projection.ended == []
        assert [known(service, name).id for name in names] == jobs
    with running(config(tmp_path, slots=4)) as service:
        assert len(service._now.log.state.table.active) == 0
        assert [known(service, job).epochs_done for job in jobs] == [1.0] * 6
        page, cursor = service.desk.jobs(states=["finished"], tenant=None, after=None, limit=4)
        rest, end = service.desk.jobs(states=["finished"], tenant=None, after=cursor, limit=4)
        assert [job.id for job in page + rest] == jobs
        assert end is None
        assert service.desk.totals().jobs["finished"] == 6
        assert service.desk.tenants()[0].finished == 6


def test_a_start_reads_only_the_events_after_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(slow(tmp_path, snapshot_events=1))
    service.start()
    for _ in range(20):
        submit(service, tiny())
    service.stop()
    read = []
    again = Service(slow(tmp_path))
    from shockwave.server.store import Store

    events = Store.events

    def counted(store, after=0):  # type: ignore[no-untyped-def]
        for item in events(store, after):
            read.append(item)
            yield item

    monkeypatch.setattr(Store, "events", counted)
    again.start()
    assert len(all_jobs(again)) == 20
    simply_die(again)
    assert read == []
