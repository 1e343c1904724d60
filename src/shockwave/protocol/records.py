"""What executors and supervisors write down for each other, one class a file.

A job can write in its folder too, so whatever is read may make no sense; then it is not there.

These are named tuples and no dataclasses: GPUs are held while a supervisor loads this, and to
import :mod:`dataclasses` alone takes a third as long as to start Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from .files import read_json, write_json


class Part(NamedTuple):
    """The ranks of a launch on one node, and the environment of each."""

    node: str
    ranks: list[dict[str, str]]


class LaunchRecord(NamedTuple):
    """All that supervisors need to know to run a launch. Times are unix seconds."""

    job: str
    generation: int
    launched: float
    held_before: float  # seconds that earlier launches of the job held their GPUs
    argv: list[str]
    workdir: str
    env: dict[str, str]
    master_addr: str
    parts: list[Part]
    grace_seconds: float
    log_bytes: int
    log_backups: int

    def write(self, path: Path) -> None:
        """One that is lost with the power costs one more launch. Raises :class:`OSError`."""
        parts = [part._asdict() for part in self.parts]
        record = {**self._asdict(), "parts": parts}
        write_json(path, record, durable=False, private=True)  # it has the environment

    @staticmethod
    def read(path: Path) -> LaunchRecord | None:
        record = _known(LaunchRecord, read_json(path))
        with suppress(KeyError, TypeError, ValueError):
            record["parts"] = [Part(**part) for part in record["parts"]]
            record["launched"] = float(record["launched"])
            record["held_before"] = float(record["held_before"])
            return LaunchRecord(**record)
        return None


class ProcessRecord(NamedTuple):
    """Who runs a part. Start times tell a process from a later one with the same number."""

    generation: int
    boot_id: str
    pid: int  # of the supervisor
    start_ticks: int
    ranks: Sequence[int] = ()  # the first leads their process group; empty before they start
    leader_start_ticks: int | None = None

    def write(self, path: Path) -> None:
        """Raises :class:`OSError`."""
        write_json(path, self._asdict(), durable=False)

    @staticmethod
    def read(path: Path) -> ProcessRecord | None:
        record = read_json(path) or {}
        with suppress(KeyError, TypeError, ValueError):
            leader = record["leader_start_ticks"]
            return ProcessRecord(
                generation=int(record["generation"]),
                boot_id=str(record["boot_id"]),
                pid=int(record["pid"]),
                start_ticks=int(record["start_ticks"]),
                ranks=tuple(int(pid) for pid in record["ranks"]),
                leader_start_ticks=None if leader is None else int(leader),
            )
        return None


class ExitRecord(NamedTuple):
    """How a part ended. ``codes`` are negative for signals, empty if no rank was started.

    ``failed`` has the ranks that failed before anybody asked the part to end, with their codes:
    what the others did after that says nothing about the cause.
    """

    generation: int
    node: str
    ended: float  # unix seconds
    codes: Sequence[int] = ()
    failed: Mapping[int, int] = {}  # rank -> code
    asked: bool = False  # it was asked to stop
    killed: bool = False  # by its supervisor, when the grace period was over
    out_of_memory: bool = False  # the system killed some process for want of memory meanwhile
    error: str | None = None  # why the ranks could not be run
    unwatched: str | None = None  # what became of the supervisor, if it did not see the end

    def write(self, path: Path) -> None:
        """Raises :class:`OSError`."""
        write_json(path, self._asdict())

    @staticmethod
    def read(path: Path) -> ExitRecord | None:
        record = _known(ExitRecord, read_json(path))
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            record["ended"] = float(record["ended"])
            record["codes"] = [int(code) for code in record.get("codes", ())]
            failed = record.get("failed", {}).items()
            record["failed"] = {int(rank): int(code) for rank, code in failed}
            return ExitRecord(**record)
        return None

    @property
    def went_well(self) -> bool:
        return self.error is None and bool(self.codes) and not any(self.codes)


def _known(cls: type[NamedTuple], record: dict[str, Any] | None) -> dict[str, Any]:
    """The fields that this version knows: a later one may write more."""
    record = record or {}
    return {name: record[name] for name in cls._fields if name in record}
