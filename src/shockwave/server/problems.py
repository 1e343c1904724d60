"""Errors over HTTP: one JSON document for all of them, ``application/problem+json`` (RFC 9457)."""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shockwave.model.errors import InputError, JournalError
from shockwave.server.door import Conflict, NotAllowed

MEDIA_TYPE = "application/problem+json"
logger = logging.getLogger(__name__)
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


class FieldProblem(BaseModel):
    """One field that is wrong."""

    model_config = ConfigDict(extra="forbid")

    field: str = Field(description="Where: `body.gpus`, `query.limit`, `header.idempotency-key`.")
    message: str = Field(description="What is expected there.")
    value: str = Field(description="What was given, as Python would write it, shortened.")


class Problem(BaseModel):
    """What went wrong, for people (`detail`) and for programs (`type`)."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(description="A stable name: `urn:shockwave:problem:` and a word.")
    title: str
    status: int
    detail: str
    instance: str = Field(description="The path that was asked for.")
    errors: list[FieldProblem] = Field(default_factory=list)


class ProblemError(HTTPException):
    """Raised by a route to answer with a problem of that name."""

    def __init__(
        self,
        status: int,
        name: str,
        detail: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, headers)
        self.name = name


class ProblemResponse(Response):
    """A problem as the body of a response."""

    media_type = MEDIA_TYPE

    def __init__(
        self,
        scope: Scope,
        status: int,
        name: str,
        detail: str,
        *,
        errors: Sequence[FieldProblem] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        problem = Problem(
            type=f"urn:shockwave:problem:{name}",
            title=HTTPStatus(status).phrase,
            status=status,
            detail=detail,
            instance=scope["path"],
            errors=list(errors),
        )
        # Bytes of a path that are no text arrive as lone surrogates, which UTF-8 cannot hold.
        text = json.dumps(problem.model_dump(mode="python"))
        super().__init__(text.encode("ascii"), status, headers=dict(headers or {}))


def install(app: FastAPI) -> None:
    """Makes every error of the application a problem."""
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(Conflict, _conflict)
    app.add_exception_handler(NotAllowed, _not_allowed)
    app.add_exception_handler(InputError, _input_error)
    app.add_exception_handler(JournalError, _not_written)
    app.add_exception_handler(OSError, _not_written)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI description of these errors."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": _DESCRIPTIONS[status], "content": content} for status in statuses
    }


_DESCRIPTIONS = {
    400: "The body is not JSON, or a header contradicts it.",
    401: "Nothing says who you are: no token, or one that nobody has.",
    403: "You may not do this, or the request came from a foreign site.",
    404: "There is nothing of that name.",
    409: "It no longer is as the request assumes.",
    413: "The body is larger than is accepted.",
    422: "A field is wrong; `errors` says which.",
    429: "Too many of these are being answered; `Retry-After` says when to ask again.",
    503: "No rounds are being scheduled; `detail` says why.",
}
_NAMES = {
    400: "bad-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    409: "conflict",
    413: "body-too-large",
    422: "invalid",
    503: "not-ready",
}


_WITHOUT_VALUE = ("json_invalid", "missing")  # what was given there says nothing


class UnexpectedErrors:
    """The outermost layer: an error nobody expected is logged whole and told as a bare 500."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if started:
                raise  # the server cuts the connection, so that nobody takes half for whole
            detail = "The server failed; its log says more."
            await ProblemResponse(scope, 500, "internal", detail)(scope, receive, send)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    name = error.name if isinstance(error, ProblemError) else _NAMES.get(error.status_code, "error")
    return ProblemResponse(
        request.scope, error.status_code, name, str(error.detail), headers=error.headers
    )


def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [_field_problem(item) for item in error.errors()]
    first = "The request is not valid."
    if errors:
        got = "" if error.errors()[0]["type"] in _WITHOUT_VALUE else f" (got {errors[0].value})"
        first = f"{errors[0].field}: {errors[0].message}{got}"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return ProblemResponse(request.scope, 422, "invalid", first + more, errors=errors[:100])


def _field_problem(item: Mapping[str, Any]) -> FieldProblem:
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        message = "there is no such field"
    reason = item.get("ctx", {}).get("error") if item["type"] == "json_invalid" else None
    return FieldProblem(
        field=".".join(str(part) for part in item["loc"]),
        message=f"not JSON: {reason}" if reason else message,
        value=_shortened(item.get("input")),
    )


def _shortened(value: object) -> str:
    if isinstance(value, bytes | str) and len(value) > 80:
        value = value[:80]
    text = repr(value) if not isinstance(value, list | dict) or len(value) <= 20 else "..."
    return text if len(text) <= 80 else text[:77] + "..."


def _conflict(request: Request, error: Exception) -> Response:
    return ProblemResponse(request.scope, 409, "conflict", str(error))


def _not_allowed(request: Request, error: Exception) -> Response:
    return ProblemResponse(request.scope, 403, "forbidden", str(error))


def _input_error(request: Request, error: Exception) -> Response:
    return ProblemResponse(request.scope, 422, "invalid", str(error))


def _not_written(request: Request, error: Exception) -> Response:
    """The disk is full, or broken: the caller can do nothing but wait, and should know why."""
    if isinstance(error, OSError) and error.errno not in _DISK:
        raise error
    logger.error("%s %s: %s", request.method, request.url.path, error)
    said = error.strerror if isinstance(error, OSError) else str(error)
    detail = f"The scheduler cannot write, so nothing was changed: {said}."
    return ProblemResponse(request.scope, 503, "not-written", detail)
