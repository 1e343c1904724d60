"""An elastic job on Slurm, between nodes with GPUs of different types."""

from __future__ import annotations

import time
from pathlib import Path

from tests.executors import resized
from tests.executors.slurm import harness

from shockwave.testing.slurm_cluster import SlurmCluster


def test_it_grows_shrinks_and_moves_with_the_losses_of_an_undisturbed_run(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    origin, commands = time.time(), {resized.JOB: resized.command(tmp_path)}
    with harness.executor(cluster, tmp_path / "root", commands, origin=origin) as executor:
        resized.has_the_losses_of_an_undisturbed_run(
            executor, "v100", "t4", origin, tmp_path / "undisturbed"
        )
