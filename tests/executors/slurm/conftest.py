"""One real Slurm for all tests of a session, healed after each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shockwave.testing.slurm_cluster import SlurmCluster, why_slurm_cannot_run

FURTHER_PARTITIONS = (
    "brief Nodes=ALL MaxTime=5 State=UP",
    "shut Nodes=n3 MaxTime=INFINITE State=DOWN",
    "first Nodes=ALL MaxTime=INFINITE PriorityTier=10 State=UP",
)


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    problem = why_slurm_cannot_run()
    if problem is not None:
        pytest.skip(problem)
    partitions = "gpus Nodes=ALL Default=YES MaxTime=INFINITE State=UP", *FURTHER_PARTITIONS
    settings = {"PartitionName": "\nPartitionName=".join(partitions)}
    folder, types = tmp_path_factory.mktemp("slurm"), ("v100", "v100", "v100", "t4")
    with SlurmCluster(folder, gpu_types=types, settings=settings) as made:
        yield made


@pytest.fixture
def cluster(slurm_cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """Four nodes of four GPUs, all of them free; those of the last one are of another type."""
    yield slurm_cluster
    slurm_cluster.heal()
