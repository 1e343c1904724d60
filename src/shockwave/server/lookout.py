"""What people may look at: active jobs from the board, the rest from the store and from files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from shockwave.model.errors import InputError
from shockwave.model.events import Event
from shockwave.protocol.paths import JobPaths
from shockwave.server.board import Board
from shockwave.server.candidates import no_such_job
from shockwave.server.clock import RealClock
from shockwave.server.door import SchedulerDoor
from shockwave.server.execution import JobFiles
from shockwave.server.facts import JobFacts
from shockwave.server.job_reports import exit_code_of, links_of, reported, speeds_seen
from shockwave.server.logs import has_log
from shockwave.server.records import (
    GroupRecord,
    JobRecord,
    MetricsRecord,
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
from shockwave.server.submissions import JobTokens, submission_of
from shockwave.server.view_records import (
    FuturesRecord,
    PastNode,
    RegimeRecord,
    RunRecord,
    StoryRecord,
)

_SUBMISSIONS_KEPT = 4096
_OWNERS_KEPT = 65_536
_ROUND_BEGINS_SECONDS = 0.2  # before it is time, nobody begins anything long


class Lookout(SchedulerDoor):
    """The half of the door that only answers. ``_board`` is set when there is one."""

    _board: Board

    def __init__(self, state_dir: Path, store: Store, clock: RealClock) -> None:
        self.problem: str | None = "the scheduler has not started yet"
        self._state_dir = state_dir
        self._store = store
        self._clock = clock
        self._files = JobFiles(state_dir)
        self._tokens = JobTokens(state_dir)
        # A submission seldom changes, and a round asks for those of all jobs that it starts.
        self._submission_of = lru_cache(_SUBMISSIONS_KEPT)(self._read_submission)
        self._known_owner = lru_cache(_OWNERS_KEPT)(self._read_owner)

    def _read_submission(self, job: str) -> Submission:
        stored = self._store.job(job)
        if stored is None:
            raise InputError("the store has no such job", source=self._store.where, value=job)
        return submission_of(job, stored.submission)

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
        group: str | None = None,
        owner: str | None = None,
    ) -> tuple[list[JobRecord], str | None]:
        return self._board.page(states, tenant, after, limit, group, owner)

    def named(self, name: str, owner: str | None = None) -> list[JobRecord]:
        return self._board.named(name, owner=owner)

    def groups(self) -> list[GroupRecord]:
        return self._board.groups()

    def group(self, group: str) -> GroupRecord | None:
        return self._board.group(group)

    def with_details(self, record: JobRecord) -> JobRecord:
        paths = JobPaths.of(self._state_dir, record.id)
        code = 0 if record.state == "finished" else None
        if record.state == "failed":
            code = exit_code_of(paths, record.starts)
        return record.model_copy(update={"exit_code": code, "links": links_of(paths)})

    def metrics(self, job: str) -> MetricsRecord:
        return reported(job, JobPaths.of(self._state_dir, job))

    def log_file(self, job: str, rank: int) -> Path | None:
        facts = self._board.find(job)
        if facts is None or rank < 0:
            return None
        path = self._files.log(facts.id, rank)
        return path if has_log(path) else None

    def plan(self) -> PlanRecord:
        return self._board.plan()

    def rounds(self, *, after: int, limit: int) -> list[RoundRecord]:
        return self._board.rounds(after, limit)

    def story(self, job: str, *, with_speeds: bool) -> StoryRecord:
        facts = self._facts(job)
        return StoryRecord(
            id=facts.id,
            round_seconds=self._board.round_seconds(),
            runs=[RunRecord(start=start, stop=stop, end=end) for start, stop, end in facts.runs],
            regimes=[
                RegimeRecord(time=time, epoch=epoch, configuration=configuration)
                for time, epoch, configuration in facts.regimes
            ],
            speeds=speeds_seen(JobPaths.of(self._state_dir, facts.id)) if with_speeds else [],
            ahead=self._board.speeds_ahead(facts) if with_speeds else [],
        )

    def futures(self) -> FuturesRecord:
        return self._board.futures()

    def last_event(self) -> int:
        return self._board.sequence_number

    def round_is_due(self) -> bool:
        due = self._board.next_round_unix
        return due is not None and self.span()[1] >= due - _ROUND_BEGINS_SECONDS

    def span(self) -> tuple[float, float]:
        with self._board.projection() as projection:
            return projection.origin_unix, projection.unix(self._clock.now())

    def for_the_past(self) -> dict[str, Any]:
        plan = self._board.plan()
        with self._board.projection() as projection:
            active = projection.jobs
        archive = self._store.archive.folder
        assert archive is not None  # only who reads another's database may not know it
        since = {job: facts.runs[-1][0] for job, facts in active.items() if facts.placement}
        return {
            "database": self._store.url,
            "archive": archive.absolute(),
            "nodes": [PastNode(id=node.id, gpus=node.gpus) for node in self._board.nodes()],
            "active": plan.jobs,
            "running_since": since,
        }

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

    def _facts(self, job: str, owner: str | None = None) -> JobFacts:
        facts = self._board.find(job, owner)
        if facts is None:
            candidates = self._board.named(job, owner=owner)
            raise no_such_job(job, candidates, self._clock_unix())
        return facts

    def _clock_unix(self) -> float:
        return self.span()[1]
