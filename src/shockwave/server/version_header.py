"""Every answer says which version gave it, so that a newer client can say what is wrong."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shockwave.version import __version__

VERSION_HEADER = "Shockwave-Version"


class VersionHeader:
    """A layer around the application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                header = (VERSION_HEADER.lower().encode(), __version__.encode())
                message = {**message, "headers": [*message.get("headers", ()), header]}
            await send(message)

        await self._app(scope, receive, marked if scope["type"] == "http" else send)
