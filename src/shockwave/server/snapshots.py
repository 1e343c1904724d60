"""Snapshots of the state on disk: versioned, checksummed, written whole or not at all.

A file is one line of JSON and a block of bytes. The line says which version of the format this
is, which event of which journal the block belongs to, and the SHA-256 of that event and of the
block. The newest good one is used; one that is damaged, or of a journal that went another way, is
passed over with a warning.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shockwave.engine import snapshot
from shockwave.engine.state import SchedulerState
from shockwave.protocol.files import atomic_bytes
from shockwave.server.projection import Projection
from shockwave.server.store import Store

FORMAT = 2
_KEPT = 3
Snapshot = tuple[SchedulerState, Projection]
logger = logging.getLogger(__name__)


class Snapshots:
    """The snapshots of one journal, in one folder."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder = folder
        self._store = store

    def save(self, state: SchedulerState, projection: Projection) -> None:
        """Both are of the same event."""
        number = projection.sequence_number
        block = snapshot.dump(state, projection.dump())
        header = {
            "format": FORMAT,
            "origin_unix": self._store.started_unix(),
            "event": number,
            "event_sha256": self._event_sha256(number),
            "sha256": hashlib.sha256(block).hexdigest(),
        }
        self._folder.mkdir(exist_ok=True, mode=0o700)
        with atomic_bytes(self._path(number)) as file:
            file.write(json.dumps(header).encode() + b"\n")
            file.write(block)
        found = self._newest_first()
        ahead = [path for event, path in found if event > number]  # of a journal put back
        for path in (*ahead, *(path for _, path in found[len(ahead) + _KEPT :])):
            path.unlink(missing_ok=True)

    def newest(self, last_event: int) -> Snapshot | None:
        """The newest good snapshot that is not ahead of the journal."""
        for path, found in self.all(last_event):
            if not isinstance(found, Exception):
                return found
            logger.warning("%s cannot be used: %s", path, found)
        return None

    def all(self, last_event: int) -> Iterator[tuple[Path, Snapshot | Exception]]:
        """Those that are not ahead of the journal, newest first; or why one cannot be used."""
        for number, path in self._newest_first():
            if number <= last_event:
                try:
                    yield path, self._load(path)
                except FileNotFoundError:
                    pass  # a scheduler that runs has a newer one now
                except Exception as error:  # whatever damage leads to
                    yield path, error

    def oldest_event(self) -> int:
        """The event of the oldest snapshot that is kept; 0 if there is none."""
        numbers = [number for number, _ in self._newest_first()]
        return numbers[-1] if numbers else 0

    def _load(self, path: Path) -> Snapshot:
        line, _, block = path.read_bytes().partition(b"\n")
        header: dict[str, Any] = json.loads(line)
        if header["format"] != FORMAT:
            raise ValueError(f"it has format {header['format']}, this program knows {FORMAT}")
        if header["origin_unix"] != self._store.started_unix() or header[
            "event_sha256"
        ] != self._event_sha256(header["event"]):
            raise ValueError("it belongs to another journal")
        if hashlib.sha256(block).hexdigest() != header["sha256"]:
            raise ValueError("it is damaged: its checksum is wrong")
        state, extra = snapshot.load(block)
        return state, Projection.load(extra)

    def _event_sha256(self, number: int) -> str:
        return hashlib.sha256(self._store.line(number) or b"").hexdigest()

    def _path(self, number: int) -> Path:
        return self._folder / f"snapshot-{number:012d}"

    def _newest_first(self) -> list[tuple[int, Path]]:
        return sorted(self._numbered(), reverse=True)

    def _numbered(self) -> Iterator[tuple[int, Path]]:
        for path in self._folder.glob("snapshot-*"):
            number = path.name.removeprefix("snapshot-")
            if number.isdigit():
                yield int(number), path
