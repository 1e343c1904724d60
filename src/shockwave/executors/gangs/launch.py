"""What a launch consists of, and what is on the disk before anything is started."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.account import LiveJob
from shockwave.executors.gangs.folder import JobFolder, Lease
from shockwave.model.command import Command
from shockwave.model.events import Placement

# The supervisor is a program of its own: no site packages, nothing of the scheduler.
_BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from supervisor.part import main; main()"
HERE = Path(__file__).resolve().parent  # holds the package ``supervisor``


@dataclass(frozen=True, slots=True)
class GangSettings:
    """What is the same for every gang."""

    grace_seconds: float = 30.0
    log_bytes: int = 10_000_000
    log_backups: int = 2


@dataclass(frozen=True, slots=True)
class Part:
    """The ranks of a gang on one node: the environment of each, and the slots they lock."""

    node: str
    ranks: list[dict[str, str]]
    slot_locks: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Start:
    """A launch that was checked and can be carried out. Times are unix seconds."""

    order: Launch
    job: LiveJob
    command: Command
    lease: Lease
    now: float

    @property
    def folder(self) -> JobFolder:
        return self.job.folder

    @property
    def generation(self) -> int:
        return self.lease.generation

    def write(
        self, parts: Sequence[Part], settings: GangSettings, master_addr: str = "127.0.0.1"
    ) -> None:
        """The record that supervisors read, and the lease, which is on the disk afterwards.

        It must not be forgotten that an older copy was fenced off. A record that is lost with the
        power costs one more launch. Raises :class:`ExecutorError` naming the file.
        """
        self.folder.write_launch_record(
            self.generation,
            {
                "job": self.order.job.id,
                "generation": self.generation,
                "launched": self.now,
                "held_before": self.job.held_seconds,
                "argv": list(self.command.argv),
                "workdir": self.command.workdir,
                "env": dict(self.command.env),
                "master_addr": master_addr,
                "parts": [
                    {"node": part.node, "ranks": part.ranks, "slot_locks": part.slot_locks}
                    for part in parts
                ],
                "grace_seconds": settings.grace_seconds,
                "log_bytes": settings.log_bytes,
                "log_backups": settings.log_backups,
            },
        )
        self.folder.write_lease(self.lease)


def rank_variables(placement: Placement) -> list[list[dict[str, str]]]:
    """Who the ranks are, by node; the way ``torchrun`` tells them.

    >>> [[rank["RANK"] for rank in node] for node in rank_variables((("a", (0, 1)), ("b", (3,))))]
    [['0', '1'], ['2']]
    """
    world_size = sum(len(slots) for _, slots in placement)
    nodes: list[list[dict[str, str]]] = []
    rank = 0
    for node_rank, (_, slots) in enumerate(placement):
        nodes.append(
            [
                {
                    "RANK": str(rank + local_rank),
                    "LOCAL_RANK": str(local_rank),
                    "GROUP_RANK": str(node_rank),
                    "WORLD_SIZE": str(world_size),
                    "LOCAL_WORLD_SIZE": str(len(slots)),
                }
                for local_rank in range(len(slots))
            ]
        )
        rank += len(slots)
    return nodes


def supervisor_argv(
    folder: JobFolder,
    generation: int,
    *,
    part: int | str = 0,
    python: str = sys.executable,
    source: Path = HERE,
) -> list[str]:
    """The command that runs one part of a launch. ``source`` is where its program is."""
    program = [python, "-I", "-S", "-c", _BOOT, str(source)]
    return [*program, str(folder.path), str(generation), str(part)]
