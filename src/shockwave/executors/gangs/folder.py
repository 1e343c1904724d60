"""The folder through which the executor and one job speak to each other.

::

    lease.json                  the right to run, for the job to read
    launch-<generation>.json    what the supervisors of that launch run, one part a node
    alive-<generation>.lock     held while any process of that launch lives, on one machine
    rendezvous-<generation>.json  where the ranks of that launch meet, if on several nodes
    process-<part>.json         who runs: process ids with their start times
    exit-<generation>-<part>.json  how that part of that launch ended
    reports-<generation>.jsonl  what the job reported
    checkpoints/                what the job saved
    logs/rank-<r>.log[.1 ...]   what the ranks wrote, rotated; supervisor.log beside them
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shockwave.executors.gangs.names import file_name
from shockwave.executors.gangs.supervisor.files import read_json, write_json
from shockwave.executors.gangs.supervisor.locks import is_held
from shockwave.model.errors import ExecutorError

_CHECKPOINT = re.compile(r"ckpt-g(\d+)-e(\d+)-(\d+)\..+")
_REPORTS = re.compile(r"reports-(\d+)\.jsonl")
_ALIVE = re.compile(r"alive-(\d+)\.lock")
_LAUNCH = re.compile(r"launch-(\d+)\.json")


@dataclass(frozen=True, slots=True)
class Lease:
    """``lease_end`` in unix seconds; ``checkpoint`` counts the checkpoints asked for."""

    generation: int
    lease_end: float
    stop: bool = False
    checkpoint: int = 0


@dataclass(frozen=True, slots=True)
class Processes:
    """Who runs. Start times tell a process from a later one with the same number."""

    boot_id: str
    pid: int  # of the supervisor
    start_ticks: int
    ranks: tuple[int, ...]  # the first leads their process group; empty before they start
    leader_start_ticks: int | None


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The folder of one job: names, and what is read and written whole."""

    path: Path

    @staticmethod
    def of(root: Path, job: str) -> JobFolder:
        return JobFolder(root / "jobs" / file_name(job))

    @staticmethod
    def all(root: Path) -> Iterator[JobFolder]:
        with suppress(FileNotFoundError):
            for path in sorted((root / "jobs").iterdir()):
                yield JobFolder(path)

    def create(self) -> None:
        """Raises :class:`ExecutorError` naming the path."""
        try:
            (self.path / "logs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ExecutorError(f"{self.path} cannot be created: {error}") from error

    def alive_lock(self, generation: int) -> Path:
        return self.path / f"alive-{generation}.lock"

    def reports(self, generation: int) -> Path:
        return self.path / f"reports-{generation}.jsonl"

    def log(self, rank: int) -> Path:
        """Where a rank's output is; older parts have ``.1``, ``.2`` appended."""
        return self.path / "logs" / f"rank-{rank}.log"

    @property
    def supervisor_log(self) -> Path:
        return self.path / "logs" / "supervisor.log"

    def lease(self) -> Lease | None:
        record = read_json(self.path / "lease.json")
        if record is None:
            return None
        with suppress(KeyError, TypeError, ValueError):
            return Lease(
                generation=int(record["generation"]),
                lease_end=float(record["lease_end"]),
                stop=bool(record.get("stop", False)),
                checkpoint=int(record.get("checkpoint", 0)),
            )
        return None

    def write_lease(self, lease: Lease, *, durable: bool = True) -> None:
        """Not ``durable`` where losing it to a power failure costs nothing: a renewal."""
        self._write("lease.json", asdict(lease), durable=durable)

    def launch_record(self, generation: int) -> dict[str, Any] | None:
        return read_json(self.path / f"launch-{generation}.json")

    def write_launch_record(self, generation: int, record: dict[str, Any]) -> None:
        self._write(f"launch-{generation}.json", record, durable=False)

    def processes(self, generation: int, part: int = 0) -> Processes | None:
        """Who runs, if that is this generation."""
        record = read_json(self.path / f"process-{part}.json")
        if record is None or record.get("generation") != generation:
            return None
        with suppress(KeyError, TypeError, ValueError):
            leader = record["leader_start_ticks"]
            return Processes(
                boot_id=str(record["boot_id"]),
                pid=int(record["pid"]),
                start_ticks=int(record["start_ticks"]),
                ranks=tuple(int(pid) for pid in record["ranks"]),
                leader_start_ticks=None if leader is None else int(leader),
            )
        return None

    def has_ended(self, generation: int, part: int) -> bool:
        return self._exit(generation, part).exists()

    def exit_record(self, generation: int, part: int = 0) -> dict[str, Any] | None:
        return read_json(self._exit(generation, part))

    def reported_generations(self) -> list[int]:
        return sorted(self._numbers(_REPORTS))

    def living_generations(self) -> list[int]:
        """Launches of which some process lives."""
        return sorted(n for n in self._numbers(_ALIVE) if is_held(self.alive_lock(n)))

    def saved_epochs(self) -> int:
        """Epochs in the newest checkpoint, judged by its name; 0 without one."""
        found = [(0, 0, 0)]
        with suppress(OSError):
            for path in (self.path / "checkpoints").iterdir():
                match = _CHECKPOINT.fullmatch(path.name)
                if match is not None:
                    generation, epoch, number = map(int, match.groups())
                    found.append((generation, number, epoch))
        return max(found)[2]

    def forget_launches_before(self, generation: int) -> None:
        """Removes what only a running launch needs; how it ended stays."""
        for number in (*self._numbers(_ALIVE), *self._numbers(_LAUNCH)):
            if number < generation and not is_held(self.alive_lock(number)):
                for path in (self.alive_lock(number), self.path / f"launch-{number}.json"):
                    path.unlink(missing_ok=True)

    def _exit(self, generation: int, part: int) -> Path:
        return self.path / f"exit-{generation}-{part}.json"

    def _numbers(self, pattern: re.Pattern[str]) -> list[int]:
        with suppress(FileNotFoundError):
            matches = (pattern.fullmatch(path.name) for path in self.path.iterdir())
            return [int(match.group(1)) for match in matches if match is not None]
        return []

    def _write(self, name: str, record: dict[str, Any], *, durable: bool = True) -> None:
        path = self.path / name
        try:
            try:
                write_json(path, record, durable=durable)
            except FileNotFoundError:  # a job may have removed its own folder
                self.create()
                write_json(path, record, durable=durable)
        except OSError as error:
            raise ExecutorError(f"{path} cannot be written: {error}") from error
