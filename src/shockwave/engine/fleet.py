"""Which nodes may be used: those that the engine has, less those that the operator withholds.

Two parties speak about nodes and do not know of each other. The engine tells what is up and
what others hold; the operator drains nodes and gives them back. Here both become the events
that the journal holds: ``NodeUp`` for a node that may be used from now on, ``NodeDown`` for
one that may not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shockwave.engine.placement import Placer
from shockwave.model.cluster import Node
from shockwave.model.events import Event, NodeDown, NodeOccupied, NodeUp


@dataclass
class _Withheld:
    """A node that is up, but not for us."""

    node: Node
    occupied: int = 0


class Fleet:
    """Turns news and requests about nodes into events; ``placer`` has what may be used now."""

    def __init__(self, placer: Placer) -> None:
        self._placer = placer
        self._drained: set[str] = set()  # by the operator
        self._withheld: dict[str, _Withheld] = {}

    # What the engine says.

    def news(self, event: Event) -> list[Event]:
        """What an engine's event means for us: often just that, nothing if it is not new."""
        match event:
            case NodeUp():
                return self._up(event)
            case NodeDown():
                self._withheld.pop(event.node, None)
                return [] if self._placer.node(event.node) is None else [event]
            case NodeOccupied():
                return self._occupied(event)
        return [event]

    def fit(self, nodes: Iterable[Node], time: float) -> list[Event]:
        """The engine has exactly these nodes: what has to change so that we have them too."""
        wanted = {node.id: node for node in nodes}
        gone = [node for node in self._placer.nodes() if wanted.get(node.id) != node]
        events: list[Event] = [NodeDown(time, node.id) for node in gone]
        kept = {node.id for node in self._placer.nodes()} - {node.id for node in gone}
        self._withheld = {}
        for node in wanted.values():
            if node.id in kept:
                continue
            if node.id in self._drained:
                self._withheld[node.id] = _Withheld(node)
            else:
                events.append(NodeUp(time, node))
        return events

    def _up(self, event: NodeUp) -> list[Event]:
        node = event.node
        known = self._placer.node(node.id)
        if known == node:
            return []
        # It has other GPUs than before, so it was away in between.
        events: list[Event] = [] if known is None else [NodeDown(event.time, node.id)]
        if node.id in self._drained:
            withheld = self._withheld.get(node.id)
            if withheld is None or withheld.node != node:
                self._withheld[node.id] = _Withheld(node)
            return events
        self._withheld.pop(node.id, None)
        return [*events, event]

    def _occupied(self, event: NodeOccupied) -> list[Event]:
        withheld = self._withheld.get(event.node)
        if withheld is not None:
            withheld.occupied = event.gpus
            return []
        known = self._placer.node(event.node)
        if known is None or self._placer.occupied(event.node) == event.gpus:
            return []
        return [event]

    # What the operator says.

    def drain(self, node_id: str, time: float) -> list[Event]:
        """Nothing may use the node from now on, also when it comes up again."""
        self._drained.add(node_id)
        node = self._placer.node(node_id)
        if node is None:
            return []
        self._withheld[node_id] = _Withheld(node, self._placer.occupied(node_id))
        return [NodeDown(time, node_id)]

    def resume(self, node_id: str, time: float) -> list[Event]:
        """The node may be used again: now if it is up, else when it comes up."""
        self._drained.discard(node_id)
        back = self._withheld.pop(node_id, None)
        if back is None:
            return []
        events: list[Event] = [NodeUp(time, back.node)]
        if back.occupied:
            events.append(NodeOccupied(time, node_id, back.occupied))
        return events

    # What a journal says.

    def restore(self, event: Event) -> None:
        """To be told of every event of a journal, before the placer is."""
        if isinstance(event, NodeDown):
            node = self._placer.node(event.node)
            if node is not None:
                self._withheld[node.id] = _Withheld(node, self._placer.occupied(node.id))
        elif isinstance(event, NodeUp):
            self._withheld.pop(event.node.id, None)

    def restored(self, drained: Iterable[str]) -> None:
        """After the last event: these nodes are drained. Others that are down may come back."""
        self._drained = set(drained)
