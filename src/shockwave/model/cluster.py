"""The cluster: nodes with GPU slots."""

from __future__ import annotations

from dataclasses import dataclass

from shockwave.model.errors import InputError


@dataclass(frozen=True, slots=True)
class Node:
    """One machine with ``gpus`` identical GPU slots."""

    id: str
    gpus: int
    gpu_type: str = "gpu"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes that a run starts with."""

    nodes: tuple[Node, ...]

    @property
    def gpus(self) -> int:
        """``M``: all GPUs of all nodes."""
        return sum(node.gpus for node in self.nodes)

    @staticmethod
    def uniform(gpus: int, gpus_per_node: int = 4) -> Cluster:
        """``gpus`` GPUs on nodes of ``gpus_per_node``; the last node takes the remainder.

        >>> [node.gpus for node in Cluster.uniform(10, gpus_per_node=4).nodes]
        [4, 4, 2]
        """
        for name, value in (("--gpus", gpus), ("--gpus-per-node", gpus_per_node)):
            if value < 1:
                raise InputError("must be at least 1", place=name, value=value)
        sizes = [gpus_per_node] * (gpus // gpus_per_node)
        if gpus % gpus_per_node:
            sizes.append(gpus % gpus_per_node)
        return Cluster(tuple(Node(f"n{i}", size) for i, size in enumerate(sizes)))
