"""Where the jobs of a live scheduler run, and where their files are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shockwave.engine.executor import Executor
from shockwave.executors.local import GangSettings, LocalExecutor
from shockwave.executors.local.folder import JobFolder
from shockwave.model.command import Command
from shockwave.server.clock import RealClock
from shockwave.server.config import ServeConfig


@dataclass(frozen=True)
class Site:
    """What an executor needs to know of the scheduler that it works for."""

    config: ServeConfig
    command_of: Callable[[str], Command]  # by job id
    origin_unix: float
    clock: RealClock

    def unix_time(self) -> float:
        """The scheduler's own time, which is never set back, as unix seconds."""
        return self.origin_unix + self.clock.now()


MakeExecutor = Callable[[Site], Executor]


def make_local_executor(site: Site) -> Executor:
    """Gangs as processes on this machine, their files in the state directory."""
    return LocalExecutor(
        site.config.state_dir,
        site.config.cluster.nodes,
        site.command_of,
        site.origin_unix,
        settings=GangSettings(grace_seconds=site.config.grace_seconds),
        clock=site.unix_time,
    )


def release_executor(executor: Executor, *, stop_jobs: bool) -> None:
    """Ends an executor that is to be replaced or not needed any more, if it has an end."""
    if isinstance(executor, LocalExecutor):
        executor.shutdown(stop_jobs)


@dataclass(frozen=True)
class JobFiles:
    """The files of jobs by id; the id becomes one name that cannot leave the directory."""

    state_dir: Path

    def log(self, job: str, rank: int) -> Path:
        return JobFolder.of(self.state_dir, job).log(rank)

    def reports(self, job: str, generation: int) -> Path:
        return JobFolder.of(self.state_dir, job).reports(generation)
