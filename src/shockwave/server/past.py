"""Past days for everybody who asks: each read once from the journal, by a process of its own."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from shockwave.server.door import SchedulerDoor
from shockwave.server.problems import ProblemError
from shockwave.server.view_records import DayRecord

if TYPE_CHECKING:
    from shockwave.server.past_day import Asked

LAST = "last"
FRESH_SECONDS = 60.0  # how long a day is shown as it was read, while it goes on
_DAY_SECONDS = 86_400.0
_LOOKBACK_SECONDS = 7 * _DAY_SECONDS
_PATIENCE_SECONDS = 300.0
_DAYS_KEPT = 32


@dataclass(frozen=True, slots=True)
class _Read:
    record: DayRecord
    at: float
    complete: bool


class Past:
    """Days by name. Belongs to one event loop."""

    def __init__(self, door: SchedulerDoor) -> None:
        self._door = door
        self._days: dict[str, _Read] = {}
        self._reading: dict[str, asyncio.Task[DayRecord]] = {}

    async def day(self, day: str) -> DayRecord | None:
        """The day, or the last 24 hours; None where the journal has nothing of it."""
        began, now = await asyncio.to_thread(self._door.span)
        bounds = _bounds(day, began, now)
        if bounds is None:
            return None
        known = self._days.get(day)
        if known is not None and (known.complete or now - known.at < FRESH_SECONDS):
            return known.record
        task = self._reading.get(day)
        if task is None or task.done():
            task = asyncio.create_task(self._read(day, bounds, began, now))
            self._reading[day] = task
        return await asyncio.shield(task)  # one reader that leaves must not end it for all

    async def bounds(self) -> tuple[str, str]:
        """The first and the last day of the journal."""
        began, now = await asyncio.to_thread(self._door.span)
        return _name(began), _name(now)

    async def _read(
        self, day: str, bounds: tuple[float, float], began: float, now: float
    ) -> DayRecord:
        from shockwave.server.past_day import Asked

        def asked() -> Asked:
            return Asked(
                day=day,
                begin=bounds[0],
                end=min(bounds[1], now),
                lookback_seconds=_LOOKBACK_SECONDS,
                first_day=_name(began),
                last_day=_name(now),
                origin=began,
                **self._door.for_the_past(),
            )

        try:
            text = await _in_a_process(await asyncio.to_thread(asked))
            record = DayRecord.model_validate_json(text)
        finally:
            del self._reading[day]
        while len(self._days) >= _DAYS_KEPT:
            del self._days[next(iter(self._days))]
        self._days.pop(day, None)
        self._days[day] = _Read(record, now, complete=bounds[1] < now)
        return record


async def _in_a_process(asked: Asked) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "shockwave.server.past_day",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            text, _ = await process.communicate(asked.model_dump_json().encode())
    except TimeoutError:
        text = b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise ProblemError(503, "not-read", "The journal could not be read; the log says more.")
    return text


def _bounds(day: str, began: float, now: float) -> tuple[float, float] | None:
    """When a day begins and ends, unix seconds; None where there is nothing of it."""
    if day == LAST:
        begin = max(now - _DAY_SECONDS, min(began, now - 60.0))
        return begin, now
    try:
        midnight = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
    begin, end = midnight.timestamp(), (midnight + timedelta(days=1)).timestamp()
    return (max(begin, began), end) if end > began and begin <= now else None


def _name(unix: float) -> str:
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%d")
