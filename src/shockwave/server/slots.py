"""The setting ``slots``: a number of GPUs, or their types with the number of each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import BeforeValidator

from shockwave.model.cluster import Node

_MOST = 100_000
_TYPE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._+-]*):([1-9][0-9]{0,5})")


def types_in(text: str) -> list[tuple[str, int]]:
    """Types of GPUs and how many there are of each, in the order in which they are written.

    Raises :class:`ValueError` for anything else.

    >>> types_in("A100:2,T4:4")
    [('A100', 2), ('T4', 4)]
    """
    found = [_TYPE.fullmatch(part.strip()) for part in text.split(",")]
    types = [(match[1], int(match[2])) for match in found if match is not None]
    if len(types) != len(found):
        raise ValueError("expected a number of GPUs, or types of them such as A100:2,T4:4")
    if len({gpu_type for gpu_type, _ in types}) != len(types):
        raise ValueError("names a type of GPU twice")
    return types


def _checked(value: object) -> object:
    if isinstance(value, str):
        if not value.strip().isdigit():
            if sum(count for _, count in types_in(value)) > _MOST:
                raise ValueError(f"expected {_MOST} GPUs at most")
            return value
        value = int(value)
    if isinstance(value, int) and not 1 <= value <= _MOST:
        raise ValueError(f"expected a number of GPUs from 1 to {_MOST}")
    return value


SlotsSetting = Annotated[int | str, BeforeValidator(_checked)]


def nodes_of(types: Iterable[tuple[str, int]], gpus_per_node: int | None) -> tuple[Node, ...]:
    """Nodes ``n0``, ``n1``, ... of one type each; by default one node for each type.

    >>> [(node.id, node.gpus, node.gpu_type) for node in nodes_of([("A100", 3), ("T4", 1)], 2)]
    [('n0', 2, 'A100'), ('n1', 1, 'A100'), ('n2', 1, 'T4')]
    """
    nodes: list[Node] = []
    for gpu_type, count in types:
        size = gpus_per_node or count
        for first in range(0, count, size):
            nodes.append(Node(f"n{len(nodes)}", min(size, count - first), gpu_type))
    return tuple(nodes)


def gpus_by_type(nodes: Iterable[Node]) -> dict[str, int]:
    """How many GPUs there are of each type, in the order of the nodes."""
    found: dict[str, int] = {}
    for node in nodes:
        found[node.gpu_type] = found.get(node.gpu_type, 0) + node.gpus
    return found
