"""For those who watch the service: is it alive, is it ready, what are its figures."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from shockwave.server.auth import operator
from shockwave.server.pages import Status
from shockwave.server.problems import ProblemError, responses
from shockwave.server.routes_jobs import Scheduler, document

router = APIRouter(tags=["health"])


@router.get("/healthz", operation_id="isAlive", summary="Is it alive?", response_model=Status)
async def is_alive() -> Response:
    """Answers whenever the process can. Needs no token and tells nothing."""
    return document(Status(status="ok"))


@router.get(
    "/readyz",
    operation_id="isReady",
    summary="Are rounds being scheduled?",
    response_model=Status,
    responses=responses(503),
)
def is_ready(door: Scheduler) -> Response:
    """503 while it starts, and when the scheduler has stopped. Needs no token."""
    ready, why = door.is_ready()
    if not ready:
        raise ProblemError(503, "not-ready", why)
    return document(Status(status="ok", detail=why))


@router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Figures for Prometheus",
    response_class=Response,
    dependencies=[Depends(operator)],
    responses={
        200: {
            "description": "The text format of Prometheus.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **responses(401, 403),
    },
)
def get_metrics(request: Request) -> Response:
    """Counted from the journal when asked for, so this may take a moment the first time."""
    request.app.state.metrics.refresh()
    return Response(generate_latest(request.app.state.registry), media_type=CONTENT_TYPE_LATEST)
