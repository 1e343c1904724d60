"""What the service says about jobs, nodes, rounds and tenants: one record each.

The HTTP API serialises these, the command line prints them, and nothing else crosses the
border between the scheduler's thread and its doors.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from shockwave.model.job import Adaptation, OnHang, Preemptible
from shockwave.server.addresses import OccasionName, Target
from shockwave.server.gpu_wishes import Gigabytes, Gpus, TypeName, TypeNames
from shockwave.server.job_sections import checked_sections, with_sections

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


_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def _seconds(value: Any) -> Any:
    """A duration as people write it.

    >>> _seconds("1h30m"), _seconds("90"), _seconds("1.5d"), _seconds(7)
    (5400.0, '90', 129600.0, 7)
    """
    if not isinstance(value, str) or not value.strip()[-1:].isalpha():
        return value
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([dhms])", value)
    if not re.fullmatch(r"(?:\s*\d+(?:\.\d+)?\s*[dhms])+\s*", value):
        raise ValueError("expected seconds, or a duration such as 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


Text = Annotated[str, AfterValidator(_storable)]
# Bounds that leave room for arithmetic: one absurd job must not break the plan of all.
Size = Annotated[int, Field(ge=1, le=2**31 - 1)]
Seconds = Annotated[float, Field(gt=0, le=1e9)]
_WRITTEN_DURATION = r"^[1-9][0-9]{0,5}[dhms]([1-9][0-9]{0,5}[dhms])*$"
Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    Field(gt=0, le=1e9),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": 1e9},
                {"type": "string", "pattern": _WRITTEN_DURATION},
            ]
        },
        mode="validation",
    ),
]
JobNames = Annotated[list[Name], Field(max_length=10_000)]
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
    gpus: Gpus = Field(
        1,
        description="GPUs at once: a number, {min, max} or a list for a job that can use "
        "different numbers; 0 runs beside those that need some.",
    )
    gpu_types: TypeNames = Field(default=[], description="Types that it can use; any if none.")
    preferred_type: TypeName | None = Field(None, description="The one that it likes best.")
    gpu_memory: Gigabytes | None = Field(None, description="Gigabytes that each GPU must have.")
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
    preemptible: Preemptible = Field(
        Preemptible.WHEN_SAVED,
        description="Whether it may be stopped for others: always, once it has saved a "
        "checkpoint, or never.",
    )
    time_limit: Duration | None = Field(
        None, description="Seconds, or 1h30m, that it may hold GPUs; then it is stopped."
    )
    on_hang: OnHang = Field(
        OnHang.NOTHING, description="What to do when it has gone silent; people are told anyhow."
    )
    retries: int | None = Field(
        None,
        ge=0,
        le=1000,
        description="Times that it is tried again after crashes without progress in between. "
        "Without it, as the scheduler is set.",
    )
    after: JobNames = Field(
        default_factory=list, description="Jobs, by id or name, that must have finished before."
    )
    after_any: JobNames = Field(
        default_factory=list, description="Jobs that must have ended before, in whatever way."
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
    start_low: float | None = None
    expected_start: float | None = None
    start_high: float | None = None
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
    gpus: int  # that it requests
    gpu_counts: list[int] = Field(default_factory=list)  # that would do as well
    gpu_types: list[str] = Field(default_factory=list)  # that it can use; none for any
    gpus_held: int = 0
    gpu_type: str = ""  # of what it holds, or held last
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
    slots: dict[str, list[int]] = Field(default_factory=dict)  # its GPUs on each node
    starting: bool = False  # its GPUs are ordered, but its processes were not seen yet
    note: str = ""  # what the cluster says of a job that it keeps waiting or suspended
    warnings: list[str] = Field(default_factory=list)  # when it was submitted
    why: WhyRecord
    group: str = ""  # the sweep that it is part of
    weight: float = 1.0
    held: bool = False  # somebody keeps it from starting
    preemptible: Preemptible = Preemptible.ALWAYS
    saved: bool = False  # whether it has a checkpoint to go on from
    time_limit: float | None = None  # seconds
    after: list[str] = Field(default_factory=list)  # ids
    after_any: list[str] = Field(default_factory=list)
    silent_since: float | None = None  # of a running job that may hang
    exit_code: int | None = None  # of a job that is over; told where one job is asked for
    links: dict[str, str] = Field(default_factory=dict)  # that it reported; likewise


class GroupRecord(_Record):
    """Jobs that were submitted together, as a sweep. Times are unix seconds."""

    id: str
    owner: str = ""
    parallel: int  # that run at once at most; 0 for no limit
    gpus: int  # of each job, the largest
    jobs: dict[State, int]
    progress: float  # of all work, 0 to 1
    submitted: float
    silent: int = 0  # running jobs that may hang


class Outcome(_Record):
    """What became of a request for one of many jobs."""

    id: str
    state: State
    problem: str | None = None  # why nothing was done


class Point(_Record):
    """A value that a job reported. ``time`` is unix seconds."""

    time: float
    epoch: int
    value: float


class MetricsRecord(_Record):
    """What a job reported, by name, thinned out where that is much."""

    id: str
    metrics: dict[str, list[Point]]
    links: dict[str, str]


class NodeRecord(_Record):
    id: str
    gpus: int
    gpu_type: str = ""
    gpus_busy: int
    gpus_others: int = 0  # held by others than this scheduler
    state: Literal["up", "down", "drained"]
    reason: str = ""  # why it is not up, in the words of whoever said so


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


class TenantTypeRecord(_Record):
    """What a tenant was promised of one type of GPU, and holds of it."""

    gpu_type: str
    gpus_busy: int
    weight: float | None = None  # None: the tenant's own
    guaranteed: int = 0
    most: int | None = None
    due_gpus: float | None = None  # now; None where GPUs of this type are not shared on their own
    carry_over_gpu_hours: float | None = None


class TenantRecord(_Record):
    tenant: str
    weight: float
    waiting: int
    running: int
    finished: int
    gpus_busy: int
    gpu_seconds: float
    guaranteed: int = 0
    most: int | None = None
    due_gpus: float | None = None  # now; None where nobody declared any tenants
    carry_over_gpu_hours: float | None = None
    types: list[TenantTypeRecord] = []  # where there are several, or something was promised of one


class TypeChanges(BaseModel):
    """What an operator changes of a tenant's GPUs of one type; what is left out stays."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    weight: float | None = Field(None, gt=0, le=1e6)
    guaranteed: int = Field(0, ge=0, le=1_000_000)
    most: int | None = Field(None, ge=0, le=1_000_000)


class TenantChanges(BaseModel):
    """What an operator changes of a tenant; what is left out stays."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    weight: float = Field(1.0, gt=0, le=1e6)
    guaranteed: int = Field(0, ge=0, le=1_000_000)
    most: int | None = Field(None, ge=0, le=1_000_000)
    carry_over_hours: float = Field(24.0, ge=0, le=1e6)
    half_life_hours: float = Field(168.0, gt=0, le=1e6)
    by_person: bool = False
    types: dict[TypeName, TypeChanges | None] = Field(
        default_factory=dict,
        max_length=64,
        description="By type of GPU; null takes back what was said of a type.",
    )


class Totals(_Record):
    """What was counted since the scheduler's first day."""

    jobs: dict[State, int]
    restarts: dict[str, int]  # by what had ended the run before
    lost_gpu_seconds: float  # held without progress that lasted
