"""What became of nodes since the last time it was told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shockwave.executors.slurm.nodes import Health, SlurmNode
from shockwave.model.cluster import Node
from shockwave.model.events import Event, NodeDown, NodeOccupied, NodeUp


class NodeNews:
    """Remembers what was told. A node of which Slurm is not sure stays what it was."""

    def __init__(self) -> None:
        self._up: dict[str, Node] = {}
        self._occupied: dict[str, int] = {}

    def known(self, nodes: Iterable[SlurmNode]) -> tuple[Node, ...] | None:
        """The nodes that are up; None while Slurm is not sure of one that was never told."""
        up = []
        for node in nodes:
            if node.health is Health.UNCLEAR:
                if node.name not in self._up:
                    return None
                up.append(self._up[node.name])
            elif node.health is Health.UP:
                up.append(node.node)
        return tuple(up)

    def tell(
        self, nodes: Iterable[SlurmNode], occupied: Mapping[str, int], time: float
    ) -> list[Event]:
        """News, the nodes that are gone first."""
        present = {node.name: node for node in nodes}
        gone = [name for name, told in self._up.items() if not self._stays(told, present.get(name))]
        events: list[Event] = []
        for name in gone:
            del self._up[name]
            self._occupied.pop(name, None)
            events.append(NodeDown(time, name))
        for node in present.values():
            if node.health is Health.UP and node.name not in self._up:
                self._up[node.name] = node.node
                events.append(NodeUp(time, node.node))
        for name, told in self._up.items():
            gpus = min(occupied.get(name, 0), told.gpus)
            if gpus != self._occupied.get(name, 0):
                self._occupied[name] = gpus
                events.append(NodeOccupied(time, name, gpus))
        return events

    @staticmethod
    def _stays(told: Node, now: SlurmNode | None) -> bool:
        if now is None:
            return False
        return now.health is Health.UNCLEAR or (now.health is Health.UP and now.node == told)
