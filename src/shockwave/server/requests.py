"""What people may ask of jobs that are there: hold, release, requeue, cancel, change."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from shockwave.model.errors import InputError
from shockwave.model.events import (
    CancelRequested,
    JobHeld,
    JobReleased,
    Request,
    RequeueRequested,
)
from shockwave.model.job import JobSpec
from shockwave.server.door import Conflict
from shockwave.server.facts import JobFacts
from shockwave.server.jobfile import checked_submission
from shockwave.server.records import Submission
from shockwave.server.submissions import spec_of

# What may be changed, and of these what a running job goes on with.
CHANGEABLE = (
    "weight", "gpus", "gpu_types", "preferred_type", "gpu_memory", "epochs", "name", "time_limit",
    "preemptible", "on_hang", "retries",
)  # fmt: skip
_ONLY_WHILE_WAITING = ("gpus", "gpu_counts", "gpu_types", "gpu_memory_gb", "epochs")


class Action(StrEnum):
    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    REQUEUE = "requeue"


class Requested(BaseModel):
    """An action on several jobs, by id or name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Action
    jobs: list[str] = Field(min_length=1, max_length=100_000)


def problem_with(action: Action, facts: JobFacts) -> str | None:
    """Why it cannot be done; None if it can, or is done already."""
    if facts.ended:
        if facts.state == "cancelled":
            return None if action is Action.CANCEL else "the job was cancelled already"
        return f"the job has {facts.state} already"
    match action:
        case Action.REQUEUE if facts.state != "running":
            return "the job does not run"
        case Action.HOLD if facts.held:
            return "the job is held already"
    return None


def is_done(action: Action, facts: JobFacts) -> bool:
    """Whether nothing is left to do."""
    return action is Action.CANCEL and (facts.cancelling or facts.state == "cancelled")


def request_for(action: Action, job: str, time: float, by: str = "") -> Request:
    match action:
        case Action.CANCEL:
            return CancelRequested(time, job, by)
        case Action.HOLD:
            return JobHeld(time, job, by)
        case Action.RELEASE:
            return JobReleased(time, job, by)
        case Action.REQUEUE:
            return RequeueRequested(time, job, by)


def changed_submission(submission: Submission, changes: dict[str, Any]) -> Submission:
    """The submission with the changes, checked as a new one. Raises :class:`InputError`."""
    for name in changes:
        if name not in CHANGEABLE:
            raise InputError(
                "cannot be changed",
                place=name,
                hint=f"What can: {', '.join(CHANGEABLE)}; parallel of a group",
            )
    return checked_submission(submission.model_dump(mode="json") | changes, "set")


def changed_spec(spec: JobSpec, submission: Submission) -> JobSpec:
    """What the scheduler knows of a job that now declares this."""
    declared = spec_of(spec.id, spec.arrival_seconds, submission)
    return replace(
        declared,
        tenant=spec.tenant,
        owner=spec.owner,
        group=spec.group,
        group_parallel=spec.group_parallel,
        after=spec.after,
        after_any=spec.after_any,
    )


def check_while_running(job: str, before: JobSpec, after: JobSpec) -> None:
    """Raises :class:`Conflict` for what a running job cannot go on with."""
    for name in _ONLY_WHILE_WAITING:
        if getattr(before, name) != getattr(after, name):
            raise Conflict(
                "can only be changed while the job waits for GPUs",
                place=name,
                value=getattr(after, name),
                hint=f"shockwave requeue {job} first, after shockwave hold {job}",
            )
