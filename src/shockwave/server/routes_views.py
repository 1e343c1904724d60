"""What the dashboard shows that no record of a job has: the present as it changes, the story of a
job, the futures of the plan, past days."""

from __future__ import annotations

from collections import deque
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel
from starlette.responses import StreamingResponse

from shockwave.server.auth import Caller, Who, person, visible_job
from shockwave.server.past import LAST, Past
from shockwave.server.present import Present, Viewer
from shockwave.server.problems import ProblemError, responses
from shockwave.server.routes_jobs import API, JobId, Scheduler, document
from shockwave.server.view_records import DayRecord, FuturesRecord, StoryRecord

router = APIRouter(prefix=API, tags=["dashboard"], dependencies=[Depends(person)])
_PRESENT = {
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string", "description": "The version."},
        "event": {"const": "present"},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}


class _Written:
    """The last records as text: many ask for the same one at the same time."""

    def __init__(self, most: int) -> None:
        self._texts: deque[tuple[BaseModel, str]] = deque(maxlen=most)

    def of(self, record: BaseModel) -> Response:
        known = next((text for each, text in list(self._texts) if each is record), None)
        if known is None:
            known = record.model_dump_json()
            self._texts.append((record, known))
        return Response(known, media_type="application/json")


_FUTURES, _DAYS = _Written(1), _Written(2)
DAY = r"^(last|[0-9]{4}-[0-9]{2}-[0-9]{2})$"


@router.get(
    "/present",
    operation_id="streamPresent",
    summary="What is now, as it changes",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events. The first has all jobs that are not over, the "
            "nodes, the last round and counts; the others what changed since. `gone` are jobs "
            "that are over.",
            "content": {"text/event-stream": {"schema": _PRESENT}},
        },
        **responses(401, 403, 422),
    },
)
async def stream_present(
    request: Request,
    who: Who,
    follow: Annotated[bool, Query(description="Go on; else end after the first.")] = True,
) -> Response:
    """Once a second at most. Of others' jobs what is public; where the queue is private, nothing
    of them. Fields that have their usual value are left out."""
    someone, people = who.someone(), who.people
    present: Present = request.app.state.present
    viewer = Viewer(someone.name, someone.operator, people.private_queue)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    events = present.stream(viewer, follow=follow)
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


@router.get(
    "/jobs/{job}/story",
    operation_id="getStory",
    summary="What happened to a job",
    response_model=StoryRecord,
    responses=responses(401, 403, 404, 422),
)
def get_story(door: Scheduler, who: Who, job: JobId) -> Response:
    """When it held GPUs and why it lost them, its configurations, and its speeds: those that it
    reported, and those that are expected."""
    record = visible_job(door, who, job)
    return document(door.story(record.id, with_speeds=who.owns(record)))


@router.get(
    "/plan/futures",
    operation_id="getFutures",
    summary="When jobs start and finish in the sampled futures",
    response_model=FuturesRecord,
    responses=responses(401, 403),
)
def get_futures(door: Scheduler, who: Who) -> Response:
    """As the policy drew them for the decision in force, the jobs that start soonest first."""
    futures = door.futures()
    someone = who.someone()
    if who.people.private_queue and not someone.operator:
        own = [job for job in futures.jobs if door.owner_of(job.id) == someone.name]
        return document(futures.model_copy(update={"jobs": own, "left_out": 0}))
    return _FUTURES.of(futures)


@router.get(
    "/days/{day}",
    operation_id="getDay",
    summary="A day of the journal",
    response_model=DayRecord,
    responses=responses(401, 403, 404, 422, 503),
)
async def get_day(
    request: Request,
    who: Who,
    day: Annotated[
        str,
        Path(
            description="A day as 2026-01-31, of universal time; or `last`, the last 24 hours.",
            pattern=DAY,
            max_length=10,
        ),
    ],
) -> Response:
    """Read from the journal by a process of its own, and kept: at most once a minute for the last
    24 hours. Of others' jobs what is public."""
    past: Past = request.app.state.past
    record = await past.day(day)
    if record is None:
        first, last = await past.bounds()
        known = f"The journal has {first} to {last}, and '{LAST}'."
        raise ProblemError(404, "no-such-day", f"There is nothing of {day}. {known}")
    shown = _shown(record, who)
    return _DAYS.of(shown) if shown is record else document(shown)


def _shown(record: DayRecord, who: Caller) -> DayRecord:
    """The day as somebody may see it."""
    someone, people = who.someone(), who.people
    if someone.operator:
        return record
    jobs = [
        job if people.owns(someone, job.owner) else job.model_copy(update={"name": ""})
        for job in record.jobs
        if not people.private_queue or people.owns(someone, job.owner)
    ]
    if not people.private_queue:
        return record.model_copy(update={"jobs": jobs})
    here, tenant = {job.id for job in jobs}, people.tenant_of(someone)
    return record.model_copy(
        update={
            "jobs": jobs,
            "leases": [lease for lease in record.leases if lease.job in here],
            "tenants": {name: had for name, had in record.tenants.items() if name == tenant},
            "weights": {name: had for name, had in record.weights.items() if name == tenant},
        }
    )
