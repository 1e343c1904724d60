"""What the doors may ask of the scheduler: the border between HTTP and the round loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shockwave.model.errors import InputError
from shockwave.model.events import Event
from shockwave.model.job import JobSpec
from shockwave.server.records import (
    GroupRecord,
    JobRecord,
    MetricsRecord,
    NodeRecord,
    Outcome,
    PlanRecord,
    RoundRecord,
    Source,
    State,
    Submission,
    TenantChanges,
    TenantRecord,
    Totals,
)
from shockwave.server.view_records import FuturesRecord, StoryRecord

if TYPE_CHECKING:
    from shockwave.server.batches import Batch, BatchRecord
    from shockwave.server.requests import Action


class Conflict(InputError):  # noqa: N818  (a state of affairs, not a mistake)
    """The request was right once, but things have moved on."""


class NotAllowed(InputError):  # noqa: N818  (a state of affairs, not a mistake)
    """Whoever asks may not have this."""


class SchedulerDoor(ABC):
    """Thread-safe; every method returns at once. Raises ``InputError`` for what cannot be."""

    @abstractmethod
    def submit(
        self, submission: Submission, idempotency_key: str | None, owner: str = ""
    ) -> tuple[JobRecord, bool]:
        """Durable when it returns. False if the owner has used the key before: the job of then.

        The same key with another submission is an :class:`InputError`.
        """

    @abstractmethod
    def submit_many(
        self,
        batch: Batch,
        idempotency_key: str | None,
        owner: str = "",
        admit: Callable[[Submission], Submission] = lambda submission: submission,
    ) -> tuple[BatchRecord, bool]:
        """All of them or none, otherwise as :meth:`submit`. ``admit`` may refuse one."""

    @abstractmethod
    def would_be(self, submissions: Sequence[Submission], owner: str = "") -> list[JobSpec]:
        """What the scheduler would know of these jobs, checked as at a submission."""

    @abstractmethod
    def cancel(self, job: str, by: str = "") -> JobRecord: ...

    @abstractmethod
    def act(self, action: Action, jobs: Sequence[str], by: str = "") -> list[Outcome]:
        """Hold, release, requeue or cancel many at once. Each outcome says what was not done."""

    @abstractmethod
    def change(self, job: str, changes: dict[str, Any], by: str = "") -> JobRecord:
        """What a job declares, checked as at its submission; some of it only while it waits."""

    @abstractmethod
    def limit_group(self, group: str, parallel: int, by: str = "") -> GroupRecord:
        """From now on so many jobs of a group run at once at most; 0 for no limit."""

    @abstractmethod
    def groups(self) -> list[GroupRecord]:
        """Those that have jobs which have not ended."""

    @abstractmethod
    def group(self, group: str) -> GroupRecord | None: ...

    @abstractmethod
    def named(self, name: str, owner: str | None = None) -> list[JobRecord]:
        """The latest jobs of that name, newest first; of the owner, if one is given."""

    @abstractmethod
    def with_details(self, record: JobRecord) -> JobRecord:
        """The record with what only the job's files know."""

    @abstractmethod
    def metrics(self, job: str) -> MetricsRecord:
        """What the job of this id reported beside its progress."""

    @abstractmethod
    def job(self, job: str, owner: str | None = None) -> JobRecord | None:
        """By id, or by name where that is unique, among the jobs of the owner if one is given."""

    @abstractmethod
    def owner_of(self, job: str) -> str | None:
        """Whose job it is, by id; None if there is no such job."""

    @abstractmethod
    def source_of(self, job: str) -> Source | None:
        """The state of the code when the job of that id was submitted, if that is known."""

    @abstractmethod
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
        """A page in order of submission, and the cursor of the next one.

        Of one group, or, where that is empty, of the jobs that belong to none.
        """

    @abstractmethod
    def log_file(self, job: str, rank: int) -> Path | None:
        """The captured output of one rank; None if there is none yet."""

    @abstractmethod
    def report(self, job: str, generation: int, reports: Sequence[dict[str, Any]]) -> None:
        """Progress reported over HTTP. An older generation is refused (``Conflict``)."""

    @abstractmethod
    def plan(self) -> PlanRecord: ...

    @abstractmethod
    def rounds(self, *, after: int, limit: int) -> list[RoundRecord]: ...

    @abstractmethod
    def story(self, job: str, *, with_speeds: bool) -> StoryRecord:
        """What happened to the job of this id, and with its speeds also what is expected."""

    @abstractmethod
    def futures(self) -> FuturesRecord:
        """The sampled futures of the decision in force."""

    @abstractmethod
    def last_event(self) -> int:
        """The number of the last event that can be seen."""

    @abstractmethod
    def round_is_due(self) -> bool:
        """Whether a round is being decided, or begins at any moment: what can wait should."""

    @abstractmethod
    def span(self) -> tuple[float, float]:
        """When the journal begins, and now, in unix seconds."""

    @abstractmethod
    def for_the_past(self) -> dict[str, Any]:
        """Where the journal is, and what the present says about the past."""

    @abstractmethod
    def nodes(self) -> list[NodeRecord]: ...

    @abstractmethod
    def drain(self, node: str, *, resume: bool, by: str = "") -> NodeRecord: ...

    @abstractmethod
    def tenants(self) -> list[TenantRecord]: ...

    @abstractmethod
    def change_tenant(self, name: str, changes: TenantChanges, by: str = "") -> None: ...

    @abstractmethod
    def totals(self) -> Totals: ...

    @abstractmethod
    def recent_events(self, seconds: float, kinds: Sequence[str]) -> list[Event]:
        """Events of these kinds from the last so many seconds."""

    @abstractmethod
    def events(self, after: int, limit: int) -> list[tuple[int, dict[str, Any]]]:
        """Journal records with their sequence numbers, for server-sent events."""

    @abstractmethod
    def wait_for_events(self, after: int, timeout_seconds: float) -> bool:
        """Blocks until there is an event after that number, or the time is over."""

    @abstractmethod
    def job_of_token(self, token: str) -> str | None:
        """The job that a job token may speak for."""

    @abstractmethod
    def is_ready(self) -> tuple[bool, str]:
        """Whether rounds are being scheduled, and if not, why."""

    @abstractmethod
    def journal(self) -> Iterator[dict[str, Any]]:
        """All journal records, from the first."""
