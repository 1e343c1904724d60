"""Behind the door: requests become events, and what people look at comes from the board.

It knows nothing of rounds. Requests go through the log and wake the scheduler; while the state is
being restored they wait for that.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from shockwave.engine.log import Log, LogClosedError
from shockwave.executors.local.accounts import Account, account_of
from shockwave.model.command import Command
from shockwave.model.errors import InputError
from shockwave.model.events import (
    CancelRequested,
    Event,
    JobSubmitted,
    NodeDrained,
    NodeResumed,
    Request,
)
from shockwave.protocol.files import open_to_append
from shockwave.server.belongings import Belongings
from shockwave.server.board import Board
from shockwave.server.clock import RealClock
from shockwave.server.door import Conflict, SchedulerDoor
from shockwave.server.execution import JobFiles
from shockwave.server.facts import JobFacts
from shockwave.server.records import (
    JobRecord,
    NodeRecord,
    PlanRecord,
    RoundRecord,
    Source,
    State,
    Submission,
    TenantRecord,
    Totals,
)
from shockwave.server.store import Store
from shockwave.server.submissions import (
    JobTokens,
    checked,
    command_of,
    new_job_id,
    spec_of,
    stored,
    submission_of,
)

_SUBMISSIONS_KEPT = 4096
_OWNERS_KEPT = 65_536
_KEY_LOCKS = 64
_LONGEST_KEY = 300  # that the store takes


class Desk(SchedulerDoor):
    """Takes requests and answers questions, from any thread."""

    def __init__(
        self,
        *,
        executor: str,
        slots: int | None,
        state_dir: Path,
        store: Store,
        clock: RealClock,
        as_owner: bool = False,
    ) -> None:
        self.problem: str | None = "the scheduler has not started yet"
        self._executor = executor
        self._slots = slots  # None where nodes come and go
        self._store = store
        self._clock = clock
        self._as_owner = as_owner  # jobs run as those who own them
        self._files = JobFiles(state_dir)
        self._belongings = Belongings(state_dir)
        self._tokens = JobTokens(state_dir)
        self._restoring = threading.Lock()
        self._key_locks = [threading.Lock() for _ in range(_KEY_LOCKS)]
        # A submission never changes, and a round asks for those of all jobs that it starts.
        self._submission_of = lru_cache(_SUBMISSIONS_KEPT)(self._read_submission)
        self._known_owner = lru_cache(_OWNERS_KEPT)(self._read_owner)

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Whoever asks for something meanwhile waits. :meth:`attach` before it ends."""
        with self._restoring:
            yield

    def attach(self, log: Log, board: Board) -> None:
        """Speak to this log and look at this board from now on."""
        self._log, self._board = log, board
        with board.projection() as projection:
            self._numbers = itertools.count(projection.submitted + 1)

    # What people ask for.

    def submit(
        self, submission: Submission, idempotency_key: str | None, owner: str = ""
    ) -> tuple[JobRecord, bool]:
        account = self._account(owner)
        accepted = checked(
            submission, gpus=self._gpus_known, executor=self._executor, account=account
        )
        if idempotency_key is None:
            return self._record(self._submit(accepted, None, owner, account)), True
        if not 0 < len(idempotency_key) <= 256:
            raise InputError("must have 1 to 256 characters", place="Idempotency-Key")
        # A key is its owner's: nobody can find out what others have used.
        key = f"{owner}/{idempotency_key}" if owner else idempotency_key
        key = key if len(key) <= _LONGEST_KEY else hashlib.sha256(key.encode()).hexdigest()
        with self._key_locks[hash(key) % _KEY_LOCKS]:
            earlier = self._store.job_of_key(key)
            if earlier is None:
                return self._record(self._submit(accepted, key, owner, account)), True
        if submission_of(earlier.id, earlier.submission) != stored(accepted):
            raise InputError(
                f"the key belongs to another submission, job {earlier.id}",
                place="Idempotency-Key",
                value=idempotency_key,
                hint="Use a new key for a new job",
            )
        return self._record(earlier.id), False

    def _submit(
        self, submission: Submission, key: str | None, owner: str, account: Account | None
    ) -> str:
        """Durable when it returns the job's id."""
        text = stored(submission).model_dump_json()
        code = Path(submission.workdir) if submission.snapshot else None
        folder = self._belongings.prepare(submission.env, account, code)
        made: list[JobSubmitted] = []

        def make() -> list[Request]:
            now, job = self._clock.now(), new_job_id(next(self._numbers))
            self._belongings.give(folder, job)
            made[:] = [JobSubmitted(now, spec_of(job, now, submission, owner), text, key)]
            return list(made)

        try:
            self._request(make)
        except BaseException:
            self._belongings.discard(folder)
            raise
        return made[0].job.id

    def _account(self, owner: str) -> Account | None:
        """The user that the job of an owner runs as; None for our own."""
        if not (self._as_owner and owner):
            return None
        try:
            account = account_of(owner)
        except KeyError:
            raise InputError("there is no such user on this machine", value=owner) from None
        return None if account.uid == os.geteuid() else account

    @property
    def _gpus_known(self) -> int:
        """Of all nodes, up or not: what a job may hope for."""
        return self._board.gpus_known() if self._slots is None else self._slots

    def cancel(self, job: str, by: str = "") -> JobRecord:
        """A job that has been cancelled is left alone."""
        facts = self._facts(job)
        if facts.state in ("finished", "failed"):
            raise Conflict(f"the job has {facts.state} already", place="job", value=facts.id)
        if facts.state != "cancelled":
            self._request(lambda: [CancelRequested(self._clock.now(), facts.id, by)])
        return self._record(facts.id)

    def drain(self, node: str, *, resume: bool, by: str = "") -> NodeRecord:
        if node not in {record.id for record in self.nodes()}:
            raise InputError("no such node", place="node", value=node)
        kind = NodeResumed if resume else NodeDrained
        self._request(lambda: [kind(self._clock.now(), node, by)])
        return next(record for record in self.nodes() if record.id == node)

    def report(self, job: str, generation: int, reports: Sequence[dict[str, Any]]) -> None:
        """Kept where the job itself would have written it, and read from there."""
        facts = self._facts(job)
        if facts.state != "running" or generation < facts.starts:
            raise Conflict(
                f"launch {generation} of the job is over: it is {facts.state}, and "
                f"its latest launch is {facts.starts}",
                place="generation",
                value=generation,
            )
        if generation > facts.starts:
            raise InputError("there was no such launch yet", place="generation", value=generation)
        lines = "".join(json.dumps(report, separators=(",", ":")) + "\n" for report in reports)
        path = self._files.reports(facts.id, generation)
        try:
            with open_to_append(path) as file:
                file.write(lines.encode())
        except FileNotFoundError:
            raise Conflict("the launch is not prepared yet", place="job", value=job) from None
        except OSError as error:
            problem = f"its reports cannot be written: {error.strerror or error}"
            raise Conflict(problem, place="job", value=job) from error

    def _request(self, make: Callable[[], Sequence[Request]]) -> None:
        try:
            self._log.request(make)
        except LogClosedError:
            with self._restoring:
                log = self._log
            log.request(make)
        self._clock.wake()

    def submission_of(self, job: str) -> Submission:
        """What was submitted, by id."""
        return self._submission_of(job)

    # What the executor asks for.

    def command_of(self, job: str) -> Command:
        submission = self._submission_of(job)
        code = self._belongings.code(job)
        return command_of(
            submission,
            environment=self._belongings.environment(job) if submission.env else {},
            workdir=str(code) if submission.snapshot else submission.workdir,
            token=self._tokens.token(job),
            user=(self.owner_of(job) or "") if self._as_owner else "",
        )

    def _read_submission(self, job: str) -> Submission:
        stored = self._store.job(job)
        if stored is None:
            raise InputError("the store has no such job", source=self._store.where, value=job)
        return submission_of(job, stored.submission)

    # What people look at.

    def job(self, job: str, owner: str | None = None) -> JobRecord | None:
        return self._board.record(job, owner)

    def owner_of(self, job: str) -> str | None:
        try:
            return self._known_owner(job)
        except KeyError:
            return None

    def _read_owner(self, job: str) -> str:
        facts = self._board.of_id(job)
        if facts is None:
            raise KeyError(job)  # so that it is asked for again
        return facts.spec.owner

    def source_of(self, job: str) -> Source | None:
        return self._submission_of(job).source

    def jobs(
        self,
        *,
        states: Sequence[State],
        tenant: str | None,
        after: str | None,
        limit: int,
        owner: str | None = None,
    ) -> tuple[list[JobRecord], str | None]:
        return self._board.page(states, tenant, after, limit, owner)

    def log_file(self, job: str, rank: int) -> Path | None:
        facts = self._board.find(job)
        if facts is None or rank < 0:
            return None
        path = self._files.log(facts.id, rank)
        return path if os.path.lexists(path) else None

    def plan(self) -> PlanRecord:
        return self._board.plan()

    def rounds(self, *, after: int, limit: int) -> list[RoundRecord]:
        return self._board.rounds(after, limit)

    def nodes(self) -> list[NodeRecord]:
        return self._board.nodes()

    def tenants(self) -> list[TenantRecord]:
        return self._board.tenants()

    def totals(self) -> Totals:
        return self._board.totals()

    def events(self, after: int, limit: int) -> list[tuple[int, dict[str, Any]]]:
        return self._store.records(after, limit)

    def recent_events(self, seconds: float, kinds: Sequence[str]) -> list[Event]:
        return self._store.events_since(self._clock.now() - seconds, kinds)

    def wait_for_events(self, after: int, timeout_seconds: float) -> bool:
        return self._board.wait(after, timeout_seconds)

    def job_of_token(self, token: str) -> str | None:
        job = self._tokens.job_of(token)
        return job if job is not None and self._board.find(job) is not None else None

    def is_ready(self) -> tuple[bool, str]:
        return self.problem is None, self.problem or ""

    def journal(self) -> Iterator[dict[str, Any]]:
        last = 0
        while batch := self._store.records(last, 2_000):
            for number, record in batch:
                yield record
                last = number

    def _facts(self, job: str) -> JobFacts:
        facts = self._board.find(job)
        if facts is None:
            raise InputError("no such job, or several with this name", place="job", value=job)
        return facts

    def _record(self, job: str) -> JobRecord:
        record = self._board.record(job)
        assert record is not None  # it was added before
        return record
