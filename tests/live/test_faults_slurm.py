"""Nothing is lost on Slurm: a node, its controller and the scheduler are killed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from tests.live.cluster_faults import everything_is_killed_once

from shockwave.testing.slurm_cluster import SlurmCluster, why_slurm_cannot_run


def test_everything_completes_although_everything_is_killed(tmp_path: Path) -> None:
    problem = why_slurm_cannot_run()
    if problem is not None:
        pytest.skip(problem)
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as folder,  # a short path: sockets are in it
        SlurmCluster(Path(folder), nodes=4, gpus=1) as cluster,
    ):
        everything_is_killed_once(
            cluster,
            tmp_path,
            where=("--executor", "slurm"),
            environment=cluster.environment,
            with_jobs=False,
        )
