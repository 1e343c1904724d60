"""The application on a socket."""

from __future__ import annotations

import socket

import uvicorn
from fastapi import FastAPI

GRACE_SECONDS = 5


class Listener(uvicorn.Server):
    """Serves an application, and ends its endless responses before it waits for the last one."""

    def __init__(self, app: FastAPI, *, host: str = "127.0.0.1", port: int = 7410) -> None:
        self._closing = app.state.closing
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                log_config=None,  # logging is the caller's
                access_log=False,
                server_header=False,
                lifespan="off",
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(None if sockets is None else [_as_tcp(item) for item in sockets])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing.set()
        await super().shutdown(sockets)


def _as_tcp(listening: socket.socket) -> socket.socket:
    """The same socket with its protocol named.

    An answer is several small writes, and asyncio lets them go at once only where the protocol
    is named, as it is not by default. Elsewhere every answer would wait 40 ms for an
    acknowledgement.
    """
    if listening.family not in (socket.AF_INET, socket.AF_INET6):
        return listening
    descriptor = socket.dup(listening.fileno())
    return socket.socket(listening.family, listening.type, socket.IPPROTO_TCP, descriptor)
