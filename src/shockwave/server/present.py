"""What is now, for everybody who looks: made once, and sent to each as what changed for them.

Any number of dashboards wait for one thread that looks at the scheduler after something happened,
once a second at most and less often where a look takes long. Of every job there is one line of
JSON, made again only when the job's record has changed; who may see less gets another line.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from threading import Event, Lock

from pydantic import BaseModel

from shockwave.server.door import SchedulerDoor
from shockwave.server.records import JobRecord
from shockwave.server.redaction import public_record

KEEP_ALIVE_SECONDS = 15.0
PAUSE_SECONDS = 1.0
_REST = 20.0  # times as long as a look took: looking takes a twentieth of a processor at most
_LONGEST_ROUND_SECONDS = 10.0  # that is waited for
_GLANCE_SECONDS = 0.1
_GONE_KEPT = 20_000
_SHOWN = {
    "id", "name", "state", "owner", "tenant", "group", "model", "gpus", "epochs", "epochs_done",
    "configuration", "adaptation", "submitted", "started", "starts", "crashes", "preemptions",
    "slots", "starting", "note", "held", "weight", "silent_since", "why",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks: operators see all, others what is public of others' jobs, or nothing of them."""

    owner: str
    operator: bool
    private_queue: bool

    def owns(self, owner: str) -> bool:
        return self.operator or (bool(owner) and owner == self.owner)

    def knows_of(self, owner: str) -> bool:
        return not self.private_queue or self.owns(owner)


class _Row:
    """A job's line, and since which version it is so."""

    __slots__ = ("_public", "own", "owner", "record", "version")

    def __init__(self, record: JobRecord, own: bytes, version: int) -> None:
        self.record, self.own, self.version = record, own, version
        self.owner = record.owner
        self._public: bytes | None = None

    def seen_by(self, viewer: Viewer) -> bytes | None:
        if viewer.owns(self.owner):
            return self.own
        if not viewer.knows_of(self.owner):
            return None
        if self._public is None:
            self._public = _line(public_record(self.record))
        return self._public


class Present:
    """Versions of the present. Streams belong to one event loop; looking happens in a thread."""

    def __init__(
        self, door: SchedulerDoor, closing: Event, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._door = door
        self._closing = closing
        self._clock = clock
        self._looking = Lock()
        self._seen = -1  # the last event of which all is shown
        self._version = 0
        self._rows: dict[str, _Row] = {}
        self._gone: deque[tuple[int, str, str]] = deque(maxlen=_GONE_KEPT)  # version, id, owner
        self._forgotten = 0  # the version of the last job that is gone from ``_gone``, too
        self._parts: dict[str, tuple[int, bytes]] = {}  # nodes, round, totals: since when, text
        self._look_seconds = 0.0
        self._watch: asyncio.Task[None] | None = None

    # Looking.

    def look(self) -> None:
        """Takes in what changed. One looks, whoever comes meanwhile has seen it then."""
        with self._looking:
            last = self._door.last_event()
            if last == self._seen:
                return
            began = self._clock()
            version = self._version + 1
            plan = self._door.plan()
            self._take_jobs(plan.jobs, version)
            self._take("round", b"null" if plan.round is None else _text(plan.round), version)
            nodes = b",".join(_text(node) for node in self._door.nodes())
            self._take("nodes", b"[" + nodes + b"]", version)
            self._take("totals", _text(self._door.totals()), version)
            self._version, self._seen = version, last
            self._look_seconds = self._clock() - began

    def _take_jobs(self, records: list[JobRecord], version: int) -> None:
        rows: dict[str, _Row] = {}
        for record in records:
            known = self._rows.get(record.id)
            if known is not None and known.record is record:
                rows[record.id] = known
                continue
            line = _line(record)
            same = known is not None and known.own == line
            since = known.version if known is not None and same else version
            rows[record.id] = _Row(record, line, since)
        for job in self._rows.keys() - rows.keys():
            if len(self._gone) == _GONE_KEPT:
                self._forgotten = self._gone[0][0]
            self._gone.append((version, job, self._rows[job].owner))
        self._rows = rows

    def _take(self, name: str, text: bytes, version: int) -> None:
        if self._parts.get(name, (0, b""))[1] != text:
            self._parts[name] = (version, text)

    # Telling.

    def changes(self, viewer: Viewer, after: int) -> tuple[int, bytes]:
        """What a viewer has not seen who has seen version ``after``, and the version now."""
        with self._looking:
            version = self._version
            everything = after <= self._forgotten or after > version
            since = 0 if everything else after
            lines = [
                line
                for row in self._rows.values()
                if row.version > since and (line := row.seen_by(viewer)) is not None
            ]
            gone = [
                job
                for at, job, owner in self._gone
                if not everything and at > since and viewer.knows_of(owner)
            ]
            parts = b"".join(
                b',"%s":%s' % (name.encode(), text)
                for name, (at, text) in self._parts.items()
                if at > since
            )
        head = b'{"version":%d,"all":%s,"gone":%s' % (
            version, b"true" if everything else b"false", json.dumps(gone).encode(),
        )  # fmt: skip
        return version, head + b',"jobs":[' + b",".join(lines) + b"]" + parts + b"}"

    async def stream(self, viewer: Viewer, *, follow: bool) -> AsyncIterator[bytes]:
        """All there is to see, and then what changes, as server-sent events."""
        seen, sent = -1, self._clock()
        yield b"retry: 2000\n\n"
        while not self._closing.is_set():
            await self._watched(at_once=seen < 0)
            if seen != self._version:
                seen, text = self.changes(viewer, seen)
                sent = self._clock()
                yield b"id: %d\nevent: present\ndata: %s\n\n" % (seen, text)
            elif self._clock() - sent > KEEP_ALIVE_SECONDS:
                sent = self._clock()
                yield b": still here\n\n"
            if not follow:
                return

    async def _watched(self, *, at_once: bool) -> None:
        """Returns after a look, or after a second in which nothing happened."""
        if at_once and self._version > 0:
            return  # what the others see will do until the next look
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._next_look())
        await asyncio.shield(self._watch)  # one reader that leaves must not end it for all

    async def _next_look(self) -> None:
        if self._version > 0:
            await asyncio.sleep(max(PAUSE_SECONDS, _REST * self._look_seconds))
            changed = await asyncio.to_thread(self._door.wait_for_events, self._seen, PAUSE_SECONDS)
            if not changed:
                return
            await self._after_the_round()
        await asyncio.to_thread(self.look)

    async def _after_the_round(self) -> None:
        """A round that is due goes first; we look at what came of it."""
        give_up = self._clock() + _LONGEST_ROUND_SECONDS
        while self._door.round_is_due() and self._clock() < give_up:
            await asyncio.sleep(_GLANCE_SECONDS)


def _line(record: JobRecord) -> bytes:
    return record.model_dump_json(include=_SHOWN, exclude_defaults=True).encode()


def _text(record: BaseModel) -> bytes:
    return record.model_dump_json().encode()
