"""The folder of a job as an executor uses it: it also writes there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from shockwave.model.errors import ExecutorError
from shockwave.protocol.files import write_json
from shockwave.protocol.lease import Lease
from shockwave.protocol.locks import is_held
from shockwave.protocol.paths import JobPaths
from shockwave.protocol.records import LaunchRecord


class JobFolder(JobPaths):
    """What is written raises :class:`ExecutorError` naming the path."""

    __slots__ = ()

    def create(self) -> None:
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ExecutorError(f"{self.path} cannot be created: {error}") from error

    def write_lease(self, lease: Lease, *, durable: bool = True) -> None:
        """Not ``durable`` where losing it to a power failure costs nothing."""
        path = self.lease_file
        self._write(path, lambda: write_json(path, lease._asdict(), durable=durable))

    def write_launch(self, record: LaunchRecord) -> None:
        path = self.launch_file(record.generation)
        self._write(path, lambda: record.write(path))

    def user(self) -> int | None:
        """Whose the folder is, where we are root and it is another's; None otherwise."""
        if os.geteuid() != 0:
            return None
        try:
            return self.path.stat(follow_symlinks=False).st_uid or None
        except FileNotFoundError:
            return None

    def has_ended(self, generation: int, part: int) -> bool:
        return self.exit_file(generation, part).exists()

    def forget_launches_before(self, generation: int) -> None:
        """Removes what only a running launch needs; how it ended stays."""
        for number in self.launched_generations():
            if number < generation and not is_held(self.alive_lock(number)):
                self.alive_lock(number).unlink(missing_ok=True)
                self.launch_file(number).unlink(missing_ok=True)

    def _write(self, path: Path, write: Callable[[], None]) -> None:
        try:
            try:
                write()
            except FileNotFoundError:  # a job may have removed its own folder
                self.create()
                write()
        except OSError as error:
            raise ExecutorError(f"{path} cannot be written: {error}") from error
