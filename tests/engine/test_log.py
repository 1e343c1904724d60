"""One order of events for the state and the journal, whoever they come from."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from tests.engine.runs import ListJournal

from shockwave.engine import snapshot
from shockwave.engine.log import Log, LogClosedError
from shockwave.engine.state import SchedulerState
from shockwave.model.cluster import Node
from shockwave.model.errors import JournalError
from shockwave.model.events import (
    Event,
    JobHeld,
    JobReleased,
    JobSubmitted,
    NodeDrained,
    NodeOccupied,
    NodeResumed,
    NodeUp,
)
from shockwave.model.job import JobSpec

PEOPLE, WISHES = 8, 60


def submitted(name: str) -> JobSubmitted:
    return JobSubmitted(0.0, JobSpec(name, 0.0, 1, 1, (32,), (1.0,)))


def folded(events: Sequence[Event]) -> SchedulerState:
    state = SchedulerState()
    for event in events:
        state.apply(event)
    return state


class Slow(ListJournal):
    """The first write waits for a signal; counts writes, and who writes at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.writing, self.go_on = threading.Event(), threading.Event()
        self.batches: list[int] = []
        self._alone = threading.Lock()

    def write(self, events: Sequence[Event]) -> None:
        assert self._alone.acquire(blocking=False), "two write at the same time"
        self.writing.set()
        self.go_on.wait(30.0)
        super().write(events)
        self.batches.append(len(events))
        self._alone.release()


class Failing(ListJournal):
    """Takes events as long as it works."""

    works = True

    def write(self, events: Sequence[Event]) -> None:
        if not self.works:
            raise OSError("no space left on device")
        super().write(events)


def start(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.start()


def test_what_many_ask_for_while_the_loop_works_folds_to_the_state() -> None:
    journal = ListJournal()
    log = Log(SchedulerState(), journal)
    log.emit(NodeUp(0.0, Node("n0", 4)), *(submitted(f"job-{i}") for i in range(PEOPLE)))
    durable: list[bool] = []

    def ask(person: int) -> None:
        for count in range(WISHES):
            wishes = (JobHeld, JobReleased) if count % 3 else (NodeDrained, NodeResumed)
            about = f"job-{person}" if count % 3 else f"n{person % 2}"
            wish = wishes[count % 2](float(count), about, by=f"{person}-{count}")
            log.request(lambda: [wish])  # noqa: B023  (called before it returns)
            durable.append(wish in journal.events)

    people = [threading.Thread(target=ask, args=(person,)) for person in range(PEOPLE)]
    start(*people)
    count = 0
    while any(person.is_alive() for person in people):
        log.emit(NodeOccupied(float(count), "n0", count % 4))
        log.flush()
        count += 1
    for person in people:
        person.join()
    with log.at_rest():
        (mine, arrays), (theirs, others) = map(
            snapshot.to_document, (log.state, folded(journal.events))
        )
        assert mine == theirs
        np.testing.assert_equal(arrays, others)
    assert len(journal.events) == 1 + PEOPLE + PEOPLE * WISHES + count
    assert durable == [True] * PEOPLE * WISHES
    # Everybody's wishes are in the order in which they were made.
    said = [getattr(event, "by", "") for event in journal.events]
    for number in range(PEOPLE):
        order = [by for by in said if by.startswith(f"{number}-")]
        assert order == [f"{number}-{wish}" for wish in range(WISHES)]


def test_of_many_who_wait_one_writes_for_all() -> None:
    journal = Slow()
    log = Log(SchedulerState(), journal)
    first = threading.Thread(target=log.request, args=(lambda: [submitted("first")],))
    start(first)
    assert journal.writing.wait(30.0)
    others = [
        threading.Thread(target=log.request, args=(lambda i=i: [submitted(f"job-{i}")],))
        for i in range(PEOPLE)
    ]
    start(*others)
    while len(log._waiting) < PEOPLE:  # all have asked, and wait for the first
        threading.Event().wait(0.001)
    journal.go_on.set()
    for thread in (first, *others):
        thread.join(30.0)
    assert journal.batches == [1, PEOPLE]


def test_requests_reach_the_state_before_what_the_loop_does_next() -> None:
    log = Log(SchedulerState(), ListJournal())
    log.request(lambda: [submitted("a")])
    assert log.state.table.find("a") is None  # the loop is not disturbed in the middle of a step
    log.emit(NodeUp(1.0, Node("n0", 4)))
    assert log.state.table.find("a") == 0


def test_a_write_that_fails_closes_the_log_for_everybody() -> None:
    journal = Failing()
    log = Log(SchedulerState(), journal)
    log.request(lambda: [submitted("a")])
    journal.works = False
    with pytest.raises(JournalError, match="cannot be written: no space"):
        log.request(lambda: [submitted("b")])
    journal.works = True  # too late: nobody knows what is durable
    with pytest.raises(LogClosedError, match="no space"):
        log.request(lambda: [submitted("c")])
    with pytest.raises(LogClosedError):
        log.emit(NodeUp(1.0, Node("n0", 4)))
    with pytest.raises(LogClosedError):
        log.take_requests()
    with pytest.raises(LogClosedError), log.at_rest():
        pass
    assert journal.events == [submitted("a")]


def test_those_who_waited_for_a_write_that_failed_are_told() -> None:
    class SlowAndFailing(Slow):
        def write(self, events: Sequence[Event]) -> None:
            super().write(events)
            raise OSError("no space left on device")

    journal = SlowAndFailing()
    log = Log(SchedulerState(), journal)
    told: list[type[Exception]] = []

    def ask(name: str) -> None:
        try:
            log.request(lambda: [submitted(name)])
        except JournalError as error:
            told.append(type(error))

    first = threading.Thread(target=ask, args=("first",))
    start(first)
    assert journal.writing.wait(30.0)
    others = [threading.Thread(target=ask, args=(f"job-{i}",)) for i in range(PEOPLE)]
    start(*others)
    while len(log._waiting) < PEOPLE:
        threading.Event().wait(0.001)
    journal.go_on.set()
    for thread in (first, *others):
        thread.join(30.0)
    assert Counter(told) == {JournalError: 1, LogClosedError: PEOPLE}
    assert len(journal.events) == 1


def test_a_closed_log_takes_nothing() -> None:
    journal = ListJournal()
    log = Log(SchedulerState(), journal)
    log.emit(submitted("a"))
    log.close()
    with pytest.raises(LogClosedError, match="restored"):
        log.request(lambda: [submitted("b")])
    with pytest.raises(LogClosedError):
        log.flush()
    assert journal.events == []


def test_a_request_that_is_refused_leaves_no_trace() -> None:
    journal = ListJournal()
    log = Log(SchedulerState(), journal)

    def refuse() -> list[JobSubmitted]:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        log.request(refuse)
    log.request(lambda: [submitted("a")])
    assert journal.events == [submitted("a")]
