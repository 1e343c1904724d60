"""How new jobs come in: each is checked, gets its files and its number, and becomes an event.

Requests go through the log and wake the scheduler; while the state is being restored they wait for
that.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from shockwave.engine.log import Log, LogClosedError
from shockwave.executors.local.accounts import Account, account_of
from shockwave.model.command import Command
from shockwave.model.errors import InputError
from shockwave.model.events import JobSubmitted, Request
from shockwave.model.job import JobSpec
from shockwave.model.tenants import Tenant
from shockwave.server import tenancy
from shockwave.server.addresses import MAILTO
from shockwave.server.batches import Batch, BatchRecord, Planned, planned
from shockwave.server.belongings import Belongings
from shockwave.server.board import Board
from shockwave.server.clock import RealClock
from shockwave.server.lookout import Lookout
from shockwave.server.records import JobRecord, Submission
from shockwave.server.store import Store
from shockwave.server.submissions import (
    checked,
    command_of,
    new_job_id,
    spec_of,
    stored,
    submission_of,
)
from shockwave.server.whatif_records import NEW_JOB

_KEY_LOCKS = 64
_LONGEST_KEY = 300  # that the store takes


class Reception(Lookout):
    """The part of the door that takes new jobs. It can do so after :meth:`attach`."""

    def __init__(
        self,
        *,
        executor: str,
        slots: Mapping[str, int] | None,
        state_dir: Path,
        store: Store,
        clock: RealClock,
        as_owner: bool = False,
        sends_mail: bool = False,
    ) -> None:
        super().__init__(state_dir, store, clock)
        self._executor = executor
        self._slots = slots  # GPUs by their type; None where nodes come and go
        self._as_owner = as_owner  # jobs run as those who own them
        self._sends_mail = sends_mail
        self._belongings = Belongings(state_dir)
        self._restoring = threading.Lock()
        self._key_locks = [threading.Lock() for _ in range(_KEY_LOCKS)]

    # Whom to ask.

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Whoever asks for something meanwhile waits. :meth:`attach` before it ends."""
        with self._restoring:
            yield

    def attach(
        self,
        log: Log,
        board: Board,
        check: Callable[[JobSpec, Command], list[str]] = lambda job, command: [],
    ) -> None:
        """Speak to this log, look at this board and ask this executor from now on."""
        self._log, self._board, self._check = log, board, check
        self._promised: dict[str, Tenant] = {}  # changes that the state may not have yet
        with board.projection() as projection:
            self._numbers = itertools.count(projection.submitted + 1)

    def _request(
        self, make: Callable[[], Sequence[Request]], *, between_decisions: bool = False
    ) -> None:
        try:
            self._log.request(make, between_decisions=between_decisions)
        except LogClosedError:
            with self._restoring:
                log = self._log
            log.request(make, between_decisions=between_decisions)
        self._clock.wake()

    def _record(self, job: str) -> JobRecord:
        record = self._board.record(job)
        assert record is not None  # it was added before
        return record

    # New jobs.

    def submit(
        self, submission: Submission, idempotency_key: str | None, owner: str = ""
    ) -> tuple[JobRecord, bool]:
        accepted = self._accepted_as_new(submission, owner)
        warnings = self._warnings(accepted, owner)
        record, is_new = self._submit_once(accepted, idempotency_key, owner)
        return record.model_copy(update={"warnings": warnings}), is_new

    def _accepted_as_new(self, submission: Submission, owner: str) -> Submission:
        """Raises :class:`InputError` for what can never be, and for people nobody can tell."""
        if not self._sends_mail and any(to.startswith(MAILTO) for to in submission.notify):
            raise InputError(
                "this scheduler sends no mail",
                place="notify",
                hint="Use https://..., or let the operator set smtp",
            )
        return self._accepted(submission, owner)

    def _accepted(self, submission: Submission, owner: str) -> Submission:
        account, gpus = self._account(owner), self._gpus_known
        accepted = checked(submission, gpus=gpus, executor=self._executor, account=account)
        tenant = self._tenant(accepted.tenant or "default")
        tenancy.check_within_limits(accepted, tenant, gpus)
        return accepted

    def _warnings(self, submission: Submission, owner: str) -> list[str]:
        """What the executor says of such a job; raises where it could never run it."""
        spec = spec_of("new", self._clock.now(), submission)
        workdir = submission.workdir
        user = owner if self._as_owner else ""
        command = command_of(submission, environment={}, workdir=workdir, token="", user=user)
        return self._check(spec, command)

    def would_be(self, submissions: Sequence[Submission], owner: str = "") -> list[JobSpec]:
        accepted = [self._accepted_as_new(submission, owner) for submission in submissions]
        for submission in accepted:
            self._warnings(submission, owner)
        now, ids, specs = self._clock.now(), list[str](), list[JobSpec]()
        for plan in planned(accepted, lambda job: self._facts(job, owner or None)):
            ids.append(f"{NEW_JOB}{len(ids) + 1}")
            specs.append(replace(plan.spec(now, ids, "", 0), owner=owner))
        return specs

    def _submit_once(
        self, accepted: Submission, idempotency_key: str | None, owner: str
    ) -> tuple[JobRecord, bool]:
        if idempotency_key is None:
            return self._record(self._submit([accepted], owner).jobs[0]), True
        with self._key_lock(idempotency_key):
            key = _key_of(owner, idempotency_key)
            earlier = self._store.job_of_key(key)
            if earlier is None:
                return self._record(self._submit([accepted], owner, [key]).jobs[0]), True
        if submission_of(earlier.id, earlier.submission) != stored(accepted):
            raise InputError(
                f"the key belongs to another submission, job {earlier.id}",
                place="Idempotency-Key",
                value=idempotency_key,
                hint="Use a new key for a new job",
            )
        return self._record(earlier.id), False

    def submit_many(
        self,
        batch: Batch,
        idempotency_key: str | None,
        owner: str = "",
        admit: Callable[[Submission], Submission] = lambda submission: submission,
    ) -> tuple[BatchRecord, bool]:
        submissions = [self._accepted_as_new(admit(job), owner) for job in batch.submissions()]
        alike = {(job.gpus, *job.gpu_types, repr(job.sections)): job for job in submissions}
        for submission in alike.values():  # what an executor looks at
            self._warnings(submission, owner)
        if idempotency_key is None:
            made = self._submit(submissions, owner, None, batch.group, batch.parallel)
            return made, True
        keys = [_key_of(owner, f"{idempotency_key}/{number}") for number in range(len(submissions))]
        with self._key_lock(idempotency_key):
            earlier = [self._store.job_of_key(key) for key in keys]
            if not any(earlier):
                made = self._submit(submissions, owner, keys, batch.group, batch.parallel)
                return made, True
        for job, submission in zip(earlier, submissions, strict=True):
            if job is None or submission_of(job.id, job.submission) != stored(submission):
                raise InputError(
                    "the key belongs to another batch",
                    place="Idempotency-Key",
                    value=idempotency_key,
                    hint="Use a new key for new jobs",
                )
        known = [job for job in earlier if job is not None]
        return BatchRecord(group=known[0].group_id or None, jobs=[job.id for job in known]), False

    def _key_lock(self, key: str) -> threading.Lock:
        if not 0 < len(key) <= 256:
            raise InputError("must have 1 to 256 characters", place="Idempotency-Key")
        return self._key_locks[hash(key) % _KEY_LOCKS]

    def _submit(
        self,
        submissions: Sequence[Submission],
        owner: str,
        keys: Sequence[str] | None = None,
        group: str | None = None,
        parallel: int = 0,
    ) -> BatchRecord:
        """Durable when it returns the ids."""
        plans: list[Planned] = planned(submissions, lambda job: self._facts(job, owner or None))
        folders = self._belongings.prepare_all(submissions, self._account(owner))
        made: list[JobSubmitted] = []
        name = ""

        def make() -> list[Request]:
            """Again where the journal failed under it, then with what it had made before."""
            nonlocal name
            if made and self._board.of_id(made[0].job.id) is not None:
                return []  # it was written after all
            made.clear()
            name = ""
            ids: list[str] = []
            now = self._clock.now()
            for position, plan in enumerate(plans):
                key = None if keys is None else keys[position]
                number = next(self._numbers)
                ids.append(new_job_id(number))
                name = name or (f"{group}-{number:04d}" if group else "")
                spec = replace(plan.spec(now, ids, name, parallel), owner=owner)
                folders[position] = self._belongings.give(folders[position], ids[-1])
                made.append(JobSubmitted(now, spec, plan.text, key))
            return list(made)

        try:
            self._request(make)
        except BaseException:
            for folder in folders:
                self._belongings.discard(folder)
            raise
        return BatchRecord(group=name or None, jobs=[event.job.id for event in made])

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
    def _gpus_known(self) -> Mapping[str, int]:
        """Of all nodes, up or not, by their type: what a job may hope for."""
        return self._board.gpus_known() if self._slots is None else self._slots

    def _tenant(self, name: str) -> Tenant | None:
        return self._promised.get(name) or self._log.state.accounts.tenants.get(name)


def _key_of(owner: str, key: str) -> str:
    """A key is its owner's: nobody can find out what others have used."""
    whole = f"{owner}/{key}" if owner else key
    return whole if len(whole) <= _LONGEST_KEY else hashlib.sha256(whole.encode()).hexdigest()
