"""The folder of a job: the name of every file in it.

::

    lease.json                     which launch may run, and whether it is to stop
    launch-<generation>.json       what the supervisors of that launch run, one part a node
    alive-<generation>.lock        locked while any process of that launch lives on this machine
    meeting-<generation>.json      where the ranks of that launch meet, if on several nodes
    process-<part>.json            who runs that part: process ids with their start times
    exit-<generation>-<part>.json  how that part of that launch ended
    reports-<generation>.jsonl     what that launch of the job reported
    stop-<generation>.json         at which step all ranks stop; stop-<generation>.request asks
    checkpoints/                   what the job saved
    logs/rank-<rank>.log[.1 ...]   what a rank wrote, rotated
    logs/rank-<rank>.times[.1 ...]  beside each of these: when what was written
    logs/supervisor-<part>.log     what a supervisor wrote: next to nothing

A generation is the number of a launch of the job, a part its share of one node; parts count
from 0.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from .lease import Lease
from .locks import is_held
from .names import file_name
from .records import ExitRecord, LaunchRecord, ProcessRecord

_CHECKPOINT = re.compile(r"ckpt-g(\d+)-e(\d+)-(\d+)\.([^.]+)")


class CheckpointName(NamedTuple):
    """``ckpt-g<generation>-e<epoch>-<number>.<ending>``; ordered from oldest to newest."""

    generation: int
    number: int
    epoch: int
    ending: str = "ckpt"

    def __str__(self) -> str:
        return f"ckpt-g{self.generation}-e{self.epoch}-{self.number}.{self.ending}"

    @staticmethod
    def parse(name: str) -> CheckpointName | None:
        """None for whatever else is in the folder, half-written checkpoints too."""
        match = _CHECKPOINT.fullmatch(name)
        if match is None:
            return None
        generation, epoch, number = map(int, match.groups()[:3])
        return CheckpointName(generation, number, epoch, match[4])


class JobPaths(NamedTuple):
    """The files of one job, and what can be read from them."""

    path: Path

    @classmethod
    def of(cls, root: Path, job: str) -> Self:
        """``root`` is the folder of the scheduler."""
        return cls.named(root, file_name(job))

    @classmethod
    def named(cls, root: Path, name: str) -> Self:
        """By the name of the folder, which is not always the id of the job."""
        return cls(root / "jobs" / name)

    @classmethod
    def all(cls, root: Path) -> Iterator[Self]:
        with suppress(FileNotFoundError):
            for path in sorted((root / "jobs").iterdir()):
                yield cls(path)

    # Names.

    @property
    def lease_file(self) -> Path:
        return self.path / "lease.json"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def launch_file(self, generation: int) -> Path:
        return self.path / f"launch-{generation}.json"

    def alive_lock(self, generation: int) -> Path:
        return self.path / f"alive-{generation}.lock"

    def meeting_file(self, generation: int) -> Path:
        return self.path / f"meeting-{generation}.json"

    def process_file(self, part: int) -> Path:
        return self.path / f"process-{part}.json"

    def exit_file(self, generation: int, part: int) -> Path:
        return self.path / f"exit-{generation}-{part}.json"

    def reports(self, generation: int) -> Path:
        return self.path / f"reports-{generation}.jsonl"

    def stop_file(self, generation: int) -> Path:
        return self.path / f"stop-{generation}.json"

    def stop_request(self, generation: int) -> Path:
        return self.path / f"stop-{generation}.request"

    def log(self, rank: int) -> Path:
        """A rank's output; older parts of it have ``.1``, ``.2`` appended."""
        return self.logs / f"rank-{rank}.log"

    def supervisor_log(self, part: int = 0) -> Path:
        return self.logs / f"supervisor-{part}.log"

    # What they say.

    def lease(self) -> Lease | None:
        return Lease.read(self.lease_file)

    def launch(self, generation: int) -> LaunchRecord | None:
        return LaunchRecord.read(self.launch_file(generation))

    def processes(self, generation: int, part: int = 0) -> ProcessRecord | None:
        """Who runs, if that is this generation."""
        record = ProcessRecord.read(self.process_file(part))
        return record if record is not None and record.generation == generation else None

    def exit_record(self, generation: int, part: int = 0) -> ExitRecord | None:
        return ExitRecord.read(self.exit_file(generation, part))

    def reported_generations(self) -> list[int]:
        return self._generations("reports-", ".jsonl")

    def launched_generations(self) -> list[int]:
        """Launches whose files are still there."""
        locks, records = self._generations("alive-", ".lock"), self._generations("launch-", ".json")
        return sorted({*locks, *records})

    def living_generations(self) -> list[int]:
        """Launches of which some process lives on this machine."""
        return [n for n in self._generations("alive-", ".lock") if is_held(self.alive_lock(n))]

    def saved(self) -> list[CheckpointName]:
        """The job's checkpoints, newest first, judged by their names."""
        return checkpoints_in(self.checkpoints)

    def saved_epochs(self) -> int:
        """Epochs in the newest checkpoint; 0 without one."""
        saved = self.saved()
        return saved[0].epoch if saved else 0

    def _generations(self, before: str, after: str) -> list[int]:
        names: list[str] = []
        with suppress(FileNotFoundError):
            names = os.listdir(self.path)
        pattern = re.compile(rf"{re.escape(before)}(\d+){re.escape(after)}")
        return sorted(int(found[1]) for name in names if (found := pattern.fullmatch(name)))


def times_of(log: Path) -> Path:
    """Beside a piece of a log: lines of ``offset time launch`` for what was written from there.

    >>> times_of(Path("logs/rank-0.log.1")).name
    'rank-0.times.1'
    """
    return log.with_name(log.name.replace(".log", ".times", 1))


def checkpoints_in(folder: Path) -> list[CheckpointName]:
    """Newest first. Other files are passed over."""
    try:
        entries = os.listdir(folder)
    except OSError:
        return []
    parsed = (CheckpointName.parse(entry) for entry in entries)
    return sorted((name for name in parsed if name is not None), reverse=True)
