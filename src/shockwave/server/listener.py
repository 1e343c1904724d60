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
        # An answer is several small writes. asyncio lets them go at once only on sockets that
        # were made with the protocol named; on others each answer would wait 40 ms for an
        # acknowledgement. What is accepted inherits the setting.
        for listening in sockets or ():
            if listening.family in (socket.AF_INET, socket.AF_INET6):
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing.set()
        await super().shutdown(sockets)
