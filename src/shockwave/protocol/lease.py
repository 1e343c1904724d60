"""The lease: which launch of a job may run, and whether it is to stop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .files import read_json


class Lease(NamedTuple):
    """The right to run. It belongs to one launch, the one with this ``generation``.

    Generations count a job's launches from 1, so a higher one in the lease means that an older
    launch was replaced: it may no longer write anything.
    """

    generation: int
    stop: bool = False

    def ends(self, generation: int) -> bool:
        """Whether that launch has to stop: it was asked to, or was replaced."""
        return self.generation > generation or (self.generation == generation and self.stop)

    @staticmethod
    def read(path: Path) -> Lease | None:
        """None if the file is missing or makes no sense."""
        record = read_json(path) or {}
        generation = record.get("generation")
        if not isinstance(generation, int) or isinstance(generation, bool):
            return None
        return Lease(generation, bool(record.get("stop", False)))


class LeaseFile:
    """A lease that is read only when its file has changed.

    The scheduler replaces the file, so each version is a new inode. A file that is missing or
    cannot be read leaves the last known lease in force: the scheduler may be down, and running
    on is better than idling.
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
        if signature != self._signature:
            lease = Lease.read(self._path)
            if lease is not None:
                self._signature, self._lease = signature, lease
        return self._lease
