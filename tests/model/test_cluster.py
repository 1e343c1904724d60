"""Clusters from a number of GPUs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shockwave.model.cluster import Cluster, Node
from shockwave.model.errors import InputError


@settings(deadline=None)
@given(st.integers(1, 500), st.integers(1, 16))
def test_a_uniform_cluster_has_exactly_the_gpus_asked_for(gpus: int, per_node: int) -> None:
    cluster = Cluster.uniform(gpus, gpus_per_node=per_node)
    assert cluster.gpus == gpus
    assert all(node.gpus == per_node for node in cluster.nodes[:-1])
    assert 1 <= cluster.nodes[-1].gpus <= per_node
    assert len({node.id for node in cluster.nodes}) == len(cluster.nodes)


def test_gpus_are_the_sum_over_nodes() -> None:
    assert Cluster((Node("a", 4), Node("b", 8))).gpus == 12
    assert Cluster(()).gpus == 0


@pytest.mark.parametrize(
    ("gpus", "per_node", "message"),
    [(0, 4, r"--gpus: .*got 0"), (-3, 4, r"--gpus: .*got -3"), (8, 0, r"--gpus-per-node: .*got 0")],
)
def test_a_cluster_without_gpus_is_an_input_error(gpus: int, per_node: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Cluster.uniform(gpus, gpus_per_node=per_node)
