"""``shockwave check`` and ``shockwave report``: of what a scheduler left behind."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.server.scripted import ScriptedScheduler
from tests.server.services import config, running, submit, tiny, wait_for
from typer.testing import CliRunner, Result

from shockwave.cli.journals import open_store
from shockwave.cli.main import app
from shockwave.engine import snapshot
from shockwave.engine.state import SchedulerState
from shockwave.model.events import StopReason
from shockwave.server.archive import Archive
from shockwave.server.projection import Projection
from shockwave.server.records import Submission
from shockwave.server.snapshots import Snapshots
from shockwave.server.store import Store


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    """Of a scheduler that saw jobs come, change hands and go."""
    state_dir = tmp_path / "state"
    state_dir.mkdir()
    with closing(ScriptedScheduler(state_dir)) as scheduler:
        submission = Submission(command=["true"], epochs=3)
        jobs = [scheduler.submit(submission, f"key-{n}")[0].id for n in range(4)]
        for job in jobs:
            scheduler.now += 5.0
            scheduler.start(job)
            scheduler.decide()
        scheduler.now += 5.0
        scheduler.stop(jobs[0], StopReason.PREEMPTED)
        scheduler.progress(jobs[1], 9.0, 10.0, epochs_done=3.0)
        scheduler.finish(jobs[1], 9.0)
        save(scheduler)
        scheduler.fail(jobs[2], "out of memory")
        scheduler.submit(submission, None)
    return state_dir


def save(scheduler: ScriptedScheduler) -> None:
    with scheduler.log.at_rest(), scheduler.board.projection() as projection:
        Snapshots(scheduler.state_dir / "snapshots", scheduler.store).save(
            scheduler.log.state, projection
        )


def shockwave(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(item) for item in arguments])


def change(state_dir: Path, statement: str) -> None:
    with closing(sqlite3.connect(state_dir / "shockwave.db")) as connection:
        assert connection.execute(statement).rowcount == 1
        connection.commit()


def test_what_a_scheduler_left_follows_from_its_journal(state_dir: Path) -> None:
    done = shockwave("check", state_dir)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "snapshots and index are as the journal says" in done.stderr


def test_a_scheduler_that_runs_can_be_checked(tmp_path: Path) -> None:
    with running(config(tmp_path, snapshot_events=5)) as service:
        jobs = [submit(service, tiny(epochs=3)) for _ in range(4)]
        for _ in range(5):
            done = shockwave("check", tmp_path)
            assert done.exit_code == 0, done.output
        wait_for(lambda: service.desk.totals().jobs["finished"] == len(jobs), "the jobs")
    assert shockwave("check", tmp_path).exit_code == 0


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE jobs SET tenant = 'x' WHERE number = 1", "tenant should be 'default', but is 'x'"),
        ("UPDATE jobs SET state = 'active' WHERE number = 2", "state should be 'finished'"),
        ("UPDATE jobs SET facts = '{}' WHERE number = 3", "facts should be "),
        ("UPDATE jobs SET key = NULL WHERE number = 4", "key should be 'key-3', but is None"),
        ("DELETE FROM jobs WHERE number = 5", "is missing"),
        (
            "INSERT INTO jobs VALUES (9, 'j-9', '', '', '', '', 'active', NULL, '{}', NULL)",
            "job j-9 is in no event",
        ),
    ],
)
def test_a_row_that_the_journal_does_not_say_is_told(
    state_dir: Path, statement: str, said: str
) -> None:
    change(state_dir, statement)
    done = shockwave("check", state_dir)
    assert done.exit_code == 1
    assert len(done.stdout.splitlines()) == 1
    assert said in done.stdout
    assert "1 difference." in done.stderr


def crashes(state: SchedulerState, projection: Projection) -> None:
    state.table.crashes[0] = 7


def rounds(state: SchedulerState, projection: Projection) -> None:
    state.rounds_scheduled += 1


def tenants(state: SchedulerState, projection: Projection) -> None:
    projection.tenants["default"].gpu_seconds += 1.0


@pytest.mark.parametrize(
    ("falsify", "said"),
    [
        (crashes, "state: column crashes differs"),
        (rounds, "state: rounds_scheduled should be 4, but is 5"),
        (tenants, "projection: tenants should be "),
    ],
)
def test_a_snapshot_that_the_journal_does_not_say_is_told(
    state_dir: Path,
    falsify: Callable[[SchedulerState, Projection], None],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its checksum is right: somebody saved a state that never was."""
    load = snapshot.load

    def false(block: bytes) -> tuple[SchedulerState, dict[str, object]]:
        state, extra = load(block)
        projection = Projection.load(extra)
        falsify(state, projection)
        return state, projection.dump()

    monkeypatch.setattr(snapshot, "load", false)
    done = shockwave("check", state_dir)
    assert done.exit_code == 1
    assert said in done.stdout
    assert all(line.startswith("snapshot-") for line in done.stdout.splitlines())


