"""The journal as server-sent events: any number of readers, one thread that waits for all."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from threading import Event
from typing import Any

from starlette.concurrency import run_in_threadpool

from shockwave.server.door import SchedulerDoor

BATCH = 500
KEEP_ALIVE_SECONDS = 15.0
GLANCE_SECONDS = 1.0


class EventFeed:
    """Wakes the readers of the journal.

    Waiting blocks a thread. Readers share one, or a few dozen of them would take all the
    threads that answer requests.
    """

    def __init__(self, door: SchedulerDoor) -> None:
        self._door = door
        self._watch: asyncio.Task[bool] | None = None
        self._watched_after = 0

    async def wait(self, after: int) -> None:
        """Returns when there is an event after that number, at the latest after a second."""
        if self._watch is None or self._watch.done():
            self._watched_after = after
            self._watch = asyncio.create_task(
                asyncio.to_thread(self._door.wait_for_events, after, GLANCE_SECONDS)
            )
        elif self._watched_after > after:
            return  # somebody has seen an event of a higher number, so there is one
        await asyncio.shield(self._watch)  # one reader that leaves must not end it for all


async def stream_events(
    door: SchedulerDoor,
    feed: EventFeed,
    closing: Event,
    *,
    after: int,
    follow: bool,
    shown: Callable[[dict[str, Any]], dict[str, Any] | None],
) -> AsyncIterator[bytes]:
    """Events after that number; goes on as they happen if ``follow``, until the server closes.

    ``shown`` says what the reader may see of a record, None if nothing.
    """

    def read(after: int) -> tuple[int, bytes]:
        batch = door.events(after, BATCH)
        seen = [(number, shown(record)) for number, record in batch]
        text = b"".join(_encoded(number, record) for number, record in seen if record is not None)
        return batch[-1][0] if batch else after, text

    yield b"retry: 2000\n\n"
    sent = time.monotonic()
    while not closing.is_set():
        last, text = await run_in_threadpool(read, after)
        if text:
            sent = time.monotonic()
            yield text
        if last > after:
            after = last
            continue
        if not follow:
            return
        if time.monotonic() - sent > KEEP_ALIVE_SECONDS:
            sent = time.monotonic()
            yield b": still here\n\n"
        await feed.wait(after)


def _encoded(number: int, record: dict[str, Any]) -> bytes:
    data = json.dumps(record, separators=(",", ":"))
    return f"id: {number}\nevent: {record.get('kind', 'event')}\ndata: {data}\n\n".encode()
