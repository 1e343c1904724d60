"""Who may ask: tokens, and what each of them opens.

There are two kinds of token, both made by :func:`new_token`. The operator's opens everything but
the reports of jobs; a job's opens the reports and the record of that job and nothing else. At
rest there is only the SHA-256 of a token: it is 32 random bytes, which no dictionary holds and
nobody can try through, so the slow hashes that passwords need would add nothing.

Without an operator's token the service answers to this machine alone. Then three checks stand
in for the token: the request comes from a loopback address, it names a loopback host (so a
foreign name that was rebound to 127.0.0.1 is refused), and no web page of another origin sent
it (which a browser says in ``Origin`` and ``Sec-Fetch-Site``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from shockwave.server.door import SchedulerDoor
from shockwave.server.problems import ProblemError, ProblemResponse
from shockwave.server.tokens import is_loopback, token_matches

_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="shockwave"'}
_documented = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="The operator's token, or a job's. Not needed on loopback where none is set.",
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the operator, or the job whose token was shown."""

    job: str | None = None


async def caller(request: Request, _: Annotated[object, Depends(_documented)]) -> Caller:
    """The caller of this request; a 401 where the token is missing or unknown."""
    given = request.headers.get("authorization")
    token_hash: str | None = request.app.state.token_hash
    if given is None:
        if token_hash is None:
            return Caller()
        raise ProblemError(
            401, "unauthorized", "A token is needed: Authorization: Bearer ...", _CHALLENGE
        )
    scheme, _space, token = given.partition(" ")
    token = token.strip()
    if scheme.lower() == "bearer" and token:
        if token_hash is not None and token_matches(token, token_hash):
            return Caller()
        door: SchedulerDoor = request.app.state.door
        job = door.job_of_token(token)
        if job is not None:
            return Caller(job)
    raise ProblemError(401, "unauthorized", "No such token.", _CHALLENGE)


async def operator(who: Annotated[Caller, Depends(caller)]) -> None:
    """Lets the operator through, and no job."""
    if who.job is not None:
        raise ProblemError(403, "forbidden", f"This is the token of job {who.job}, and no more.")


async def operator_or_job(job: str, who: Annotated[Caller, Depends(caller)]) -> None:
    """Lets the operator through, and the job that the path names."""
    if who.job is not None and who.job != job:
        raise ProblemError(403, "forbidden", f"This is the token of job {who.job}, and no more.")


async def job_itself(job: str, who: Annotated[Caller, Depends(caller)]) -> None:
    """Lets only the job through that the path names."""
    if who.job is None:
        raise ProblemError(403, "forbidden", "Only a job may report, with the token of its own.")
    await operator_or_job(job, who)


class LocalOnly:
    """Refuses what did not come from this machine's own programs, where no token is asked for.

    Requests of web pages from elsewhere are refused with a token as well: no browser should be
    made to carry one here by a page that the operator happens to visit.
    """

    def __init__(self, app: ASGIApp, *, token_required: bool) -> None:
        self._app = app
        self._token_required = token_required

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            reason = self._refusal(scope)
            if reason is not None:
                await ProblemResponse(scope, 403, "forbidden", reason)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._token_required:
            client = scope.get("client")
            if client is not None and not is_loopback(client[0]):
                return "Beyond this machine a token is needed, and the server has none."
            if not is_loopback(_without_port(host)):
                return "The Host header must name this machine: 127.0.0.1, [::1] or localhost."
        origin = headers.get("origin")
        if origin is not None and origin != f"{scope['scheme']}://{host}":
            return "Requests of web pages from elsewhere are refused."
        if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return "Requests of web pages from elsewhere are refused."
        return None


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
