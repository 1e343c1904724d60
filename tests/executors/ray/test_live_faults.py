"""Nothing is lost on Ray: a node, its head and the scheduler are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.engine_faults import Engine, everything_is_killed_once

from shockwave.testing.ray_cluster import RayCluster


class RayEngine(Engine):
    def __init__(self, cluster: RayCluster) -> None:
        self._cluster = cluster
        self.where = ("--executor", "ray", "--ray-address", cluster.address)
        self.environment: dict[str, str] = {}

    def kill_node(self, node: str) -> None:
        self._cluster.kill_node(node)

    def start_node(self, node: str) -> None:
        self._cluster.start_node(node)

    def kill_controller(self) -> None:
        self._cluster.kill_controller()

    def start_controller(self) -> None:
        self._cluster.start_controller()


@pytest.fixture
def engine(cluster: RayCluster) -> Iterator[RayEngine]:
    yield RayEngine(cluster)
    cluster.heal()


def test_everything_completes_although_everything_is_killed(
    engine: RayEngine, tmp_path: Path
) -> None:
    everything_is_killed_once(engine, tmp_path)
