"""Many jobs over HTTP: submit a batch, look at groups, act on many, change one; and its figures."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from shockwave.server.auth import Caller, Who, own_job
from shockwave.server.batches import Batch, BatchRecord
from shockwave.server.door import SchedulerDoor
from shockwave.server.problems import ProblemError, responses
from shockwave.server.records import GroupRecord, JobRecord, MetricsRecord, Outcome
from shockwave.server.requests import Requested
from shockwave.server.routes_jobs import API, JobId, Scheduler, document

router = APIRouter(prefix=API, tags=["many jobs"])
GroupId = Annotated[
    str,
    Path(description="The group's id.", max_length=160, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$"),
]


class GroupList(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    items: list[GroupRecord]


class OutcomeList(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    items: list[Outcome]


class GroupChange(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    parallel: int = Field(ge=0, le=1_000_000, description="That run at once at most; 0: no limit.")


@router.post(
    "/batches",
    operation_id="submitBatch",
    summary="Submit several jobs",
    status_code=201,
    response_model=BatchRecord,
    responses={
        200: {"model": BatchRecord, "description": "The jobs that this key submitted before."},
        **responses(400, 401, 403, 413, 422),
    },
)
def submit_batch(
    door: Scheduler,
    who: Who,
    batch: Batch,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Makes a retry safe: the same key never submits the jobs again.",
            min_length=1,
            max_length=240,
            pattern=r"^[\x21-\x7e]+$",
        ),
    ] = None,
) -> Response:
    """All jobs are durable when this answers, or none is. A job may name jobs before it in the
    same batch in `after`."""
    person = who.someone()
    record, is_new = door.submit_many(
        batch,
        idempotency_key,
        who.people.owner(person),
        lambda submission: who.people.admitted(submission, person),
    )
    return document(record, 201 if is_new else 200)


@router.post(
    "/jobs/actions",
    operation_id="actOnJobs",
    summary="Cancel, hold, release or requeue jobs",
    response_model=OutcomeList,
    responses=responses(400, 401, 403, 404, 413, 422),
)
def act_on_jobs(door: Scheduler, who: Who, requested: Requested) -> Response:
    """What became of it for each job: `problem` says why nothing was done. Nothing is done if one
    of them is somebody else's."""
    by = who.people.owner(who.someone())
    jobs = [own_job(door, who, job).id for job in dict.fromkeys(requested.jobs)]
    outcomes = door.act(requested.action, jobs, by)
    return document(OutcomeList.model_construct(items=outcomes))


@router.patch(
    "/jobs/{job}",
    operation_id="changeJob",
    summary="Change a job",
    response_model=JobRecord,
    responses=responses(400, 401, 403, 404, 409, 413, 422),
)
def change_job(
    door: Scheduler, who: Who, job: JobId, changes: Annotated[dict[str, Any], Body()]
) -> Response:
    """Fields of the submission with their new values. `gpus` and `epochs` only while it waits."""
    person = who.someone()
    record = own_job(door, who, job)
    who.people.check_weight(person, record.tenant, changes.get("weight"))
    return document(door.change(record.id, changes, who.people.owner(person)))


@router.get(
    "/jobs/{job}/metrics",
    operation_id="getJobMetrics",
    summary="What a job reported",
    response_model=MetricsRecord,
    responses=responses(401, 403, 404, 422),
)
def get_metrics(door: Scheduler, who: Who, job: JobId) -> Response:
    """Losses and other figures of all its launches, and the links that it gave."""
    return document(door.metrics(own_job(door, who, job).id))


@router.get(
    "/groups",
    operation_id="listGroups",
    summary="List groups",
    response_model=GroupList,
    responses=responses(401, 403),
)
def list_groups(door: Scheduler, who: Who) -> Response:
    """One's own groups that have jobs which are not over; all, for an operator."""
    person = who.someone()
    own = [group for group in door.groups() if who.people.owns(person, group.owner)]
    return document(GroupList.model_construct(items=own))


@router.get(
    "/groups/{group}",
    operation_id="getGroup",
    summary="Look at a group",
    response_model=GroupRecord,
    responses=responses(401, 403, 404, 422),
)
def get_group(door: Scheduler, who: Who, group: GroupId) -> Response:
    """One group, over or not."""
    return document(_own_group(door, who, group))


def _own_group(door: SchedulerDoor, who: Caller, group: str) -> GroupRecord:
    """The name of a group is its owner's, so there is none for others."""
    person, record = who.someone(), door.group(group)
    if record is None or not who.people.owns(person, record.owner):
        raise ProblemError(404, "group-not-found", f"There is no group {group!r}.")
    return record


@router.patch(
    "/groups/{group}",
    operation_id="changeGroup",
    summary="Change a group",
    response_model=GroupRecord,
    responses=responses(400, 401, 403, 404, 413, 422),
)
def change_group(door: Scheduler, who: Who, group: GroupId, change: GroupChange) -> Response:
    """How many of its jobs may run at once."""
    found = _own_group(door, who, group)
    by = who.people.owner(who.someone())
    return document(door.limit_group(found.id, change.parallel, by))
