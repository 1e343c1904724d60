"""The dashboard: one page for all its addresses, and the files that it is made of.

They are plain files of this package, served as they are: nothing is built and nothing is loaded
from elsewhere. What the page shows it asks for over the API, after somebody has signed in, so
the files themselves are for everybody.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from fastapi import APIRouter, Request, Response

from shockwave.measure.charts import stylesheet
from shockwave.server.problems import ProblemError

router = APIRouter(include_in_schema=False)
_PAGES = ("/", "/queue", "/jobs/{job}", "/plan", "/fairness", "/history")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# No script, style, picture or connection but our own, and no text that becomes code.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-cache",  # asked for again, and not sent again if it is the same
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    compressed: bytes
    media_type: str
    tag: str


@lru_cache
def _files() -> dict[str, _File]:
    """By name; the style of the report is the base of ours."""
    report = resources.files("shockwave.measure").joinpath("report.css").read_text("utf-8")
    contents = {"report.css": f"{stylesheet()}\n{report}".encode()}
    for item in resources.files("shockwave.server").joinpath("dashboard").iterdir():
        if item.is_file():
            contents[item.name] = item.read_bytes()
    return {name: _file(name, content) for name, content in contents.items()}


def _file(name: str, content: bytes) -> _File:
    kind = _TYPES.get(name[name.rfind(".") :], "application/octet-stream")
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return _File(content, gzip.compress(content, mtime=0), kind, tag)


def _answer(request: Request, file: _File) -> Response:
    headers = {**_HEADERS, "ETag": file.tag}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(file.compressed, media_type=file.media_type, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


@router.get("/assets/{name}")
async def asset(request: Request, name: str) -> Response:
    file = _files().get(name)
    if file is None:
        raise ProblemError(404, "not-found", f"There is no file {name!r}.")
    return _answer(request, file)


async def _page(request: Request) -> Response:
    return _answer(request, _files()["index.html"])


for _path in _PAGES:
    router.add_api_route(_path, _page, methods=["GET"])
