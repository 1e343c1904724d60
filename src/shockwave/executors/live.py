"""Live executors by name: the built-in ones, and those that other packages bring.

A package adds an executor by an entry point in the group ``shockwave.executors`` whose value
is a subclass of :class:`LiveExecutor`, and ``shockwave serve --executor NAME`` uses it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import ClassVar, Self

from shockwave.engine.executor import Executor
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.errors import InputError
from shockwave.model.plugins import plug_ins

GROUP = "shockwave.executors"


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


_BUILT_IN = {
    "local": "shockwave.executors.local:LocalExecutor",
    "slurm": "shockwave.executors.slurm:SlurmExecutor",
    "ray": "shockwave.executors.ray.executor:RayExecutor",
}


def available() -> list[str]:
    """The names of all live executors, built-in ones first."""
    others = [name for name in plug_ins(GROUP, LiveExecutor) if name not in _BUILT_IN]
    return [*_BUILT_IN, *others]


def create(name: str, site: Site) -> LiveExecutor:
    """The executor by name. Raises :class:`InputError` naming what exists."""
    if name in _BUILT_IN:
        return _built_in(name).at(site)
    plug_in = plug_ins(GROUP, LiveExecutor).get(name)
    if plug_in is None:
        raise InputError(
            "no such executor", value=name, hint=f"There are: {', '.join(available())}"
        )
    return plug_in.create(lambda executor: executor.at(site))


def _built_in(name: str) -> type[LiveExecutor]:
    """Imported when it is asked for: it is a subclass of what is here."""
    module, _, attribute = _BUILT_IN[name].partition(":")
    executor: type[LiveExecutor] = getattr(import_module(module), attribute)
    return executor
