"""What a job says about itself: one JSON object a line, appended while it runs.

A job may write anything. Lines that make no sense are passed over, and a line that is not
complete yet waits for its end.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .files import open_plain

logger = logging.getLogger(__name__)

EVENTS = ("started", "epoch", "regime", "saved", "metrics", "link", "stopped", "done")
# These say nothing about progress.
REMARKS = ("metrics", "link")
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


class ReportWriter:
    """Appends reports to a file, and keeps them in memory; only that if there is no file.

    A line is one write, so a reader never sees half of one followed by another. A disk that is
    full costs the report, not the training: the failure is logged.
    """

    def __init__(self, path: Path | None) -> None:
        self.records: list[dict[str, object]] = []
        self._path = path
        self._descriptor: int | None = None
        self._torn = False

    def append(self, record: Mapping[str, object], *, durable: bool = False) -> None:
        """Adds a report; ``durable`` ones reach the disk before this returns."""
        clean = {key: _finite(value) for key, value in record.items()}
        self.records.append(clean)
        if self._path is None:
            return
        try:
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                self._descriptor = os.open(self._path, flags, 0o644)
            # A line that was cut off by a full disk must not swallow the next one.
            line = (b"\n" if self._torn else b"") + line_of(clean)
            self._torn = os.write(self._descriptor, line) < len(line)
            if durable:
                os.fsync(self._descriptor)
        except OSError as error:
            logger.warning("report to %s was lost: %s", self._path, error)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class ReportReader:
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


def line_of(record: Mapping[str, object]) -> bytes:
    """A report as the line that is appended."""
    return (json.dumps(record, separators=(",", ":")) + "\n").encode()


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


def _finite(value: object) -> object:
    """JSON knows neither NaN nor infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
