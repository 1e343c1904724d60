"""Live executors by name: the built-in ones, and those that other packages bring.

A package adds an executor by an entry point in the group ``shockwave.executors`` whose value
is a subclass of :class:`LiveExecutor`, and ``shockwave serve --executor NAME`` uses it. A class
that no package offers is named directly: ``--executor my_package.my_module:MyExecutor``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, TypeVar

from shockwave.engine.executor import Executor
from shockwave.executors import options
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.job import JobSpec
from shockwave.model.registry import Registry

Kind = TypeVar("Kind", bound=options.SiteOptions)


@dataclass(frozen=True)
class Site:
    """What a live executor needs to know of the scheduler that it works for."""

    state_dir: Path  # a job's files go to jobs/<id> below it
    nodes: tuple[Node, ...]
    command_of: Callable[[str], Command]  # by job id
    origin_unix: float  # the unix time of second 0
    clock: Callable[[], float]  # unix seconds, never set back
    grace_seconds: float  # between asking a job to stop and killing it
    start_seconds: float = 60.0  # that a gang may take to start, then it is withdrawn
    options: options.SiteOptions | None = None  # of the executor; None: all at their defaults

    def options_as(self, kind: type[Kind]) -> Kind:
        """The executor's own options, of the kind that it declares."""
        if self.options is None:
            return kind()
        if not isinstance(self.options, kind):
            raise TypeError(f"expected {kind.__name__}, not {type(self.options).__name__}")
        return self.options


class LiveExecutor(Executor):
    """Runs real jobs in real time.

    ``name`` is also the prefix of the flags that are made from :attr:`SiteOptions`
    (``--NAME-option``) and the section of the configuration and of a job file with its options.
    """

    name: ClassVar[str]
    runs_as_owner: ClassVar[bool] = False  # as root it starts a job as the user of its command
    runs_without_gpus: ClassVar[bool] = False  # jobs of 0 GPUs too
    look_seconds: ClassVar[float] = 1.0  # between two looks at what became of jobs
    SiteOptions: ClassVar[type[options.SiteOptions]] = options.SiteOptions
    JobOptions: ClassVar[type[options.JobOptions]] = options.JobOptions

    @classmethod
    @abstractmethod
    def at(cls, site: Site) -> Self:
        """An executor for this scheduler."""

    @abstractmethod
    def nodes(self) -> tuple[Node, ...] | None:
        """The nodes that are up now; None while the backend does not answer."""

    def check(self, job: JobSpec, command: Command) -> list[str]:
        """Before a job is queued: what may keep it from starting. Called from any thread.

        Raises :class:`~shockwave.model.errors.InputError` if it could never start here.
        """
        return []

    @abstractmethod
    def shutdown(self, stop_jobs: bool) -> None:
        """Ends the executor: with its jobs, which may save, or without, and they run on."""


EXECUTORS = Registry(
    "executor",
    "shockwave.executors",
    LiveExecutor,
    {
        "local": "shockwave.executors.local.executor:LocalExecutor",
        "slurm": "shockwave.executors.slurm.executor:SlurmExecutor",
        "ray": "shockwave.executors.ray.executor:RayExecutor",
    },
)

names = EXECUTORS.names


def create(name: str, site: Site) -> LiveExecutor:
    """The executor by name. Raises :class:`InputError` naming what exists."""
    return EXECUTORS.create(name, lambda executor: executor.at(site))
