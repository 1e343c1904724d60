"""Where the jobs of a live scheduler run, and where their files are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shockwave.executors.live import LiveExecutor, Site, create
from shockwave.model.command import Command
from shockwave.protocol.paths import JobPaths
from shockwave.server.clock import RealClock
from shockwave.server.config import ServeConfig

MakeExecutor = Callable[[Site], LiveExecutor]


def make_executor_of(config: ServeConfig) -> MakeExecutor:
    """The executor that the settings name."""
    return lambda site: create(config.executor, site)


def site_of(
    config: ServeConfig, command_of: Callable[[str], Command], origin_unix: float, clock: RealClock
) -> Site:
    """The scheduler's own time goes on evenly even when somebody sets the machine's clock."""
    return Site(
        state_dir=config.state_dir,
        nodes=config.cluster.nodes,
        command_of=command_of,
        origin_unix=origin_unix,
        clock=lambda: origin_unix + clock.now(),
        grace_seconds=config.grace_seconds,
        start_seconds=config.start_seconds,
        options=config.site_options,
    )


@dataclass(frozen=True)
class JobFiles:
    """The files of jobs by id; the id becomes one name that cannot leave the directory."""

    state_dir: Path

    def log(self, job: str, rank: int) -> Path:
        return JobPaths.of(self.state_dir, job).log(rank)

    def reports(self, job: str, generation: int) -> Path:
        return JobPaths.of(self.state_dir, job).reports(generation)
