"""The one way to the state: events go through here, in one order for journal and state.

The loop emits what it did; people's requests come in from any thread, are durable when the
call returns, and reach the state before the loop's next event. So the state is at any time the
fold of the journal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from shockwave.engine.journal import Journal
from shockwave.engine.state import SchedulerState
from shockwave.model.errors import JournalError
from shockwave.model.events import Event, Request


class LogClosedError(JournalError):
    """The state is out of step with the journal, and is being restored from it."""


class Log:
    """Applies events to ``state`` and writes them to ``journal`` in the same order.

    After a write that failed nobody knows what is durable: everything raises
    :class:`LogClosedError` from then on, and the state has to be restored from the journal.
    """

    def __init__(self, state: SchedulerState, journal: Journal) -> None:
        self.state = state
        self._journal = journal
        self._ordering = threading.Condition(threading.Lock())
        self._deciding = False
        self._writing = threading.Lock()
        self._waiting: list[Event] = []  # to be written
        self._requests: list[Request] = []  # to be applied
        self._taken = 0  # events that were ever taken in
        self._written = 0
        self._failure: Exception | None = None

    # The loop's side.

    def emit(self, *events: Event) -> None:
        """What the loop did or was told. Durable after the next :meth:`flush`."""
        with self._ordering:
            self._check()
            self._apply_requests()
            self._take(events)
            for event in events:
                self.state.apply(event)

    def take_requests(self) -> None:
        """Brings the state up to date with what people asked for."""
        with self._ordering:
            self._check()
            self._apply_requests()

    def flush(self) -> None:
        """Makes durable what was emitted. Called before orders are carried out."""
        self._write_up_to(self._taken)

    @contextmanager
    def deciding(self) -> Iterator[None]:
        """From the look that a decision is based on until its orders are in the journal.

        What a job declares does not change meanwhile.
        """
        with self._ordering:
            self._check()
            self._apply_requests()
            self._deciding = True
        try:
            yield
        finally:
            with self._ordering:
                self._deciding = False
                self._ordering.notify_all()

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Nothing is written meanwhile, and the state is exactly the fold of the journal."""
        with self._writing, self._ordering:
            self._check()
            self._apply_requests()
            events, self._waiting = self._waiting, []
            if events:
                self._write(events)
            yield

    # Everybody's side.

    def request(
        self, make: Callable[[], Sequence[Request]], *, between_decisions: bool = False
    ) -> None:
        """What somebody asks for; durable when this returns. Of many callers one writes.

        ``make`` is called when the order of events is settled: no other comes in between, and
        what it reads of the state holds when the request is applied. ``between_decisions``
        waits for the end of a decision in the making, for what would contradict its orders.
        """
        with self._ordering:
            if between_decisions:
                self._ordering.wait_for(lambda: not self._deciding)
            self._check()
            requests = make()
            self._take(requests)
            self._requests += requests
            number = self._taken
        self._write_up_to(number)

    def close(self) -> None:
        """Nothing goes through here any more: :class:`LogClosedError` for whoever still tries."""
        with self._writing, self._ordering:
            self._failure = self._failure or JournalError("the state is being restored")

    def _apply_requests(self) -> None:
        if self._requests:
            requests, self._requests = self._requests, []
            for request in requests:
                self.state.apply(request)

    def _take(self, events: Sequence[Event]) -> None:
        self._waiting += events
        self._taken += len(events)

    def _write_up_to(self, number: int) -> None:
        if self._written >= number:
            return
        with self._writing:
            if self._written >= number:
                return  # somebody else's write had it with them
            with self._ordering:
                self._check()
                events, self._waiting = self._waiting, []
            self._write(events)

    def _write(self, events: list[Event]) -> None:
        try:
            self._journal.write(events)
        except Exception as error:
            self._failure = error
            if isinstance(error, JournalError):
                raise
            raise JournalError(f"the journal cannot be written: {error or repr(error)}") from error
        self._written += len(events)

    def _check(self) -> None:
        if self._failure is not None:
            raise LogClosedError(f"nothing can be written for now: {self._failure}")
