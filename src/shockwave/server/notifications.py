"""Tells people what became of their jobs: a reader of the journal in a thread of its own.

It reads events as they come, puts what somebody wants to know into the outbox, and delivers from
there. Whatever fails here never touches scheduling.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shockwave.server.addresses import Occasion
from shockwave.server.couriers import Couriers, DeliveryError
from shockwave.server.door import SchedulerDoor
from shockwave.server.notices import Notice, notice_of
from shockwave.server.outbox import Addressed, Outbox
from shockwave.server.records import JobRecord, Submission

logger = logging.getLogger(__name__)

KEY_FILE = "notifications.key"
_BATCH = 500
_LOOK_SECONDS = 1.0  # between looks at the journal, and at whether it shall end
_LATE_EVERY_SECONDS = 30.0  # between looks at who will miss the expected finish
_LATE_SHARE = 0.1  # of the time that was expected, beyond which late is late
_ENDED = {Occasion.FINISHED, Occasion.FAILED, Occasion.CANCELLED}


@dataclass(frozen=True)
class Recipients:
    """Who wants to know: of a job what it says itself, else what its owner and the operator say."""

    of_owner: Mapping[str, Sequence[str]]
    of_all: Sequence[str]

    def of(self, submission: Submission, owner: str, occasion: Occasion) -> tuple[str, ...]:
        if occasion.value not in submission.notify_on:
            return ()
        own = submission.notify or self.of_owner.get(owner, ())
        return tuple(dict.fromkeys([*own, *self.of_all]))


class Notifications:
    """Start it when the scheduler runs, stop it before that ends."""

    def __init__(
        self,
        door: SchedulerDoor,
        submission_of: Callable[[str], Submission],
        *,
        recipients: Recipients,
        outbox: Outbox,
        couriers: Couriers,
        origin_unix: float,
        clock: Callable[[], float],
    ) -> None:
        self._door = door
        self._submission_of = submission_of
        self._recipients = recipients
        self._outbox = outbox
        self._couriers = couriers
        self._origin_unix = origin_unix
        self._clock = clock
        self._ending = threading.Event()
        self._late_at = 0.0
        self._thread = threading.Thread(target=self._run, name="notifications", daemon=True)

    def start(self, last_event: int) -> None:
        """``last_event`` is the number from which on people are told, the very first time."""
        self._position = self._outbox.position(last_event)
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join(30.0)
        if not self._thread.is_alive():
            self._outbox.close()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self.look()
                self._door.wait_for_events(self._position, _LOOK_SECONDS)
            except Exception:
                logger.exception("people could not be told; trying again")
                self._ending.wait(_LOOK_SECONDS)

    def look(self) -> None:
        """Reads what is new, and tries what is due."""
        while records := self._door.events(self._position, _BATCH):
            found = []
            for number, record in records:
                notice = notice_of(number, record, self._origin_unix)
                if notice is not None:
                    found += self._addressed(notice)
            self._position = records[-1][0]
            self._outbox.add(self._position, found, self._clock())
        self._look_for_late_ones()
        self._deliver()

    def _addressed(self, notice: Notice, **more: float) -> list[Addressed]:
        submission = self._submission_of(notice.job)
        owner = self._door.owner_of(notice.job) or ""
        self._remember_expectation(notice, submission, owner)
        targets = self._recipients.of(submission, owner, notice.occasion)
        if not targets:
            return []
        body = notice.document(submission.name or notice.job, owner, **more)
        return [Addressed(notice.sequence, notice.occasion, notice.job, body, targets)]

    # Who will be late.

    def _remember_expectation(self, notice: Notice, submission: Submission, owner: str) -> None:
        if notice.occasion in _ENDED:
            self._outbox.forget(notice.job)
        elif notice.occasion is Occasion.STARTED:
            wanted = self._recipients.of(submission, owner, Occasion.LATE)
            record = self._door.job(notice.job) if wanted else None
            if record is not None:
                self._outbox.expect(notice.job, record.why.finish or 0.0)

    def _look_for_late_ones(self) -> None:
        now = self._clock()
        if now - self._late_at < _LATE_EVERY_SECONDS:
            return
        self._late_at = now
        for job, expected in self._outbox.expected().items():
            record = self._door.job(job)
            if record is not None and not expected:
                self._outbox.expect(job, record.why.finish or 0.0)
            if record is None or not expected or not is_late(record, expected, now):
                continue
            finish = record.why.finish or now
            said = f"it was expected to finish {_minutes(finish - expected)} earlier"
            notice = Notice(self._position, Occasion.LATE, job, now, said)
            found = self._addressed(notice, expected_finish=expected, finish=finish)
            self._outbox.add(self._position, found, now)
            self._outbox.told_late(job)

    # On the way.

    def _deliver(self) -> None:
        for delivery in self._outbox.due(self._clock()):
            if self._ending.is_set():
                return
            try:
                self._couriers.deliver(delivery)
            except DeliveryError as error:
                wait = self._outbox.failed(delivery, self._clock())
                what = "given up" if wait is None else f"tried again in {wait:.0f} s"
                logger.warning(
                    "job %s: %s could not be told: %s; %s",
                    delivery.job, delivery.target.partition("?")[0], error, what,
                )  # fmt: skip
            else:
                self._outbox.arrived(delivery)


def is_late(record: JobRecord, expected_unix: float, now_unix: float) -> bool:
    """Whether even the lucky end of what is expected now is well beyond what was expected then."""
    if record.started is None or record.state not in ("waiting", "running"):
        return False
    finish = record.why.finish_low or record.why.finish
    if finish is None:
        finish = now_unix
    slack = _LATE_SHARE * max(expected_unix - record.started, 0.0)
    return max(finish, now_unix) > expected_unix + slack


def key_of(state_dir: Path, given: str | None) -> bytes:
    """What requests are signed with: as it was set, or made once and kept in the state folder."""
    if given is not None:
        return given.encode()
    path = state_dir / KEY_FILE
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32) + "\n")
    return path.read_text().strip().encode()


def _minutes(seconds: float) -> str:
    return f"{max(seconds, 0.0) / 60:.0f} min"
