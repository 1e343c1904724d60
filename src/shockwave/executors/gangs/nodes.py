"""Nodes as a backend shows them, and what became of them since it was last told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from shockwave.model.cluster import Node
from shockwave.model.events import Event, NodeDown, NodeOccupied, NodeUp


class Health(Enum):
    UP = auto()
    WITHHELD = auto()  # by people: jobs on it may end in order, no new one is started
    DOWN = auto()
    UNCLEAR = auto()  # the backend itself waits for it to answer; it stays what it was


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A node when the backend was last asked."""

    node: Node
    address: str
    health: Health = Health.UP
    occupied: int = 0  # GPUs that others hold
    contested: bool = False  # others wait for GPUs of it, and would get what we give up
    settled: bool = True  # else some of those may turn out to be ours
    incarnation: str = ""  # another one after every restart, where the backend tells
    reason: str = ""  # why it is withheld, in the words of whoever said so


class NodeNews:
    """Remembers what was told. A node of which the backend is not sure stays what it was."""

    def __init__(self) -> None:
        self._up: dict[str, SeenNode] = {}

    def begin(self, nodes: Iterable[SeenNode]) -> tuple[Node, ...] | None:
        """The nodes that are up, which then are told; None while one of them is unclear."""
        up: dict[str, SeenNode] = {}
        for seen in nodes:
            if seen.health is Health.UNCLEAR:
                if seen.node.id not in self._up:
                    return None
                seen = self._up[seen.node.id]
            if seen.health is Health.UP:
                up[seen.node.id] = _with_occupied(seen, 0)
        self._up = up
        return tuple(seen.node for seen in up.values())

    def unusable(self, nodes: Iterable[SeenNode], time: float) -> list[tuple[Node, NodeDown]]:
        """Nodes that there are and that are not used, and why."""
        return [
            (seen.node, _down(seen.node.id, seen, time))
            for seen in nodes
            if seen.health in (Health.WITHHELD, Health.DOWN) and seen.node.gpus > 0
        ]

    def tell(self, nodes: Iterable[SeenNode], time: float) -> list[Event]:
        """What changed, the nodes that are gone first."""
        present = {seen.node.id: seen for seen in nodes}
        events: list[Event] = []
        for name, told in list(self._up.items()):
            if not _stays(told, present.get(name)):
                del self._up[name]
                events.append(_down(name, present.get(name), time))
        for name, seen in present.items():
            if seen.health is Health.UP and name not in self._up:
                self._up[name] = _with_occupied(seen, 0)
                events.append(NodeUp(time, seen.node))
        for name, told in list(self._up.items()):
            now = present[name]
            gpus = min(now.occupied, told.node.gpus)
            if gpus > told.occupied and not now.settled:
                gpus = told.occupied
            if (gpus, now.contested) != (told.occupied, told.contested):
                self._up[name] = _with_occupied(told, gpus, now.contested)
                events.append(NodeOccupied(time, name, gpus, now.contested))
        return events


def _down(name: str, now: SeenNode | None, time: float) -> NodeDown:
    if now is None:
        return NodeDown(time, name)
    return NodeDown(time, name, now.reason, withheld=now.health is Health.WITHHELD)


def _stays(told: SeenNode, now: SeenNode | None) -> bool:
    if now is None or now.health is Health.UNCLEAR:
        return now is not None
    same = now.node == told.node and now.incarnation == told.incarnation
    return now.health is Health.UP and same


def _with_occupied(seen: SeenNode, gpus: int, contested: bool = False) -> SeenNode:
    return SeenNode(
        seen.node,
        seen.address,
        occupied=gpus,
        contested=contested,
        incarnation=seen.incarnation,
    )
