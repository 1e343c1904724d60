"""What a launch consists of, and what is on the disk before anything is started."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.account import LiveJob
from shockwave.executors.gangs.folder import JobFolder
from shockwave.model.command import Command
from shockwave.protocol.environment import rank_variables
from shockwave.protocol.lease import Lease
from shockwave.protocol.records import LaunchRecord, Part

# The supervisor is a program of its own: no site packages, nothing of the scheduler.
_BOOT = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from shockwave.executors.gangs.supervisor.part import main; main()"
)


@dataclass(frozen=True, slots=True)
class GangSettings:
    """What is the same for every gang."""

    grace_seconds: float = 30.0
    log_bytes: int = 10_000_000
    log_backups: int = 2


@dataclass(frozen=True, slots=True)
class Start:
    """A launch that was checked and can be carried out at ``now`` (unix seconds)."""

    order: Launch
    job: LiveJob
    command: Command
    settings: GangSettings
    now: float

    @property
    def folder(self) -> JobFolder:
        return self.job.folder

    @property
    def generation(self) -> int:
        return self.order.attempt

    def parts(self) -> list[Part]:
        """The ranks of every node, with what each of them is told."""
        placement = self.order.placement
        nodes = rank_variables(
            self.order.job.id,
            self.generation,
            self.folder.path,
            self.settings.grace_seconds,
            [len(slots) for _, slots in placement] or [1],  # without GPUs it is one process
        )
        if not placement:
            return [Part("", nodes[0])]
        return [Part(node, ranks) for (node, _), ranks in zip(placement, nodes, strict=True)]

    def write(self, parts: Sequence[Part], master_addr: str = "127.0.0.1") -> None:
        """Writes the record that supervisors read, and then the lease.

        The lease is on the disk when this returns, so that an older launch stays fenced off even
        after a power failure. Raises :class:`ExecutorError` naming the file.
        """
        record = LaunchRecord(
            job=self.order.job.id,
            generation=self.generation,
            launched=self.now,
            held_before=self.job.held_seconds,
            argv=list(self.command.argv),
            workdir=self.command.workdir,
            env=dict(self.command.env),
            master_addr=master_addr,
            parts=list(parts),
            grace_seconds=self.settings.grace_seconds,
            log_bytes=self.settings.log_bytes,
            log_backups=self.settings.log_backups,
        )
        self.folder.write_launch(record)
        self.folder.write_lease(Lease(self.generation))


def supervisor_argv(
    folder: JobFolder,
    generation: int,
    source: Path,
    *,
    part: int | str = 0,
    python: str = sys.executable,
) -> list[str]:
    """The command that runs one part of a launch. ``source`` is where its program is."""
    program = [python, "-I", "-S", "-c", _BOOT, str(source)]
    return [*program, str(folder.path), str(generation), str(part)]
