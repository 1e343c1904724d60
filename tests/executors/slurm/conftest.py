"""One real Slurm for all tests of a session, healed after each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shockwave.testing.slurm_cluster import SlurmCluster, why_slurm_cannot_run


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    problem = why_slurm_cannot_run()
    if problem is not None:
        pytest.skip(problem)
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as made:
        yield made


@pytest.fixture
def cluster(slurm_cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """Four nodes of four GPUs, all of them free."""
    yield slurm_cluster
    slurm_cluster.heal()
