"""Jobs over HTTP: submit, list, look at, explain, read the output of, cancel, report."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from shockwave.server.auth import Who, job_itself, own_job, visible_job
from shockwave.server.door import SchedulerDoor
from shockwave.server.logs import Wanted, follow_log, read_log
from shockwave.server.pages import JobPage, Reports
from shockwave.server.problems import ProblemError, responses
from shockwave.server.records import JobRecord, State, Submission, WhyRecord

API = "/api/v1"
MAX_PAGE = 10_000
OVER = ("finished", "failed", "cancelled")
router = APIRouter(prefix=API, tags=["jobs"])


async def scheduler(request: Request) -> SchedulerDoor:
    """The scheduler behind this application."""
    door: SchedulerDoor = request.app.state.door
    return door


Scheduler = Annotated[SchedulerDoor, Depends(scheduler)]
JobId = Annotated[
    str,
    Path(
        description="The job's id, or its name where only one job has it.",
        max_length=128,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
    ),
]


def document(record: BaseModel, status: int = 200) -> Response:
    """A record as the body of a response, without a second validation of what is ours."""
    return Response(record.model_dump_json(), status, media_type="application/json")


@router.post(
    "/jobs",
    operation_id="submitJob",
    summary="Submit a job",
    status_code=201,
    response_model=JobRecord,
    responses={
        200: {"model": JobRecord, "description": "The job that this key submitted before."},
        **responses(400, 401, 403, 413, 422),
    },
)
def submit_job(
    door: Scheduler,
    who: Who,
    submission: Submission,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Makes a retry safe: the same key never submits a second job.",
            min_length=1,
            max_length=255,
            pattern=r"^[\x21-\x7e]+$",
        ),
    ] = None,
) -> Response:
    """The job is durable when this answers. With an `Idempotency-Key` that was seen before, the
    answer is the job of then; the same key with another job is an error. The job belongs to
    whoever submits it, and the tenant is the one that they are assigned to."""
    person = who.someone()
    admitted = who.people.admitted(submission, person)
    record, is_new = door.submit(admitted, idempotency_key, who.people.owner(person))
    response = document(record, 201 if is_new else 200)
    response.headers["Location"] = f"{API}/jobs/{record.id}"
    return response


@router.get(
    "/jobs",
    operation_id="listJobs",
    summary="List jobs",
    response_model=JobPage,
    responses=responses(401, 403, 422),
)
def list_jobs(
    door: Scheduler,
    who: Who,
    state: Annotated[list[State] | None, Query(description="Only jobs in these states.")] = None,
    tenant: Annotated[str | None, Query(max_length=128)] = None,
    after: Annotated[
        str | None, Query(max_length=128, description="The `next` of the page before.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
    group: Annotated[
        str | None,
        Query(max_length=160, description="Only of this group; empty for jobs of no group."),
    ] = None,
    mine: Annotated[bool, Query(description="Only one's own.")] = False,
) -> Response:
    """Jobs in order of submission, a page at a time. Of others' only what is public."""
    person = who.someone()
    # The name of a group is its owner's, too.
    hidden = not person.operator and (who.people.private_queue or bool(group))
    only_own = mine or hidden
    items, following = door.jobs(
        states=tuple(dict.fromkeys(state or ())),
        tenant=tenant,
        after=after,
        limit=limit,
        group=group,
        owner=who.people.owner(person) if only_own else None,
    )
    shown = [item for item in map(who.shown, items) if item is not None]
    return document(JobPage.model_construct(items=shown, next=following))


@router.get(
    "/jobs/{job}",
    operation_id="getJob",
    summary="Look at a job",
    response_model=JobRecord,
    responses=responses(401, 403, 404, 422),
)
def get_job(door: Scheduler, who: Who, job: JobId) -> Response:
    """The record of one job; of somebody else's, what is public. A job may look at itself with
    its own token."""
    record = visible_job(door, who, job)
    return document(door.with_details(record) if who.owns(record) else record)


@router.delete(
    "/jobs/{job}",
    operation_id="cancelJob",
    summary="Cancel a job",
    response_model=JobRecord,
    responses=responses(401, 403, 404, 409, 422),
)
def cancel_job(door: Scheduler, who: Who, job: JobId) -> Response:
    """Takes the job back; what runs is stopped. A job that is over is a conflict."""
    person = who.someone()
    return document(door.cancel(own_job(door, who, job).id, by=who.people.owner(person)))


@router.get(
    "/jobs/{job}/why",
    operation_id="explainJob",
    summary="Why a job runs or waits",
    response_model=WhyRecord,
    responses=responses(401, 403, 404, 422),
)
def explain_job(door: Scheduler, who: Who, job: JobId) -> Response:
    """The numbers behind the last decision; of a job that failed, the end of its output too."""
    who.someone()
    record = visible_job(door, who, job)
    source = door.source_of(record.id) if who.owns(record) else None
    return document(record.why.model_copy(update={"source": source}))


@router.get(
    "/jobs/{job}/logs",
    operation_id="readJobLog",
    summary="Read a job's output",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Standard output and error, as the job wrote them.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **responses(401, 403, 404, 422),
    },
)
def read_job_log(
    request: Request,
    door: Scheduler,
    who: Who,
    job: JobId,
    rank: Annotated[int, Query(ge=0, le=1_000_000, description="Of this process.")] = 0,
    tail: Annotated[
        int | None, Query(ge=0, le=1_000_000, description="Only the last lines, this many.")
    ] = None,
    follow: Annotated[
        bool, Query(description="Go on as the job writes, until it is over.")
    ] = False,
    since: Annotated[
        float | None,
        Query(ge=0, le=1e11, description="Only what was written since then, unix seconds."),
    ] = None,
    launches: Annotated[bool, Query(description="A line between two launches of the job.")] = False,
    times: Annotated[bool, Query(description="The time in front of each line.")] = False,
) -> Response:
    """What the job wrote, as plain text, from the oldest piece that is kept to the newest."""
    who.someone()
    wanted = Wanted(tail, since, launches, times)
    found = own_job(door, who, job).id
    headers = {"X-Content-Type-Options": "nosniff"}
    media_type = "text/plain; charset=utf-8"
    if follow:
        chunks = follow_log(
            lambda: door.log_file(found, rank),
            lambda: (record := door.job(found)) is None or record.state in OVER,
            request.app.state.closing,
            wanted,
        )
        return StreamingResponse(chunks, media_type=media_type, headers=headers)
    path = door.log_file(found, rank)
    if path is None:
        raise ProblemError(404, "log-not-found", f"Job {found} has no output of rank {rank} yet.")
    return StreamingResponse(read_log(path, wanted), media_type=media_type, headers=headers)


@router.post(
    "/jobs/{job}/reports",
    operation_id="reportProgress",
    summary="Report progress",
    status_code=204,
    response_class=Response,
    dependencies=[Depends(job_itself)],
    responses=responses(400, 401, 403, 404, 409, 413, 422),
)
def report_progress(door: Scheduler, job: JobId, batch: Reports) -> Response:
    """What the job did since it last reported, in order. Needs the token of this very job. A
    batch of an earlier launch is a conflict: another process carries the job now."""
    door.report(job, batch.generation, batch.reports)  # type: ignore[arg-type]
    return Response(status_code=204)
