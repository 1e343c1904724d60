"""A scheduler behind HTTP, in this process and on a real socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI
from starlette.testclient import TestClient
from tests.server.scripted import eventually

from shockwave.server.listener import Listener


def local_client(app: FastAPI, token: str | None = None) -> TestClient:
    """A client on this machine; a failure of the server is a response, as for anybody."""
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
def listening(app: FastAPI) -> Iterator[str]:
    """The application on a free port of this machine; yields its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = Listener(app, port=port)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            eventually(lambda: server.started)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()