def test_a_damaged_snapshot_is_told(state_dir: Path) -> None:
    (path,) = (state_dir / "snapshots").iterdir()
    path.write_bytes(path.read_bytes()[:-9])
    done = shockwave("check", state_dir)
    assert done.exit_code == 1
    assert (
        done.stdout.strip() == f"{path.name}: cannot be used: it is damaged: its checksum is wrong"
    )


def test_a_damaged_journal_is_one_line(state_dir: Path) -> None:
    change(state_dir, "DELETE FROM events WHERE seq = 4")
    for command in (("check", state_dir), ("report", state_dir, "-o", state_dir / "r.html")):
        done = shockwave(*command)
        assert done.exit_code == 1
        assert "lacks events 4 to 4" in done.stderr
        assert not (state_dir / "r.html").exists()


@pytest.mark.parametrize("version", ["1", "3"])
def test_a_folder_of_another_version_is_refused_by_everybody_in_one_line(
    state_dir: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(state_dir, f"UPDATE meta SET value = '{version}' WHERE key = 'schema_version'")
    monkeypatch.chdir(state_dir)
    before = (state_dir / "shockwave.db").read_bytes()
    for command in (
        ("check", state_dir),
        ("report", state_dir),
        ("replay", state_dir),
        ("serve", "--state-dir", state_dir),
    ):
        done = shockwave(*command)
        assert done.exit_code == 2, done.output
        message = done.stderr.strip()
        assert f"the state has schema version {version}, this program knows 2" in message
        assert len(message.splitlines()) == 1
    assert (state_dir / "shockwave.db").read_bytes() == before


def test_a_folder_without_a_scheduler_is_one_line(tmp_path: Path) -> None:
    for command in ("check", "report", "replay"):
        done = shockwave(command, tmp_path)
        assert done.exit_code == 2
        assert "there is no state of a scheduler" in done.stderr


# Reports.


@pytest.fixture
def simulated(tmp_path: Path) -> Path:
    journal = tmp_path / "journal.jsonl"
    done = shockwave(
        "simulate", "generated:jobs=12,span_hours=0.2", "--policy", "las", "--gpus", 8,
        "--journal", journal,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return journal


def test_a_report_of_a_live_run(state_dir: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    for run in (state_dir, state_dir / "shockwave.db"):
        done = shockwave("report", run, "-o", output)
        assert done.exit_code == 0, done.output
        page = output.read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>")
        assert "fifo" in page
        output.unlink()


def test_a_report_of_a_live_run_beside_a_simulated_one(
    state_dir: Path, simulated: Path, tmp_path: Path
) -> None:
    output = tmp_path / "report.html"
    done = shockwave("report", state_dir, simulated, "-o", output)
    assert done.exit_code == 0, done.output
    page = output.read_text(encoding="utf-8")
    assert "fifo" in page
    assert "las" in page


def test_a_report_that_cannot_be_written_is_said_before_anything_is_read(tmp_path: Path) -> None:
    done = shockwave("report", tmp_path / "nothing", "-o", tmp_path / "no" / "where.html")
    assert done.exit_code == 2
    assert "where.html" in done.stderr


def test_old_events_of_a_database_elsewhere_are_in_its_state_directory(
    state_dir: Path, tmp_path: Path
) -> None:
    store = open_store(str(state_dir))
    last, _ = store.last_event()
    store.close()
    writing = Store(f"sqlite:///{state_dir / 'shockwave.db'}", Archive(state_dir / "archive", 2))
    assert writing.archive_events(math.inf, last - 1)
    writing.close()
    output = tmp_path / "report.html"
    words = ["report", f"sqlite:///{state_dir / 'shockwave.db'}", "-o", str(output)]
    refused = CliRunner().invoke(app, words)
    assert (refused.exit_code, "--state-dir" in refused.stderr) == (1, True), refused.output
    assert CliRunner().invoke(app, [*words, "--state-dir", str(state_dir)]).exit_code == 0
    assert output.is_file()
