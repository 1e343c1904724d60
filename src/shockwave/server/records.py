"""What the service says about jobs, nodes, rounds and tenants: one record each.

The HTTP API serialises these, the command line prints them, and nothing else crosses the
border between the scheduler's thread and its doors.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from shockwave.model.job import Adaptation
from shockwave.server.job_sections import checked_sections, with_sections
from shockwave.server.notices import OccasionName, Target

Name = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
]


def _storable(text: str) -> str:
    """JSON can write characters that neither a file nor a process argument can hold."""
    if "\0" in text:
        raise ValueError("must not contain the character NUL")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("must not contain half of a surrogate pair")
    return text


Text = Annotated[str, AfterValidator(_storable)]
# Bounds that leave room for arithmetic: one absurd job must not break the plan of all.
Size = Annotated[int, Field(ge=1, le=2**31 - 1)]
Seconds = Annotated[float, Field(gt=0, le=1e9)]
State = Literal["waiting", "running", "finished", "failed", "cancelled"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Record):
    """The state of the code that a job was submitted from."""

    commit: str = Field(max_length=64, pattern=r"^[0-9a-f]{7,64}$", description="Of git.")
    dirty: bool = Field(False, description="Whether there were changes that no commit has.")


class Submission(_Record):
    """A job as a user submits it; ``job.yaml`` has exactly these fields.

    ``epoch_seconds`` may be left out: epoch times are then learned while the job runs. Whatever
    else there is must be a section of options for an executor, by its name.
    """

    model_config = ConfigDict(extra="allow", json_schema_extra=with_sections)
    __pydantic_extra__: dict[str, dict[str, Any]]

    name: Name | None = Field(None, description="A name to recognise the job by.")
    command: Annotated[list[Text], Field(min_length=1, max_length=1024)]
    workdir: Text = Field(".", description="Where the command starts.")
    env: dict[Text, Text] = Field(default_factory=dict, description="Variables for the command.")
    snapshot: bool = Field(
        False, description="Run in a copy of the files that git tracks in the working folder."
    )
    source: Source | None = Field(None, description="The code's state; `submit` fills it in.")
    gpus: int = Field(1, ge=0, le=100_000, description="0 runs beside those that need some.")
    epochs: int = Field(ge=1, le=10_000_000)
    adaptation: Adaptation = Adaptation.STATIC
    batch_sizes: Annotated[list[Size], Field(min_length=1, max_length=64)] = Field(default=[1])
    epoch_seconds: dict[Size, Seconds] = Field(default_factory=dict)
    model: Text = Field("", max_length=128)
    tenant: Name | None = Field(None, description="Assigned where it is left out.")
    weight: float = Field(1.0, ge=1e-6, le=1e6)
    notify: Annotated[list[Target], Field(max_length=8)] = Field(
        default=[], description="Who is told: https://... or mailto:..."
    )
    notify_on: list[OccasionName] = Field(
        default=["finished", "failed", "late"], description="When they are told."
    )

    @model_validator(mode="before")
    @classmethod
    def _sections(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        return checked_sections(fields, cls.model_fields.keys())

    @property
    def sections(self) -> dict[str, dict[str, Any]]:
        """Options for executors, by the executor's name."""
        return self.model_extra or {}


class WhyRecord(_Record):
    """Why a job runs or waits. Times are unix seconds; null where the policy does not know."""

    reason: str
    bid: float | None = None
    price: float | None = None
    ahead: int | None = None
    expected_start: float | None = None
    finish_low: float | None = None
    finish: float | None = None
    finish_high: float | None = None
    fair_finish: float | None = None
    ftf: float | None = None  # finish-time fairness: JCT over fair JCT, predicted until it ended
    ftf_definition: str | None = None  # which share is fair
    last_log_lines: list[str] = Field(default_factory=list)  # of a job that failed
    source: Source | None = None  # the state of the code that it was submitted from


class JobRecord(_Record):
    """A job, as ``queue``, ``status`` and ``GET /jobs`` show it. Times are unix seconds."""

    id: str
    name: str  # empty for the jobs of others
    state: State
    owner: str = ""
    tenant: str
    model: str
    gpus: int
    epochs: int
    epochs_done: float
    configuration: int | None
    adaptation: Adaptation
    submitted: float
    started: float | None
    finished: float | None
    starts: int
    crashes: int
    preemptions: int
    nodes: list[str]
    why: WhyRecord


class NodeRecord(_Record):
    id: str
    gpus: int
    gpus_busy: int
    gpus_others: int = 0  # held by others than this scheduler
    state: Literal["up", "down", "drained"]


class RoundRecord(_Record):
    """A decision. ``time`` is unix seconds."""

    round: int
    time: float
    active: int
    running: int
    gpus_up: int
    gpus_busy: int
    plan_seconds: float
    welfare: float | None
    gap: float | None
    price: float | None
    overrun_seconds: float = 0.0
    work_seconds: float | None = None


class PlanRecord(_Record):
    """The decision in force: who runs, who waits, and the numbers behind both."""

    round: RoundRecord | None
    jobs: list[JobRecord]


class TenantRecord(_Record):
    tenant: str
    weight: float
    waiting: int
    running: int
    finished: int
    gpus_busy: int
    gpu_seconds: float


class Totals(_Record):
    """What was counted since the scheduler's first day."""

    jobs: dict[State, int]
    restarts: dict[str, int]  # by what had ended the run before
    lost_gpu_seconds: float  # held without progress that lasted
