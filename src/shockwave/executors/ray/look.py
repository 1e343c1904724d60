"""One look at a Ray cluster, and why parts of gangs have died, both through the bridge."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from shockwave.executors.gangs.launch_name import LaunchName
from shockwave.executors.gangs.nodes import Health, SeenNode
from shockwave.executors.gangs.remote import Look, SeenGang
from shockwave.executors.options import UNKNOWN_TYPE
from shockwave.executors.ray.client import RayClient
from shockwave.model.cluster import Node


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a part does not live, in Ray's words."""

    message: str
    node_died: bool
    started: bool  # else it failed before it could do anything


def look(client: RayClient, known: Collection[str] = ()) -> Look:
    """Nodes that live, and of those that were ``known`` also the dead: Ray lists these for ever.

    Raises :class:`BackendAway` if Ray does not answer.
    """
    answer = client.ask("look")
    gangs = {}
    for text, parts in answer["gangs"].items():
        name = LaunchName.read(text)
        if name is not None:
            waits = set(parts.values()) != {"running"}
            gangs[name] = SeenGang(waits=waits, parts=frozenset(map(int, parts)))
    nodes = _by_name(answer["nodes"])
    for name, reason in answer["dead"].items():
        if name in known and name not in nodes:
            nodes[name] = SeenNode(Node(name, 0), "", Health.DOWN, reason=" ".join(reason.split()))
    return Look(nodes, gangs)


def causes(client: RayClient, names: Sequence[LaunchName]) -> dict[LaunchName, dict[int, Cause]]:
    """Why parts of these gangs do not live, as far as Ray remembers.

    Raises :class:`BackendAway` if Ray does not answer.
    """
    answer = client.ask("causes", names=[str(name) for name in names])
    return {
        name: {int(part): Cause(**cause) for part, cause in answer.get(str(name), {}).items()}
        for name in names
    }


def _by_name(records: Sequence[dict[str, Any]]) -> dict[str, SeenNode]:
    """Nodes with GPUs by the name that Ray knows them by, its address unless it was given one.

    Where several have the same name, part of Ray's own id makes the difference.
    """
    with_gpus = [record for record in records if record["gpus"]]
    count = Counter(record["name"] for record in with_gpus)
    nodes = {}
    for record in sorted(with_gpus, key=lambda record: (record["name"], record["ray_id"])):
        name, ray_id = record["name"], record["ray_id"]
        if count[name] > 1:
            name = f"{name}-{ray_id[:6]}"
        nodes[name] = SeenNode(
            Node(name, record["gpus"], record["gpu_type"] or UNKNOWN_TYPE),
            record["address"],
            Health.UP if record["leaves_by"] is None else Health.WITHHELD,
            reason="" if record["leaves_by"] is None else _leaving(record["leaves_by"]),
            occupied=record["foreign"],
            settled=record["settled"],
            incarnation=ray_id,
        )
    return nodes


def _leaving(by: int) -> str:
    """``by`` is in unix milliseconds, 0 for no limit."""
    limit = f" and ends by {time.strftime('%H:%M:%S', time.localtime(by / 1000.0))}" if by else ""
    return f"Ray drains it{limit}"
