"""Executors on the Slurm of the tests."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.executors.local import harness

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.launch import GangSettings
from shockwave.executors.slurm.client import SlurmClient
from shockwave.executors.slurm.executor import SlurmExecutor
from shockwave.model.command import Command
from shockwave.model.events import Placement
from shockwave.testing.executors import Watch
from shockwave.testing.slurm_cluster import SlurmCluster

STEP_SECONDS = 0.25
PATIENCE_SECONDS = 90.0


def environment(cluster: SlurmCluster) -> dict[str, str]:
    return {**os.environ, **cluster.environment}


@contextmanager
def executor(
    cluster: SlurmCluster,
    root: Path,
    commands: Mapping[str, Command],
    *,
    origin: float | None = None,
    kind: type[SlurmExecutor] = SlurmExecutor,
    client: SlurmClient | None = None,
    **more: Any,
) -> Iterator[SlurmExecutor]:
    """An executor that takes its jobs along when the test ends."""
    made = kind(
        root,
        commands.__getitem__,
        time.time() if origin is None else origin,
        settings=GangSettings(grace_seconds=5.0),
        client=client or SlurmClient(environment(cluster)),
        **more,
    )
    try:
        yield made
    finally:
        made.shutdown(stop_jobs=True)


def watch(made: SlurmExecutor, start: int = 0) -> Watch:
    return Watch(made, STEP_SECONDS, int(PATIENCE_SECONDS / STEP_SECONDS), start)


def order(
    name: str, placement: Placement, *, handle: int = 0, attempt: int = 1, epochs: int = 4
) -> Launch:
    gpus = sum(len(slots) for _, slots in placement)
    return Launch(handle, harness.spec(name, gpus, epochs), placement, attempt)
