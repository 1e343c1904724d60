"""What a job says about itself: lines of JSON that it appends while it runs.

A job may write anything. Lines that make no sense are passed over, and a line that is not
complete yet waits for its end.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shockwave.executors.gangs.supervisor.files import open_plain

logger = logging.getLogger(__name__)

EVENTS = ("started", "epoch", "regime", "stopped", "done")
_CHUNK_BYTES = 1 << 20
_LONGEST_LINE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Report:
    """``epoch`` counts from the job's beginning, ``time`` is unix seconds."""

    event: str
    time: float
    epoch: int
    configuration: int | None = None
    seconds: float | None = None


class ReportFile:
    """Reads a growing file, every line once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._warned = False

    def new(self) -> Iterator[Report]:
        """The reports that were added since the last call."""
        while True:
            try:
                with open_plain(self._path) as file:
                    file.seek(self._offset)
                    data = file.read(_CHUNK_BYTES)
            except OSError:
                return  # not there yet, or nothing that a job should put there
            if not data:
                return
            self._offset += len(data)
            *lines, rest = (self._rest + data).split(b"\n")
            self._rest = rest if len(rest) <= _LONGEST_LINE_BYTES else b""
            for line in lines:
                report = parse(line)
                if report is not None:
                    yield report
                elif line.strip() and not self._warned:
                    self._warned = True
                    logger.warning("%s holds a line that is no report: %r", self._path, line[:80])


def parse(line: bytes) -> Report | None:
    """The report in a line; None if it makes no sense.

    >>> parse(b'{"event": "epoch", "time": 5, "epoch": 2, "configuration": 32, "seconds": 1.5}')
    Report(event='epoch', time=5.0, epoch=2, configuration=32, seconds=1.5)
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.get("event") not in EVENTS:
        return None
    time, epoch = _number(record.get("time")), _number(record.get("epoch"))
    if time is None or epoch is None or not 0 <= epoch < 2**53 or epoch != int(epoch):
        return None
    seconds = _number(record.get("seconds"))
    configuration = _number(record.get("configuration"))
    return Report(
        event=record["event"],
        time=time,
        epoch=int(epoch),
        configuration=None if configuration is None else int(configuration),
        seconds=seconds if seconds is not None and seconds >= 0 else None,
    )


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
