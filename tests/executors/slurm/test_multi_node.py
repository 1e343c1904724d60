"""PyTorch over two nodes of Slurm, interrupted, trains as if it had not been."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.executors import multi_node
from tests.executors.slurm import harness

from shockwave.testing.slurm_cluster import SlurmCluster

pytest.importorskip("torch", reason="PyTorch is not installed")


def test_a_gang_over_two_nodes_goes_on_with_its_state(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    commands = {"whole": multi_node.COMMAND, "interrupted": multi_node.COMMAND}
    with harness.executor(cluster, tmp_path, commands) as executor:
        multi_node.is_as_good_as_uninterrupted(executor)
