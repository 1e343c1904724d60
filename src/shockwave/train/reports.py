"""What a job tells the scheduler: one JSON object a line, appended."""

from __future__ import annotations

import json
import logging
import math
import os
from pathlib import Path

logger = logging.getLogger(__name__)


class ReportLog:
    """Keeps reports in memory, and appends them to a file where there is one.

    A line is one write, so a reader never sees half of one followed by another. A disk that is
    full costs the report, not the training: the failure is logged.
    """

    def __init__(self, path: Path | None) -> None:
        self.records: list[dict[str, object]] = []
        self._path = path
        self._descriptor: int | None = None
        self._torn = False

    def append(self, record: dict[str, object], *, durable: bool = False) -> None:
        """Adds a report; ``durable`` ones reach the disk before this returns."""
        clean = {key: _finite(value) for key, value in record.items()}
        self.records.append(clean)
        if self._path is None:
            return
        line = (json.dumps(clean, separators=(",", ":")) + "\n").encode()
        try:
            if self._descriptor is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                self._descriptor = os.open(self._path, flags, 0o644)
            # A line that was cut off by a full disk must not swallow the next one.
            line = b"\n" + line if self._torn else line
            self._torn = os.write(self._descriptor, line) < len(line)
            if durable:
                os.fsync(self._descriptor)
        except OSError as error:
            logger.warning("report to %s was lost: %s", self._path, error)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _finite(value: object) -> object:
    """JSON knows neither NaN nor infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
