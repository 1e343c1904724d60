"""Live executors by name: the built-in ones, and those that other packages bring.

A package adds an executor by an entry point in the group ``shockwave.executors`` whose value
is a subclass of :class:`LiveExecutor`, and ``shockwave serve --executor NAME`` uses it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

from shockwave.engine.executor import Executor
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.registry import Registry


@dataclass(frozen=True)
class Site:
    """What a live executor needs to know of the scheduler that it works for."""

    state_dir: Path  # a job's files go to jobs/<id> below it
    nodes: tuple[Node, ...]
    command_of: Callable[[str], Command]  # by job id
    origin_unix: float  # the unix time of second 0
    clock: Callable[[], float]  # unix seconds, never set back
    grace_seconds: float  # between asking a job to stop and killing it
    start_seconds: float = 60.0  # that an engine may take to start a gang, then it is withdrawn
    options: Mapping[str, str] = field(default_factory=dict)  # settings of the executor's own


class LiveExecutor(Executor):
    """Runs real jobs in real time."""

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def at(cls, site: Site) -> Self:
        """An executor for this scheduler."""

    @abstractmethod
    def nodes(self) -> tuple[Node, ...] | None:
        """The nodes that are up now; None while the engine does not answer."""

    @abstractmethod
    def shutdown(self, stop_jobs: bool) -> None:
        """Ends the executor: with its jobs, which may save, or without, and they run on."""


EXECUTORS = Registry(
    "executor",
    "shockwave.executors",
    LiveExecutor,
    {
        "local": "shockwave.executors.local:LocalExecutor",
        "slurm": "shockwave.executors.slurm:SlurmExecutor",
        "ray": "shockwave.executors.ray.executor:RayExecutor",
    },
)

names = EXECUTORS.names


def create(name: str, site: Site) -> LiveExecutor:
    """The executor by name. Raises :class:`InputError` naming what exists."""
    return EXECUTORS.create(name, lambda executor: executor.at(site))
