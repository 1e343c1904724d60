"""What-if over HTTP."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response

from shockwave.server.auth import Caller, Who, person
from shockwave.server.door import SchedulerDoor
from shockwave.server.problems import ProblemError, responses
from shockwave.server.routes_jobs import API, MAX_PAGE, Scheduler, document
from shockwave.server.whatif_records import WhatIfJob, WhatIfQuestion, WhatIfRecord
from shockwave.server.whatifs import NoAnswer, TooManyAtOnce, WhatIfs

router = APIRouter(prefix=API, tags=["cluster"], dependencies=[Depends(person)])


@router.post(
    "/what-if",
    operation_id="askWhatIf",
    summary="What would be different",
    response_model=WhatIfRecord,
    responses=responses(400, 401, 403, 404, 413, 422, 429, 503),
)
def ask_what_if(request: Request, door: Scheduler, who: Who, question: WhatIfQuestion) -> Response:
    """Rolls the present state forward through sampled futures, as it is and with the change, and
    compares. Nothing is submitted, drained or changed. It may take a minute, in a process of its
    own with a low priority. Of others' jobs you see what you see in the queue."""
    whatifs: WhatIfs | None = request.app.state.whatifs
    if whatifs is None:
        raise ProblemError(404, "no-what-if", "This scheduler answers no what-if.")
    someone = who.someone()
    if question.policy is not None and ":" in question.policy and not someone.operator:
        # A module that anybody names would be imported with the rights of the scheduler.
        raise ProblemError(403, "forbidden", "Only operators may name a class; name a policy.")
    admitted = [who.people.admitted(submission, someone) for submission in question.submit]
    specs = door.would_be(admitted, who.people.owner(someone)) if admitted else []
    try:
        record = whatifs.ask(question, specs)
    except TooManyAtOnce as error:
        raise ProblemError(429, "too-many-what-ifs", f"{error}.", {"Retry-After": "60"}) from error
    except NoAnswer as error:
        raise ProblemError(503, "no-answer", f"{error}.") from error
    return document(_shown(record, door, who))


def _shown(record: WhatIfRecord, door: SchedulerDoor, who: Caller) -> WhatIfRecord:
    """As much of it as the caller may see."""
    items, _ = door.jobs(states=("waiting", "running"), tenant=None, after=None, limit=MAX_PAGE)
    seen = {item.id: who.shown(item) for item in items}
    shown: list[WhatIfJob] = []
    for job in record.jobs:
        if job.id not in seen and not job.is_new:  # it has ended meanwhile
            ended = door.job(job.id)
            seen[job.id] = None if ended is None else who.shown(ended)
        public = seen.get(job.id)
        if job.is_new:
            shown.append(job)
        elif public is not None:
            shown.append(job.model_copy(update={"name": public.name}))
    never = [job for job in record.never if seen.get(job) is not None]
    hidden = len(record.jobs) - len(shown)
    return record.model_copy(update={"jobs": shown, "never": never, "hidden": hidden})
