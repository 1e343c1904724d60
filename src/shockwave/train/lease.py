"""Reading the lease that the scheduler writes beside a running job."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run. ``checkpoint`` counts the checkpoints that were asked for."""

    generation: int
    lease_end: float
    stop: bool
    checkpoint: int


class LeaseFile:
    """A ``lease.json`` that is parsed only when it changed.

    The scheduler replaces the file atomically, so each version is a new inode. A file that is
    missing or cannot be read leaves the last known lease in force: the scheduler may be down,
    and running on is better than idling.
    """

    def __init__(
        self,
        path: Path,
        *,
        glance_seconds: float = 0.2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._glance_seconds = glance_seconds
        self._clock = clock
        self._looked_at = float("-inf")
        self._signature: tuple[int, int, int] | None = None
        self._lease: Lease | None = None

    def glance(self) -> Lease | None:
        """The lease, at most ``glance_seconds`` old: cheap enough for every training step."""
        if self._clock() - self._looked_at >= self._glance_seconds:
            self.read()
        return self._lease

    def read(self) -> Lease | None:
        """The lease as it is now, or the last one known; None if there never was one."""
        self._looked_at = self._clock()
        try:
            status = os.stat(self._path)
        except OSError:
            return self._lease
        signature = (status.st_ino, status.st_mtime_ns, status.st_size)
        if signature == self._signature:
            return self._lease
        try:
            self._lease = _parse(self._path.read_text(encoding="utf-8"))
        except OSError:
            return self._lease  # looked at again next time
        except (ValueError, TypeError, KeyError) as error:
            logger.warning("%s cannot be read, the last known lease stands: %s", self._path, error)
        self._signature = signature
        return self._lease


def _parse(text: str) -> Lease:
    record = json.loads(text)
    return Lease(
        generation=int(record["generation"]),
        lease_end=float(record.get("lease_end", float("inf"))),
        stop=bool(record.get("stop", False)),
        checkpoint=int(record.get("checkpoint", 0)),
    )
