"""Browsers sign in and out over HTTP, with a token or with a link that works once."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from shockwave.server.auth import Caller, Who, cookie_name, person_of, session_of
from shockwave.server.pages import Me
from shockwave.server.people import Credential, People
from shockwave.server.problems import ProblemError, responses
from shockwave.server.routes_jobs import API, document
from shockwave.server.sessions import CODE_SECONDS, SESSION_SECONDS, Sessions
from shockwave.server.tokens import hash_token

router = APIRouter(prefix=API, tags=["browsers"])
Secret = Annotated[str, Field(min_length=1, max_length=512)]


class SignIn(BaseModel):
    """One of the two."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token: Secret | None = Field(None, description="A user's or the operator's.")
    code: Secret | None = Field(None, description="Of a link from `shockwave open`.")

    @model_validator(mode="after")
    def _one_of_them(self) -> SignIn:
        if (self.token is None) == (self.code is None):
            raise ValueError("expected a token, or a code")
        return self


class SignedIn(BaseModel):
    """Who signed in; null if nobody did."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    me: Me | None
    key: str = Field("", description="The half of a new session that is no cookie.")


class OneTimeLink(BaseModel):
    """Where a browser signs in as whoever asked for this, once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    seconds: float = Field(description="That it is good for.")


@router.post(
    "/session",
    operation_id="signIn",
    summary="Sign a browser in",
    status_code=201,
    response_model=SignedIn,
    responses=responses(400, 401, 403, 413, 422),
)
async def sign_in(request: Request, given: SignIn) -> Response:
    """The answer sets a cookie and holds a key; later requests show both, the key as the header
    `Shockwave-Key`."""
    sessions: Sessions = request.app.state.sessions
    if given.token is not None:
        credential: Credential | None = Credential(token_hash=hash_token(given.token))
    else:
        credential = sessions.redeem(given.code or "")
    if credential is None:
        raise ProblemError(
            401, "unauthorized", "This link was used before, or is too old: make a new one.", {}
        )
    who = await person_of(request.app.state.people, credential)
    session = sessions.begin(credential)
    response = document(SignedIn(me=me_of(who), key=session.key), 201)
    response.set_cookie(cookie_name(request), session.cookie, **_cookie(request))
    return response


@router.get(
    "/session",
    operation_id="getSession",
    summary="Who is signed in with this browser",
    response_model=SignedIn,
    responses=responses(403),
)
async def get_session(request: Request) -> Response:
    """Nobody, where no session is shown, or one that has ended. Never an error."""
    credential = session_of(request)
    me = None
    if credential is not None:
        people: People = request.app.state.people
        person = people.of_credential(credential)
        me = None if person is None else me_of(Caller(people, person))
    return document(SignedIn(me=me))


@router.delete(
    "/session",
    operation_id="signOut",
    summary="Sign this browser out",
    status_code=204,
    response_class=Response,
    responses=responses(403),
)
async def sign_out(request: Request) -> Response:
    cookie = request.cookies.get(cookie_name(request))
    response = Response(status_code=204)
    if cookie is not None and session_of(request) is not None:
        request.app.state.sessions.end(cookie)
        response.delete_cookie(cookie_name(request), path="/")
    return response


@router.post(
    "/links",
    operation_id="makeLink",
    summary="Make a link to the dashboard",
    status_code=201,
    response_model=OneTimeLink,
    responses=responses(401, 403, 409),
)
async def make_link(request: Request, who: Who) -> Response:
    """Whoever opens it first, within two minutes, is signed in as you. If no TCP port is open, an
    operator's request opens one that only this machine can reach."""
    person = who.someone()
    address = request.app.state.address
    url = None if address is None else await address(may_open=person.operator)
    if url is None:
        raise ProblemError(
            409,
            "no-port",
            "No TCP port is open for browsers. An operator opens one with 'shockwave open', or "
            "for good by 'port = 7410' in the settings of the scheduler.",
        )
    assert who.credential is not None  # people have one
    code = request.app.state.sessions.new_code(who.credential)
    # Behind the # it is sent to nobody: neither to proxies nor into their logs.
    return document(OneTimeLink(url=f"{url}/#code={code}", seconds=CODE_SECONDS), 201)


def me_of(who: Caller) -> Me:
    """Who somebody is here."""
    person = who.someone()
    return Me(
        user=person.name,
        operator=person.operator,
        tenant=who.people.tenant_of(person),
        runs_as=who.people.runs_as(person),
    )


def _cookie(request: Request) -> dict[str, Any]:
    return {
        "max_age": int(SESSION_SECONDS),
        "path": "/",
        "httponly": True,
        "samesite": "strict",
        "secure": request.url.scheme == "https",
    }
