"""A scheduler behind HTTP, in this process and on a real socket."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.server.scripted import eventually

from shockwave.server.auth import PEER_UID
from shockwave.server.listener import Listener, url_of


def local_client(app: FastAPI, token: str | None = None) -> TestClient:
    """A client on this machine; a failure of the server is a response, as for anybody."""
    _without_tokens_as_over_the_unix_socket(app)
    client = TestClient(
        app,
        base_url="http://127.0.0.1:7410",
        client=("127.0.0.1", 50_000),
        raise_server_exceptions=False,
    )
    if token is not None:
        client.headers["Authorization"] = f"Bearer {token}"
    return client


@contextmanager
def listening(app: FastAPI, at: socket.socket | None = None) -> Iterator[str]:
    """The application on a free port of this machine, or elsewhere; yields its URL."""
    _without_tokens_as_over_the_unix_socket(app)
    with at or socket.create_server(("127.0.0.1", 0)) as listener:
        server = Listener(app)
        url = url_of(listener) if at is None else ""
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            eventually(lambda: server.started)
            yield url
        finally:
            server.should_exit = True
            thread.join()


def _without_tokens_as_over_the_unix_socket(app: FastAPI) -> None:
    """Where an application knows no token, its clients are the user that runs it."""
    if not app.state.people.has_tokens:
        app.add_middleware(_OfThisUser)


class _OfThisUser:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["state"] = {**scope.get("state", {}), PEER_UID: os.geteuid()}
        await self._app(scope, receive, send)
