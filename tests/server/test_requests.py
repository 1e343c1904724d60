"""What people ask for while others ask too, and while the scheduler is getting back in step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest
from tests.server.scripted import ScriptedScheduler, eventually
from tests.server.services import (
    all_jobs,
    check,
    config,
    journal,
    known,
    running,
    submit,
    tiny,
    wait_for,
)

from shockwave.engine.log import Log, LogClosedError
from shockwave.executors.local.executor import LocalExecutor
from shockwave.model.errors import ExecutorError, InputError, JournalError
from shockwave.model.events import Event, JobSubmitted
from shockwave.server.board import Board
from shockwave.server.records import Submission
from shockwave.server.recovery import Recovery, Restored, fold
from shockwave.server.snapshots import Snapshots

Answer = TypeVar("Answer")
SUBMISSION = Submission(command=["true"], epochs=1)


@pytest.fixture
def scheduler(tmp_path: Path) -> ScriptedScheduler:
    return ScriptedScheduler(tmp_path)


def at_once(count: int, ask: Callable[[int], Answer]) -> list[Answer]:
    """What so many callers get who all begin in the same moment."""
    ready = threading.Barrier(count)

    def one(number: int) -> Answer:
        ready.wait()
        return ask(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def test_one_key_makes_one_job_however_many_ask_at_once(scheduler: ScriptedScheduler) -> None:
    with closing(scheduler):
        answers = at_once(24, lambda n: scheduler.submit(SUBMISSION, f"key-{n % 3}"))
        made = [record.id for record, is_new in answers if is_new]
        known = {record.id for record, _ in answers}
        assert sorted(made) == sorted(known)
        assert len(made) == 3
        submitted = [e for _, e in scheduler.store.events() if isinstance(e, JobSubmitted)]
        assert sorted(event.key or "" for event in submitted) == ["key-0", "key-1", "key-2"]


def test_of_different_jobs_under_one_key_one_wins_and_the_others_are_told(
    scheduler: ScriptedScheduler,
) -> None:
    def ask(number: int) -> str:
        submission = SUBMISSION.model_copy(update={"epochs": number + 1})
        try:
            return scheduler.submit(submission, "key")[0].id
        except InputError as error:
            return str(error)

    with closing(scheduler):
        answers = at_once(8, ask)
        assert sum(answer.startswith("j-") for answer in answers) == 1
        assert sum("belongs to another submission" in answer for answer in answers) == 7


def test_jobs_are_numbered_as_the_journal_has_them(scheduler: ScriptedScheduler) -> None:
    with closing(scheduler):
        at_once(16, lambda n: [scheduler.submit(SUBMISSION, None) for _ in range(5)])
        events = [e for _, e in scheduler.store.events() if isinstance(e, JobSubmitted)]
        numbers = [int(event.job.id.split("-")[1]) for event in events]
        assert numbers == list(range(1, 81))
        _, rows = scheduler.store.index()
        assert [(row.number, row.id) for row in rows] == [
            (number, event.job.id) for number, event in enumerate(events, start=1)
        ]
        scheduler.log.take_requests()
        assert len(scheduler.log.state.table.active) == 80
    assert check(scheduler.state_dir) == []


def restore(scheduler: ScriptedScheduler) -> None:
    """From the journal, as a service does it."""
    snapshots = Snapshots(scheduler.state_dir / "snapshots", scheduler.store)
    state, projection = fold(scheduler.store, snapshots, scheduler.store.started_unix())
    projection.ended.clear()
    scheduler.board = Board(projection, scheduler.store)
    scheduler.log = Log(state, scheduler.board)
    scheduler.attach(scheduler.log, scheduler.board)


@pytest.mark.parametrize("was_written", [False, True])
def test_a_job_whose_write_fails_under_it_is_submitted_once(
    scheduler: ScriptedScheduler, monkeypatch: pytest.MonkeyPatch, was_written: bool
) -> None:
    """One person's write fails with another's job in it, before or after it became durable."""
    board, writes_begin, others_wait = scheduler.board, threading.Event(), threading.Event()
    write = board.write

    def fail(events: Sequence[Event]) -> None:
        monkeypatch.setattr(board, "write", both_fail)
        writes_begin.set()
        assert others_wait.wait(60)
        write(events)

    def both_fail(events: Sequence[Event]) -> None:
        if was_written:
            write(events)
        raise OSError("the disk is full")

    monkeypatch.setattr(board, "write", fail)
    with ThreadPoolExecutor(3) as pool, scheduler.restoring():
        first = pool.submit(scheduler.submit, SUBMISSION, None)
        assert writes_begin.wait(60)
        others = [pool.submit(scheduler.submit, SUBMISSION, None) for _ in range(2)]
        eventually(lambda: len(scheduler.log._waiting) == 2)
        others_wait.set()
        assert first.result(60)[0].id.startswith("j-0001-")
        eventually(lambda: any(other.done() for other in others))
        restore(scheduler)
    refused = [other for other in others if other.exception(60) is not None]
    answered = [other.result()[0].id for other in others if other not in refused]
    with pytest.raises(JournalError, match="the disk is full"):
        refused[0].result()
    jobs = [job.id for job in scheduler.plan().jobs]
    assert len(answered) == 1
    assert set(answered) < set(jobs)
    assert len(jobs) == (3 if was_written else 2)
    folders = sorted(path.name for path in (scheduler.state_dir / "jobs").iterdir())
    assert set(jobs) <= set(folders)
    scheduler.close()
    assert check(scheduler.state_dir) == []


def test_who_asks_while_the_state_is_restored_waits_and_gets_it(
    scheduler: ScriptedScheduler,
) -> None:
    before = scheduler.submit(SUBMISSION, None)[0].id
    answers: list[str] = []
    asking = threading.Thread(
        target=lambda: answers.append(scheduler.submit(SUBMISSION, None)[0].id)
    )
    with scheduler.restoring():
        scheduler.log.close()
        asking.start()
        asking.join(timeout=0.3)
        assert asking.is_alive()
        restore(scheduler)
        assert [job.id for job in scheduler.plan().jobs] == [before]  # looking is possible
    asking.join(timeout=60)
    assert [job.id for job in scheduler.plan().jobs] == [before, *answers]
    assert answers[0].startswith("j-0002-")
    scheduler.close()
    assert check(scheduler.state_dir) == []


def test_a_log_that_failed_takes_nothing_more(scheduler: ScriptedScheduler) -> None:
    scheduler.log.close()
    with pytest.raises(LogClosedError, match="nothing can be written for now"):
        scheduler.submit(SUBMISSION, None)
    assert scheduler.plan().jobs == []
    scheduler.close()


class Moody(LocalExecutor):
    """Fails to launch whenever it is told to."""

    fails = False

    def launch(self, launches):  # type: ignore[no-untyped-def]
        if Moody.fails:
            Moody.fails = False
            raise ExecutorError("not now")
        super().launch(launches)


def test_requests_go_on_through_many_restorations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People submit and look all the time, while rounds fail and the state is made anew."""
    monkeypatch.setattr("shockwave.executors.local.executor.LocalExecutor", Moody)
    restored = 0
    restore = Recovery.restore

    def counted(recovery: Recovery) -> Restored:
        nonlocal restored
        restored += 1
        return restore(recovery)

    monkeypatch.setattr(Recovery, "restore", counted)
    submitted: list[str] = []
    errors: list[Exception] = []
    over = threading.Event()

    with running(config(tmp_path, slots=4, round_seconds=0.1, restart_seconds=0.01)) as service:

        def ask() -> None:
            try:
                while not over.wait(0.25):
                    job = submit(service, tiny(epochs=1, seconds=0.0))
                    submitted.append(job)
                    assert known(service, job).id == job
            except Exception as error:
                errors.append(error)

        people = [threading.Thread(target=ask) for _ in range(3)]
        for person in people:
            person.start()
        for count in range(2, 7):
            Moody.fails = True
            wait_for(lambda count=count: restored >= count or bool(errors), "a restoration")  # type: ignore[misc]
        over.set()
        for person in people:
            person.join()
        assert errors == []
        wait_for(lambda: service.desk.plan().jobs == [], "all jobs")
        records = all_jobs(service)
    assert sorted(record.id for record in records) == sorted(submitted)
    assert {record.state for record in records} == {"finished"}
    assert sum(isinstance(event, JobSubmitted) for event in journal(tmp_path)) == len(submitted)
    assert check(tmp_path) == []
