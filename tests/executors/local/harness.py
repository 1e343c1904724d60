"""Executors over tiny jobs, and patience: real time is waited for, never asserted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.launch import GangSettings
from shockwave.executors.gangs.remote import RemoteExecutor
from shockwave.executors.local.executor import LocalExecutor
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.job import Adaptation, JobSpec
from shockwave.testing.executors import Watch

TINY_JOB = Path(__file__).with_name("tiny_job.py")
PATIENCE_SECONDS = 60.0
STEP_SECONDS = 0.1
NODE = Node("n0", 4)


def tiny(workdir: Path, **variables: object) -> Command:
    """A tiny job, with ``TINY_...`` settings given by their names in small letters."""
    env = {f"TINY_{name.upper()}": str(value) for name, value in variables.items()}
    return Command((sys.executable, "-I", "-S", str(TINY_JOB)), str(workdir), env)


def script(workdir: Path, text: str) -> Command:
    """A job that is a few lines of Python."""
    return Command((sys.executable, "-I", "-S", "-c", text), str(workdir))


def spec(name: str, gpus: int = 1, epochs: int = 4) -> JobSpec:
    return JobSpec(name, 0.0, gpus, epochs, (32, 64), (0.1, 0.1), Adaptation.CUSTOM)


def order(
    name: str, *, handle: int = 0, slots: tuple[int, ...] = (0,), attempt: int = 1, epochs: int = 4
) -> Launch:
    job = spec(name, len(slots), epochs)
    return Launch(handle, job, (("n0", slots),), attempt)


@contextmanager
def impatient(executor: RemoteExecutor, seconds: float) -> Iterator[None]:
    """What is not started in so many seconds is withdrawn; else it has a busy machine's time."""
    patience, executor.start_seconds = executor.start_seconds, seconds
    try:
        yield
    finally:
        executor.start_seconds = patience


@contextmanager
def executor(
    root: Path,
    commands: dict[str, Command],
    *,
    grace_seconds: float = 20.0,
    settings: GangSettings | None = None,
    nodes: tuple[Node, ...] = (NODE,),
    origin: float | None = None,
) -> Iterator[LocalExecutor]:
    """An executor that takes its jobs along when the test ends."""
    made = LocalExecutor(
        root,
        nodes,
        commands.__getitem__,
        time.time() if origin is None else origin,
        settings=settings or GangSettings(grace_seconds),
    )
    try:
        yield made
    finally:
        made.shutdown(stop_jobs=True)


def watch(made: LocalExecutor) -> Watch:
    return Watch(made, STEP_SECONDS, int(PATIENCE_SECONDS / STEP_SECONDS))


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
