"""The live scheduler: the round loop in a thread, everything it needs, and the port to it.

The journal is the truth. At a start, and after a round that failed, the loop is made anew
and folded from the journal, running jobs are adopted, and whatever people asked for that
the journal does not hold yet is asked again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from shockwave.engine.arrivals import CancelJob, DrainNode, Request, ResumeNode
from shockwave.model.command import Command
from shockwave.model.errors import InputError, PolicyError
from shockwave.protocol.reports import line_of
from shockwave.server.clock import Interrupted, RealClock
from shockwave.server.config import ServeConfig
from shockwave.server.describe import JobFacts
from shockwave.server.execution import JobFiles, MakeExecutor, make_executor_of, site_of
from shockwave.server.inbox import Inbox
from shockwave.server.lock import StateLock, prepare_state_dir
from shockwave.server.port import Conflict, SchedulerPort
from shockwave.server.records import (
    JobRecord,
    NodeRecord,
    PlanRecord,
    RoundRecord,
    State,
    Submission,
    TenantRecord,
)
from shockwave.server.recovery import Recovery
from shockwave.server.store import Store
from shockwave.server.submissions import (
    JobTokens,
    checked,
    command_of,
    new_job_id,
    spec_of,
    submission_of,
)

logger = logging.getLogger(__name__)

_SUBMISSIONS_KEPT = 4096
_JOIN_SECONDS = 60.0  # a round in progress gets this long at shutdown


class Service(SchedulerPort):
    """Start it, speak to it from any thread, stop it. Not to be started twice."""

    def __init__(self, config: ServeConfig, *, make_executor: MakeExecutor | None = None) -> None:
        self.config = config
        self._make_executor = make_executor or make_executor_of(config)
        self._lock = StateLock(config.state_dir)
        self._inbox = Inbox()
        self._asking = threading.Lock()  # nobody asks while the past is restored
        self._problem: str | None = "the scheduler has not started yet"
        self._out_of_step = False  # with the journal, after a round that failed
        self._engine_away = False
        # A submission never changes, and a round asks for those of all jobs that it starts.
        self._submission_of = lru_cache(_SUBMISSIONS_KEPT)(self._read_submission)

    # Life.

    def claim(self) -> None:
        """Make the state directory ours. Raises :class:`InputError` if that cannot be."""
        prepare_state_dir(self.config.state_dir)
        self._lock.acquire()

    def start(self) -> None:
        """Returns when the past is restored and rounds are being scheduled.

        Raises :class:`InputError` or :class:`JournalError` if that cannot be.
        """
        if not self._lock.held:
            self.claim()
        try:
            self._store = Store(self.config.database)
        except BaseException:
            self._lock.release()
            raise
        try:
            self._begin()
        except BaseException:
            self._store.close()
            self._lock.release()
            raise
        self._tell_of_engine()
        self._thread = threading.Thread(target=self._run, name="rounds", daemon=True)
        self._thread.start()

    def _begin(self) -> None:
        self._tokens = JobTokens(self.config.state_dir)
        self._files = JobFiles(self.config.state_dir)
        self.origin_unix = self._store.origin_unix(time.time())
        self._clock = RealClock(self.origin_unix, not_before=self._store.last_time())
        site = site_of(self.config, self._command_of, self.origin_unix, self._clock)
        self._recovery = Recovery(
            self.config,
            store=self._store,
            inbox=self._inbox,
            clock=self._clock,
            make_executor=lambda: self._make_executor(site),
            origin_unix=self.origin_unix,
        )
        self._restore()

    def _restore(self) -> None:
        with self._asking:
            self._loop, self._board = self._recovery.restore()

    def _command_of(self, job: str) -> Command:
        return command_of(self._submission_of(job), self._tokens.token(job))

    def _read_submission(self, job: str) -> Submission:
        stored = self._store.job(job)
        if stored is None:
            raise InputError("the store has no such job", source=self._store.where, value=job)
        return submission_of(stored)

    def _run(self) -> None:
        """Rounds, until somebody interrupts the clock. Nothing else ends this thread."""
        try:
            while True:
                if self._out_of_step:
                    self._get_back_in_step()
                else:
                    self._one_round()
        except Interrupted:
            self._problem = "the scheduler is shutting down"

    def _one_round(self) -> None:
        try:
            self._loop.step()
            self._tell_of_engine()
        except PolicyError as error:  # nothing was ordered, so nothing has to be undone
            self._wait_for_next_round("the last decision failed", error)
        except Interrupted:
            raise
        except Exception as error:
            self._out_of_step = True
            self._wait_for_next_round("the last round failed", error)

    def _tell_of_engine(self) -> None:
        """An outage is told as long as it lasts, and logged when it begins and ends."""
        away = self._loop.executor.away()
        if away is not None and not self._engine_away:
            logger.warning("nothing can be started or stopped for now: %s", away)
        elif away is None and self._engine_away:
            logger.warning("the engine answers again")
        self._engine_away = away is not None
        self._problem = away
        self._board.set_outage(away or "")

    def _get_back_in_step(self) -> None:
        """After a failure nobody knows what was carried out, except for the journal."""
        try:
            self._restore()
            self._out_of_step = False
        except Exception as error:
            self._wait_for_next_round("the journal cannot be restored", error)

    def _wait_for_next_round(self, what: str, error: Exception) -> None:
        logger.error("%s; trying again in the next round", what, exc_info=error)
        self._problem = f"{what}: {type(error).__name__}: {' '.join(str(error).split())}"
        rounds = self.config.rounds
        self._clock.wait_until(rounds.boundary(self._clock.now()) * rounds.round_seconds)

    def stop(self, *, stop_jobs: bool | None = None) -> None:
        """End scheduling. Jobs run on, to be adopted at the next start, unless told otherwise."""
        self._clock.interrupt()
        self._thread.join(_JOIN_SECONDS)
        if self._thread.is_alive():
            logger.error("a round has not ended within %s s; leaving it behind", _JOIN_SECONDS)
            return
        try:
            if self.config.stop_jobs if stop_jobs is None else stop_jobs:
                self._stop_jobs()
        finally:
            self._recovery.release(stop_jobs=False)
            self._store.close()
            self._lock.release()

    def _stop_jobs(self) -> None:
        if self._out_of_step:
            logger.error("after a failed round it is unclear what runs; jobs were not stopped")
        else:
            self._recovery.stop_running_jobs(self._loop)

    # What people ask for.

    def submit(self, submission: Submission, idempotency_key: str | None) -> tuple[JobRecord, bool]:
        accepted = checked(submission, gpus=self._gpus_known, executor=self.config.executor)
        if idempotency_key is not None and not 0 < len(idempotency_key) <= 256:
            raise InputError("must have 1 to 256 characters", place="Idempotency-Key")
        with self._asking:
            submitted_unix = self.origin_unix + self._clock.now()
            job, is_new = self._store.add_job(
                accepted.model_dump_json(), submitted_unix, idempotency_key, new_job_id
            )
            if is_new:
                spec = spec_of(job, accepted, self.origin_unix)
                self._board.add(job.number, spec, job.submitted_unix, cancelling=False)
                self._inbox.submit(spec)
        if not is_new and submission_of(job) != accepted:
            raise InputError(
                f"the key belongs to another submission, job {job.id}",
                place="Idempotency-Key",
                value=idempotency_key,
                hint="Use a new key for a new job",
            )
        return self._record(job.id), is_new

    @property
    def _gpus_known(self) -> int:
        """Of all nodes, up or not: what a job may hope for."""
        local = self.config.executor == "local"
        return self.config.slots if local else self._board.gpus_known()

    def cancel(self, job: str) -> JobRecord:
        """Takes effect at the start of the next round. A job that has ended is left alone."""
        facts = self._facts(job)
        if facts.state in ("finished", "failed"):
            raise Conflict(f"the job has {facts.state} already", place="job", value=facts.id)
        if facts.state != "cancelled":
            with self._asking:
                self._store.request_cancel(facts.id)
                self._board.cancelling(facts.id)
                self._inbox.ask(CancelJob(facts.id))
        return self._record(facts.id)

    def drain(self, node: str, *, resume: bool) -> NodeRecord:
        """Takes effect at the start of the next round."""
        if node not in {record.id for record in self.nodes()}:
            raise InputError("no such node", place="node", value=node)
        request: Request = ResumeNode(node) if resume else DrainNode(node)
        with self._asking:
            self._store.set_drained(node, not resume)
            self._board.set_drained(self._store.drained())
            self._inbox.ask(request)
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
        lines = b"".join(line_of(report) for report in reports)
        path = self._files.reports(facts.id, generation)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except FileNotFoundError:
            raise Conflict("the launch is not prepared yet", place="job", value=job) from None
        with os.fdopen(descriptor, "ab", buffering=0) as file:
            file.write(lines)

    # What people look at.

    def job(self, job: str) -> JobRecord | None:
        return self._board.record(job)

    def jobs(
        self, *, states: Sequence[State], tenant: str | None, after: str | None, limit: int
    ) -> tuple[list[JobRecord], str | None]:
        return self._board.page(states, tenant, after, limit)

    def log_file(self, job: str, rank: int) -> Path | None:
        facts = self._board.find(job)
        if facts is None or rank < 0:
            return None
        path = self._files.log(facts.id, rank)
        return path if path.is_file() else None

    def plan(self) -> PlanRecord:
        return self._board.plan()

    def rounds(self, *, after: int, limit: int) -> list[RoundRecord]:
        return self._board.rounds(after, limit)

    def nodes(self) -> list[NodeRecord]:
        return self._board.nodes()

    def tenants(self) -> list[TenantRecord]:
        return self._board.tenants()

    def events(self, after: int, limit: int) -> list[tuple[int, dict[str, Any]]]:
        return self._store.records(after, limit)

    def wait_for_events(self, after: int, timeout_seconds: float) -> bool:
        return self._board.wait(after, timeout_seconds)

    def job_of_token(self, token: str) -> str | None:
        job = self._tokens.job_of(token)
        return job if job is not None and self._board.find(job) is not None else None

    def is_ready(self) -> tuple[bool, str]:
        problem = self._problem
        if problem is None and not self._thread.is_alive():
            problem = "the scheduler's thread has ended"
        return problem is None, problem or ""

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
