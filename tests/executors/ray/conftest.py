"""One Ray cluster for all tests in here, which run only in a namespace of their own.

``tests/executors/test_ray_backend.py`` makes the namespace and runs them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.executors.ray.harness import is_inside

from shockwave.testing.ray_cluster import RayCluster

collect_ignore_glob = [] if is_inside() else ["test_*.py"]


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    with (
        tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder,
        RayCluster(Path(folder), gpu_types=("V100", "V100", "A100")) as running,
    ):
        yield running


@pytest.fixture
def cluster(ray_cluster: RayCluster) -> Iterator[RayCluster]:
    """A head and the nodes n0, n1, n2 with 4 GPUs each, healed after each test."""
    yield ray_cluster
    ray_cluster.heal()
