"""What the doors may ask of the scheduler: the border between HTTP and the round loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shockwave.model.errors import InputError
from shockwave.model.events import Event
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
    def cancel(self, job: str, by: str = "") -> JobRecord: ...

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
        owner: str | None = None,
    ) -> tuple[list[JobRecord], str | None]:
        """A page in order of submission, and the cursor of the next one."""

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
    def nodes(self) -> list[NodeRecord]: ...

    @abstractmethod
    def drain(self, node: str, *, resume: bool, by: str = "") -> NodeRecord: ...

    @abstractmethod
    def tenants(self) -> list[TenantRecord]: ...

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
