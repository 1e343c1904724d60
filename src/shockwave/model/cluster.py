"""The cluster: nodes with GPU slots."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shockwave.model.errors import InputError

_SHAPE = re.compile(r"(\d{1,9})x(\d{1,9})")
_MOST_NODES = 100_000


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

    @staticmethod
    def parse(text: str) -> Cluster:
        """A cluster of several types of GPUs: ``TYPE:NODESxGPUS``, separated by commas.

        >>> [(node.id, node.gpus, node.gpu_type) for node in Cluster.parse("T4:2x4,A100:1x8").nodes]
        [('T4-0', 4, 'T4'), ('T4-1', 4, 'T4'), ('A100-0', 8, 'A100')]
        """
        nodes: list[Node] = []
        seen: set[str] = set()
        for part in text.split(","):
            gpu_type, colon, size = (piece.strip() for piece in part.rpartition(":"))
            shape = _SHAPE.fullmatch(size)
            if not colon or shape is None or not gpu_type.isprintable() or not gpu_type:
                raise InputError(
                    "must be TYPE:NODESxGPUS, separated by commas",
                    place="--cluster",
                    value=part.strip() or text,
                    hint="Such as T4:6x4,A100:2x8: 6 nodes of 4 GPUs, and 2 of 8",
                )
            count, gpus = int(shape[1]), int(shape[2])
            if count < 1 or gpus < 1:
                problem = "must have at least one node, with at least one GPU"
                raise InputError(problem, place="--cluster", value=part.strip())
            if count > _MOST_NODES:
                problem = f"must not have more than {_MOST_NODES:,} nodes"
                raise InputError(problem, place="--cluster", value=part.strip())
            if gpu_type in seen:
                problem = f"must not name type {gpu_type} twice"
                raise InputError(problem, place="--cluster", value=text)
            seen.add(gpu_type)
            nodes += [Node(f"{gpu_type}-{i}", gpus, gpu_type) for i in range(count)]
        return Cluster(tuple(nodes))

    @property
    def types(self) -> dict[str, int]:
        """The types of GPUs, and how many there are of each, in the order of the nodes."""
        found: dict[str, int] = {}
        for node in self.nodes:
            found[node.gpu_type] = found.get(node.gpu_type, 0) + node.gpus
        return found
