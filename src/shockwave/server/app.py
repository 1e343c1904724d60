"""The HTTP application: routes, guards and metrics around one scheduler."""

from __future__ import annotations

from threading import Event
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from prometheus_client import CollectorRegistry
from starlette.middleware import Middleware

from shockwave.server import (
    dashboard_page,
    docs_page,
    problems,
    routes_cluster,
    routes_groups,
    routes_health,
    routes_jobs,
    routes_session,
    routes_views,
    routes_whatif,
)
from shockwave.server.auth import NoForeignPages
from shockwave.server.door import SchedulerDoor
from shockwave.server.event_stream import EventFeed
from shockwave.server.http_metrics import HttpMetrics
from shockwave.server.limits import MIB, BodyLimit
from shockwave.server.metrics import SchedulerMetrics
from shockwave.server.past import Past
from shockwave.server.people import People
from shockwave.server.present import Present
from shockwave.server.sessions import Sessions
from shockwave.server.version_header import VersionHeader
from shockwave.server.whatifs import WhatIfs
from shockwave.version import __version__

_DESCRIPTION = """\
Submit training jobs, see why they run or wait, read what they write.

Times are unix seconds, durations are seconds. Every error is an `application/problem+json`
document. Over the Unix socket you are the user that you are; over TCP send
`Authorization: Bearer TOKEN`. Browsers sign in, and show a cookie and the header `Shockwave-Key`.
"""


def create_app(
    door: SchedulerDoor,
    *,
    people: People | None = None,
    token_hash: str | None = None,
    max_body_bytes: int = MIB,
    fairness_seconds: float = 60.0,
    whatifs: WhatIfs | None = None,
) -> FastAPI:
    """The application in front of a scheduler.

    ``people`` says who may do what; without it, only our own user over the Unix socket, and
    whoever has the operator's token of ``token_hash``. Fairness is computed for the metrics at
    most once in ``fairness_seconds``. Without ``whatifs`` no what-if is answered. Setting
    ``app.state.closing`` ends the responses that would otherwise go on for ever
    (:mod:`shockwave.server.listener` does).
    """
    registry = CollectorRegistry()
    app = FastAPI(
        title="Shockwave",
        version=__version__,
        description=_DESCRIPTION,
        openapi_url=f"{routes_jobs.API}/openapi.json",
        docs_url=None,  # it would load scripts from elsewhere; ours is in docs_page
        redoc_url=None,
        redirect_slashes=False,
        middleware=[  # from the outside in
            Middleware(HttpMetrics, registry=registry),
            Middleware(VersionHeader),
            Middleware(problems.UnexpectedErrors),
            Middleware(NoForeignPages),
            Middleware(BodyLimit, max_body_bytes=max_body_bytes),
        ],
    )
    app.state.door = door
    app.state.people = people or People(token_hash=token_hash)
    app.state.registry = registry
    app.state.metrics = SchedulerMetrics(door, registry, fairness_seconds=fairness_seconds)
    app.state.feed = EventFeed(door)
    app.state.whatifs = whatifs
    app.state.closing = Event()
    app.state.sessions = Sessions()
    app.state.address = None  # the listener knows
    app.state.present = Present(door, app.state.closing)
    app.state.past = Past(door)
    problems.install(app)
    app.include_router(routes_groups.router)  # before /jobs/{job}, which its paths would fit
    app.include_router(routes_jobs.router)
    app.include_router(routes_cluster.router)
    app.include_router(routes_session.router)
    app.include_router(routes_views.router)
    app.include_router(routes_whatif.router)
    app.include_router(routes_health.router)
    app.include_router(dashboard_page.router)
    app.include_router(docs_page.router)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
        )
        schema = problems.Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        document["components"]["schemas"] |= schema.pop("$defs") | {"Problem": schema}
        app.openapi_schema = document
    return app.openapi_schema
