"""What the dashboard asks for beyond the records of jobs: stories, futures, past days."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from shockwave.server.records import State


class _View(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RunRecord(_View):
    """A time that a job held its GPUs, unix seconds. ``stop`` is null while it does."""

    start: float
    stop: float | None
    end: str = Field(description="`preempted`, `crashed`, `finished` ...; empty while it runs.")


class RegimeRecord(_View):
    """A configuration that a job entered."""

    time: float
    epoch: int
    configuration: int


class SpeedSeen(_View):
    """An epoch, as the job reported it."""

    time: float
    epoch: float
    seconds: float
    configuration: int | None = None


class SpeedAhead(_View):
    """Seconds per epoch that are expected at an epoch to come; 8 of 10 futures lie between."""

    epoch: float
    low: float
    middle: float
    high: float


class StoryRecord(_View):
    """What happened to a job, and what is expected of it."""

    id: str
    round_seconds: float | None = Field(description="Null before the first rounds.")
    runs: list[RunRecord]
    regimes: list[RegimeRecord]
    speeds: list[SpeedSeen] = Field(default=[], description="Of one's own jobs.")
    ahead: list[SpeedAhead] = Field(default=[], description="Of one's own jobs that are not over.")


class FutureRecord(_View):
    """When a job starts and finishes in each of the sampled futures, unix seconds."""

    id: str
    gpus: int
    starts: list[float]
    finishes: list[float]


class PriceAhead(_View):
    """The price of a GPU-round at a moment to come; four in five futures lie between the ends."""

    time: float
    low: float
    middle: float
    high: float


class FuturesRecord(_View):
    """The sampled futures of the decision in force; no jobs where the policy samples none."""

    now: float | None
    jobs: list[FutureRecord]
    prices: list[PriceAhead] = Field(
        default=[],
        description="The highest bid that is not served, with bids as they are now and without "
        "jobs that are still to come.",
    )
    left_out: int = Field(0, description="Jobs that start later than those that are listed.")


class PastJob(_View):
    """A job that was there on a day. Finish-time fairness by the names of its definitions."""

    id: str
    name: str = ""
    owner: str
    tenant: str
    state: State
    gpus: int
    submitted: float
    started: float | None
    ended: float | None
    gpu_seconds: float = Field(description="Within the day.")
    ftf: dict[str, float] = Field(default={}, description="Of a job that finished on the day.")


class Lease(_View):
    """GPUs that a job held, cut off at the ends of the day."""

    job: str
    start: float
    stop: float
    slots: dict[str, list[int]]


class PastNode(_View):
    id: str
    gpus: int


class DayRecord(_View):
    """A day of the journal, or the last 24 hours. Series are means over equal parts of it."""

    day: str
    begin: float
    end: float
    first_day: str = Field(description="Of the journal.")
    last_day: str
    gpus_busy: list[float]
    gpus_up: list[float | None]
    running: list[float]
    waiting: list[float]
    price: list[float | None]
    nodes: list[PastNode]
    jobs: list[PastJob]
    leases: list[Lease]
    tenants: dict[str, float] = Field(description="GPU-seconds of each.")
    weights: dict[str, float] = Field(description="Of each tenant.")
    jobs_left_out: int = 0
    leases_left_out: int = 0
