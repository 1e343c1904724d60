"""Requests, counted and timed by route for Prometheus."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.5, 1.0, 3.0, 10.0)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class HttpMetrics:
    """Counts requests, and takes the time until the response begins.

    Routes go by their pattern and what matches none by ``none``, so that nobody can make series
    grow by asking for things that do not exist.
    """

    def __init__(self, app: ASGIApp, *, registry: CollectorRegistry) -> None:
        self._app = app
        self._requests = Counter(
            "shockwave_http_requests_total",
            "Requests by method, route and status.",
            ["method", "route", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "shockwave_http_request_seconds",
            "Seconds from a request to the beginning of its response.",
            ["method", "route"],
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                method = scope["method"] if scope["method"] in _METHODS else "other"
                route = getattr(scope.get("route"), "path", "none")
                self._requests.labels(method, route, message["status"]).inc()
                self._seconds.labels(method, route).observe(time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, counted)
