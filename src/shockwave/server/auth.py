"""Who asks, and what is theirs.

Over the Unix socket the kernel says which user it is. Over TCP a token does: the operator's, a
user's, or a job's, which opens the reports and the record of that job and nothing else. A token
that is shown counts over the socket too. A browser shows a session
(:mod:`shockwave.server.sessions`). Pages of other web sites are refused everywhere: no browser
should be made to carry a token here by a page that somebody happens to visit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from shockwave.server.candidates import no_such_job
from shockwave.server.door import SchedulerDoor
from shockwave.server.people import Credential, People, Person
from shockwave.server.problems import ProblemError, ProblemResponse
from shockwave.server.records import JobRecord
from shockwave.server.redaction import public_record
from shockwave.server.sessions import KEY_HEADER, Sessions
from shockwave.server.tokens import hash_token

PEER_UID = "peer_uid"  # in the state of a connection, where it is one over the Unix socket
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="shockwave"'}
_documented = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="The token of a user, of the operator, or of a job. The Unix socket needs none.",
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a person, or the job whose token was shown."""

    people: People
    person: Person | None = None
    job: str | None = None
    credential: Credential | None = None  # what said so, of a person

    def someone(self) -> Person:
        """The person; a 403 for a job."""
        if self.person is None:
            raise ProblemError(
                403, "forbidden", f"This is the token of job {self.job}, and no more."
            )
        return self.person

    def names_of(self) -> str | None:
        """Whose jobs are found by their names; None for those of all."""
        return None if self.person is None or self.person.operator else self.person.name

    def owns(self, record: JobRecord) -> bool:
        if self.person is None:
            return record.id == self.job
        return self.people.owns(self.person, record.owner)

    def shown(self, record: JobRecord) -> JobRecord | None:
        """The record as this caller may see it; None if they may not."""
        if self.owns(record):
            return record
        if self.person is None or self.people.private_queue:
            return None
        return public_record(record)


def cookie_name(request: Request) -> str:
    """With the port in it: browsers mix up the cookies of all ports of a machine."""
    return f"shockwave_{request.url.port or request.url.scheme}"


def session_of(request: Request) -> Credential | None:
    """Whose session the browser shows; None where it shows none."""
    cookie = request.cookies.get(cookie_name(request))
    key = request.headers.get(KEY_HEADER)
    sessions: Sessions = request.app.state.sessions
    return None if cookie is None or key is None else sessions.find(cookie, key)


async def person_of(people: People, credential: Credential) -> Caller:
    """Who that is. A 401 for what is no longer good, a 403 for strangers."""
    person = await run_in_threadpool(people.of_credential, credential)
    if person is None:
        raise ProblemError(401, "unauthorized", "No such token.", _CHALLENGE)
    return Caller(people, person, credential=credential)


async def caller(request: Request, _: Annotated[object, Depends(_documented)]) -> Caller:
    """The caller of this request. A 401 where nothing says who it is, a 403 for strangers."""
    people: People = request.app.state.people
    given = request.headers.get("authorization")
    if given is None:
        credential = session_of(request) or Credential(getattr(request.state, PEER_UID, None))
        if credential == Credential():
            raise ProblemError(
                401, "unauthorized", "A token is needed: Authorization: Bearer ...", _CHALLENGE
            )
        return await person_of(people, credential)
    scheme, _space, token = given.partition(" ")
    token = token.strip()
    if scheme.lower() == "bearer" and token:
        credential = Credential(token_hash=hash_token(token))
        person = await run_in_threadpool(people.of_credential, credential)
        if person is not None:
            return Caller(people, person, credential=credential)
        door: SchedulerDoor = request.app.state.door
        job = await run_in_threadpool(door.job_of_token, token)
        if job is not None:
            return Caller(people, job=job)
    raise ProblemError(401, "unauthorized", "No such token.", _CHALLENGE)


Who = Annotated[Caller, Depends(caller)]


async def person(who: Who) -> Person:
    """Lets people through, and no job."""
    return who.someone()


async def operator(who: Who) -> None:
    """Lets operators through, and nobody else."""
    if not who.someone().operator:
        raise ProblemError(403, "forbidden", "Only an operator may do this.")


async def job_itself(job: str, who: Who) -> None:
    """Lets only the job through that the path names."""
    if who.job is None:
        raise ProblemError(403, "forbidden", "Only a job may report, with the token of its own.")
    if who.job != job:
        raise ProblemError(403, "forbidden", f"This is the token of job {who.job}, and no more.")


def visible_job(door: SchedulerDoor, who: Caller, job: str) -> JobRecord:
    """The job of that id or name as the caller may see it.

    A 404 where there is none for them, a 422 where several have the name.
    """
    record = door.job(job, who.names_of())
    if record is None and who.person is not None:
        candidates = door.named(job, who.names_of())
        if candidates:
            raise no_such_job(job, candidates, time.time())
    if who.person is None and (record is None or record.id != who.job):
        who.someone()
    shown = None if record is None else who.shown(record)
    if shown is None:
        raise ProblemError(404, "job-not-found", f"There is no job {job!r}.")
    return shown


def own_job(door: SchedulerDoor, who: Caller, job: str) -> JobRecord:
    """The job of that id or name, if it is the caller's to read, cancel and change."""
    record = visible_job(door, who, job)
    if not who.owns(record):
        raise ProblemError(
            403, "forbidden", f"Job {record.id} belongs to {record.owner or 'somebody else'}."
        )
    return record


class NoForeignPages:
    """Refuses what web pages of other sites ask for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_foreign(Headers(scope=scope), scope):
            reason = "Requests of web pages from elsewhere are refused."
            await ProblemResponse(scope, 403, "forbidden", reason)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _is_foreign(headers: Headers, scope: Scope) -> bool:
    origin = headers.get("origin")
    if origin is not None and origin != f"{scope['scheme']}://{headers.get('host', '')}":
        return True
    if headers.get("sec-fetch-site") not in ("cross-site", "same-site"):
        return False
    # A link may lead to a page of ours: it shows nothing before it has signed in by itself.
    follows_link = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest"))
    is_page = scope["method"] == "GET" and not scope["path"].startswith(("/api/", "/metrics"))
    return not (is_page and follows_link == ("navigate", "document"))
