"""Nothing is lost on Slurm: a node, its controller and the scheduler are killed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.engine_faults import Engine, everything_is_killed_once

from shockwave.testing.slurm_cluster import SlurmCluster, why_slurm_cannot_run

pytestmark = pytest.mark.skipif(
    why_slurm_cannot_run() is not None, reason=str(why_slurm_cannot_run())
)


class SlurmEngine(Engine):
    where = ("--executor", "slurm")

    def __init__(self, cluster: SlurmCluster) -> None:
        self._cluster = cluster
        self.environment = cluster.environment

    def kill_node(self, node: str) -> None:
        self._cluster.kill_node(node, with_jobs=False)  # a second copy of its jobs lives on

    def start_node(self, node: str) -> None:
        self._cluster.start_node(node)

    def kill_controller(self) -> None:
        self._cluster.kill_controller()

    def start_controller(self) -> None:
        self._cluster.start_controller()


@pytest.fixture
def engine() -> Iterator[SlurmEngine]:
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as folder,  # a short path: sockets are in it
        SlurmCluster(Path(folder), nodes=4, gpus=1) as cluster,
    ):
        yield SlurmEngine(cluster)


def test_everything_completes_although_everything_is_killed(
    engine: SlurmEngine, tmp_path: Path
) -> None:
    everything_is_killed_once(engine, tmp_path)
