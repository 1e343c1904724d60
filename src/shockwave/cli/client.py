"""Speaking to a running scheduler over HTTP, with the standard library alone.

Without a URL it is the scheduler of this machine, over its Unix socket: one's own, or else the
system's. There the kernel says who we are, and no token is sent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    ProxyHandler,
    Request,
    build_opener,
)

import typer

from shockwave.cli.versions import HEADER, tell_if_older
from shockwave.model.errors import InputError, ShockwaveError
from shockwave.server.places import connect, sockets_to_try
from shockwave.version import __version__

DEFAULT_URL = ""  # the scheduler of this machine
TIMEOUT_SECONDS = 30.0
PAGE = 2000  # jobs in one answer: a megabyte
_LOCAL = {"localhost", "127.0.0.1", "::1"}
_BAD_INPUT = {400, 404, 413, 422}

UrlOption = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="SHOCKWAVE_URL",
        help="Where the scheduler listens: http://HOST:PORT, or unix:/PATH. Default: the socket "
        "of your own on this machine, else that of the system.",
        show_default=False,
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token", envvar="SHOCKWAVE_TOKEN", help="For a URL of http.", show_default=False
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class SchedulerRefused(ShockwaveError):  # noqa: N818
    """The scheduler cannot be reached, or will not do what it was asked."""


class Client:
    """Requests to one scheduler. Every failure is an error that says the next step.

    Raises :class:`InputError` for what the scheduler calls wrong input, and
    :class:`SchedulerRefused` for everything else that fails.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url.rstrip("/") or f"unix:{_socket_of_this_machine()}"
        self._headers = {"User-Agent": f"shockwave/{__version__}"}
        # No redirects: they would carry the token elsewhere. No proxy on the way to oneself.
        handlers: list[Any] = [_NoRedirects()]
        if self.url.startswith("unix:"):
            self._base = "http://localhost"
            handlers += [ProxyHandler({}), _OverSocket(Path(self.url.removeprefix("unix:")))]
        else:
            parts = urlsplit(self.url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                hint = "For instance http://127.0.0.1:7410, or unix:/run/shockwave/shockwave.sock"
                raise InputError("expected a URL", place="--url", value=url, hint=hint)
            if token is not None and not (token.isascii() and token.isprintable()):
                raise InputError("a token is plain text without spaces", place="--token")
            self._base = self.url
            if token:
                self._headers["Authorization"] = f"Bearer {token}"
            if parts.hostname in _LOCAL:
                handlers.append(ProxyHandler({}))
        self._opener = build_opener(*handlers)

    def get(self, *path: str, **query: Any) -> Any:
        return self._json("GET", path, query)

    def delete(self, *path: str) -> Any:
        return self._json("DELETE", path, {})

    def post(
        self,
        *path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> Any:
        return self._json("POST", path, {}, body, headers, timeout)

    def patch(self, *path: str, body: Any) -> Any:
        return self._json("PATCH", path, {}, body)

    def pages(self, *path: str, limit: int | None = None, **query: Any) -> Iterator[Any]:
        """The items of all pages, up to ``limit`` of them."""
        left = limit
        after = None
        while left is None or left > 0:
            size = PAGE if left is None else min(left, PAGE)
            page = self.get(*path, after=after, limit=size, **query)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return
            if left is not None:
                left -= len(page["items"])

    def stream(self, *path: str, **query: Any) -> Iterator[bytes]:
        """A body as it comes, without a limit of time."""
        with self._open("GET", path, query, timeout=None) as response:
            try:
                while chunk := response.read1(65536):
                    yield chunk
            except (OSError, HTTPException) as error:
                raise SchedulerRefused(
                    f"the connection to {self.url} was lost ({_reason(error)})"
                ) from error

    def _json(
        self,
        method: str,
        path: tuple[str, ...],
        query: Mapping[str, Any],
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> Any:
        with self._open(method, path, query, body, headers, timeout) as response:
            try:
                return json.load(response)
            except (ValueError, OSError, HTTPException) as error:
                raise self._stranger() from error

    def _open(
        self,
        method: str,
        path: tuple[str, ...],
        query: Mapping[str, Any],
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = TIMEOUT_SECONDS,
    ) -> HTTPResponse:
        given = {name: value for name, value in query.items() if value is not None}
        address = "/".join([f"{self._base}/api/v1", *(quote(part, safe="") for part in path)])
        if given:
            address += "?" + urlencode(given, doseq=True)
        data = None if body is None else json.dumps(body).encode()
        request = Request(address, data=data, method=method)
        more = {} if data is None else {"Content-Type": "application/json"}
        for name, value in (self._headers | more | dict(headers or {})).items():
            request.add_header(name, value)
        try:
            response: HTTPResponse = self._opener.open(request, timeout=timeout)
        except HTTPError as error:
            with error:
                refusal = self._refusal(error.code, error)
                tell_if_older(error.headers.get(HEADER))
                raise refusal from error
        except (URLError, OSError, HTTPException, ValueError) as error:
            raise SchedulerRefused(
                f"no scheduler answers at {self.url} ({_reason(error)}). "
                "Start one with 'shockwave serve', or say where it is with --url or SHOCKWAVE_URL"
            ) from error
        tell_if_older(response.headers.get(HEADER))
        return response

    def _refusal(self, status: int, body: IO[bytes]) -> ShockwaveError:
        try:
            problem = json.loads(body.read(65536))
            detail = str(problem["detail"])
        except (ValueError, KeyError, TypeError, OSError, HTTPException):
            return self._stranger()
        if status == 401:
            return SchedulerRefused(f"{detail} Give it with --token or SHOCKWAVE_TOKEN")
        if status in _BAD_INPUT:
            return InputError(detail.removeprefix("body.").removesuffix("."))
        return SchedulerRefused(detail)

    def _stranger(self) -> SchedulerRefused:
        return SchedulerRefused(
            f"what answers at {self.url} is not a Shockwave scheduler; check --url"
        )


def _socket_of_this_machine() -> Path:
    """The first socket at which somebody answers. Raises :class:`SchedulerRefused`."""
    tried = []
    for path in sockets_to_try():
        try:
            connect(path, TIMEOUT_SECONDS).close()
        except OSError as error:
            tried.append(f"{path} ({_reason(error)})")
        else:
            return path
    raise SchedulerRefused(
        f"no scheduler answers on this machine; tried {' and '.join(tried)}. "
        "Start one with 'shockwave serve', or say where it is with --url or SHOCKWAVE_URL"
    )


class _OverSocket(HTTPHandler):
    """HTTP over a Unix socket, whatever the host is called."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def http_open(self, request: Request) -> HTTPResponse:
        path = self._path

        class Connection(HTTPConnection):
            def connect(self) -> None:
                self.sock = connect(path, self.timeout)

        return self.do_open(Connection, request)


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _reason(error: BaseException) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
        return os.strerror(cause.errno)
    return str(cause) or type(cause).__name__


def print_json(document: Any) -> None:
    """As every ``--json`` prints: indented, to standard output."""
    typer.echo(json.dumps(document, indent=1))
