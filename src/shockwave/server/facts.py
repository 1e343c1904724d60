"""What happened to a job so far, for people: immutable, replaced when something happens."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeVar

from shockwave.model.event_records import plain, spec_of_record
from shockwave.model.events import Placement
from shockwave.model.job import JobSpec
from shockwave.server.records import State

_Item = TypeVar("_Item")
MOST_KEPT = 200  # runs of a job, and regimes; the first half of them and the latest
Run = tuple[float, float | None, str]  # when it began and stopped, and how that came
Regime = tuple[float, int, int]  # when it was entered, after which epoch, the configuration


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Times are unix seconds where the name says so."""

    number: int  # of its submission, from 1
    spec: JobSpec
    submitted_unix: float
    state: State = "waiting"
    epochs_done: float = 0.0
    configuration: int | None = None
    started_unix: float | None = None
    finished_unix: float | None = None
    starts: int = 0
    crashes: int = 0
    preemptions: int = 0
    placement: Placement = ()
    gang_gpus: int = 0  # of its present launch, or of the last one
    gpu_type: str = ""  # likewise
    confirmed: bool = False  # seen to run since its last start
    gpu_seconds: float = 0.0
    saved: bool = False  # whether it has a checkpoint to go on from
    held: bool = False
    cancelling: bool = False
    crash: str = ""  # of the last stop, if it was one: exit code and last lines of the log
    setback: str = ""  # of the last stop, if it was none: why others ended it
    last_stop: str = ""  # the reason
    note: str = ""  # what the backend says of it
    failure: str = ""
    silent_since_unix: float | None = None  # of a running job that may hang
    usual_epoch_seconds: float = 0.0  # of one that was silent
    ftf_themis: float | None = None  # of a finished job
    active_rounds_before: int = 0  # active jobs summed over the rounds before it came
    rounds_before: int = 0
    runs: tuple[Run, ...] = ()
    regimes: tuple[Regime, ...] = ()

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def handle(self) -> int:
        return self.number - 1

    @property
    def ended(self) -> bool:
        return self.state not in ("waiting", "running")


def with_run(runs: tuple[Run, ...], begins: float) -> tuple[Run, ...]:
    """The runs and one that begins; one that is still open has moved."""
    return kept((*run_ended(runs, begins, "moved"), (begins, None, "")))


def run_ended(runs: tuple[Run, ...], stops: float, how: str) -> tuple[Run, ...]:
    """The runs, the last of them closed."""
    if not runs or runs[-1][1] is not None:
        return runs
    return (*runs[:-1], (runs[-1][0], stops, how))


def kept(items: tuple[_Item, ...]) -> tuple[_Item, ...]:
    """All of them, as long as they are not too many."""
    if len(items) <= MOST_KEPT:
        return items
    middle = MOST_KEPT // 2
    return (*items[:middle], *items[middle + 1 :])


def to_json(facts: JobFacts) -> str:
    return json.dumps(plain(facts), separators=(",", ":"))


def from_json(text: str) -> JobFacts:
    record: dict[str, Any] = json.loads(text)
    record["spec"] = spec_of_record(record["spec"])
    record["runs"] = tuple(tuple(run) for run in record.get("runs", ()))
    record["regimes"] = tuple(tuple(regime) for regime in record.get("regimes", ()))
    record["placement"] = tuple((node, tuple(slots)) for node, slots in record["placement"])
    return JobFacts(**record)
