"""How much a client may send: counted while it arrives, refused before it is in memory."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shockwave.server.problems import ProblemError, ProblemResponse

MIB = 1024 * 1024


class BodyLimit:
    """Answers 413 to a body above ``max_body_bytes``.

    A length that is declared is judged before a byte of the body is read. Where none is
    declared (chunks), the count stops the reading as soon as it is exceeded. Either way the
    connection closes: what the client goes on to send is nobody's.
    """

    def __init__(self, app: ASGIApp, *, max_body_bytes: int) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        # isdecimal alone also holds for digits of other scripts, which no length is written in.
        if declared.isascii() and declared.isdecimal() and _exceeds(declared, self._max_body_bytes):
            refusal = ProblemResponse(
                scope, 413, "body-too-large", self._detail(), headers={"Connection": "close"}
            )
            await refusal(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            if message["type"] == "http.request":
                received += len(message.get("body", b""))
                if received > self._max_body_bytes:
                    raise ProblemError(
                        413, "body-too-large", self._detail(), {"Connection": "close"}
                    )
            return message

        await self._app(scope, counted, send)

    def _detail(self) -> str:
        return f"A body may have {self._max_body_bytes:,} bytes, and no more."


def _exceeds(digits: str, limit: int) -> bool:
    """Compares without making an integer of a thousand digits."""
    significant = digits.lstrip("0") or "0"
    return len(significant) > 18 or int(significant) > limit
