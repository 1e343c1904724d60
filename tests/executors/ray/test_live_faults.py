"""Nothing is lost on Ray: a node, its head and the scheduler are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.cluster_faults import everything_is_killed_once

from shockwave.testing.ray_cluster import RayCluster


@pytest.fixture
def healed(cluster: RayCluster) -> Iterator[RayCluster]:
    yield cluster
    cluster.heal()


def test_everything_completes_although_everything_is_killed(
    healed: RayCluster, tmp_path: Path
) -> None:
    everything_is_killed_once(
        healed,
        tmp_path,
        where=("--executor", "ray", "--ray-address", healed.address),
        with_jobs=True,
    )
