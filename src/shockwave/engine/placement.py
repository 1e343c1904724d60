"""Which GPUs a gang gets: together where possible, in place once running.

A running gang never moves, because a move costs it a restart. Gangs that start are placed
largest first, each on the node that it fits most tightly; only a gang that no single node
can hold spans several, as few as possible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.cluster import Node
from shockwave.model.errors import ExecutorError
from shockwave.model.events import Placement
from shockwave.model.view import Ints


@dataclass
class _Slots:
    node: Node
    free: list[int]  # ascending slot numbers


class Placer:
    """Keeps track of who holds which GPU slot of which node."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self._nodes: list[_Slots] = []
        self._index: dict[str, int] = {}
        self._held: dict[int, Placement] = {}
        self._free: Ints = np.empty(0, dtype=np.int64)
        self.gpus = 0  # on nodes that are up
        self.largest_node = 0  # GPUs of the largest node that is up
        for node in nodes:
            self.add(node)

    def add(self, node: Node) -> None:
        """A node joins, or comes back empty."""
        if node.id in self._index:
            raise ExecutorError(f"node {node.id} came up, but it was never reported down")
        self._index[node.id] = len(self._nodes)
        self._nodes.append(_Slots(node, list(range(node.gpus))))
        self._free = np.append(self._free, node.gpus)
        self._count()

    def remove(self, node_id: str) -> list[int]:
        """A node is gone; returns the handles of the gangs that held GPUs on it.

        Those gangs still hold their slots on other nodes until they are released.
        """
        index = self._index.pop(node_id, None)
        if index is None:
            return []
        self._free[index] = 0
        self._nodes[index].free.clear()
        self._count()
        return self.holders(node_id)

    def holders(self, node_id: str) -> list[int]:
        """Handles of the gangs that hold GPUs on a node."""
        return [
            handle
            for handle, placement in self._held.items()
            if any(node == node_id for node, _ in placement)
        ]

    def release(self, handles: list[int]) -> None:
        """These gangs gave up their GPUs."""
        for handle in handles:
            for node_id, slots in self._held.pop(handle, ()):
                index = self._index.get(node_id)
                if index is not None:
                    self._nodes[index].free.extend(slots)
                    self._nodes[index].free.sort()
                    self._free[index] += len(slots)

    def claim(self, handle: int, placement: Placement) -> None:
        """A gang holds exactly these slots already, as a journal says."""
        if handle in self._held:
            return
        for node_id, slots in placement:
            index = self._index.get(node_id)
            if index is not None:
                free = self._nodes[index].free
                self._nodes[index].free = [slot for slot in free if slot not in slots]
                self._free[index] = len(self._nodes[index].free)
        self._held[handle] = placement

    def placement(self, handle: int) -> Placement:
        """The slots that a gang holds; empty if it holds none."""
        return self._held.get(handle, ())

    def nodes(self) -> list[Node]:
        """The nodes that are up."""
        return [self._nodes[index].node for index in self._index.values()]

    def place(self, handles: list[int], gpus: list[int]) -> dict[int, Placement]:
        """Place gangs that start now. Together they must fit the free GPUs."""
        by_size: dict[int, list[int]] = {}
        for handle, size in zip(handles, gpus, strict=True):
            by_size.setdefault(size, []).append(handle)
        placed: dict[int, Placement] = {}
        for size in sorted(by_size, reverse=True):
            gangs = by_size[size]
            done = self._place_whole(gangs, size, placed)
            for handle in gangs[done:]:
                placed[handle] = self._place_spanning(size)
        self._held.update(placed)
        return placed

    def _place_whole(self, gangs: list[int], size: int, placed: dict[int, Placement]) -> int:
        """Place equal gangs on single nodes, tightest first; returns how many it placed."""
        candidates = np.flatnonzero(self._free >= size)
        candidates = candidates[np.argsort(self._free[candidates], kind="stable")]
        done = 0
        for index in candidates.tolist():
            for _ in range(int(self._free[index]) // size):
                if done == len(gangs):
                    return done
                placed[gangs[done]] = (self._take(index, size),)
                done += 1
        return done

    def _place_spanning(self, size: int) -> Placement:
        """Emptiest nodes first, so that the gang spans as few nodes as possible."""
        parts = []
        for index in np.argsort(-self._free, kind="stable").tolist():
            count = min(size, int(self._free[index]))
            parts.append(self._take(index, count))
            size -= count
            if size == 0:
                return tuple(parts)
        raise ValueError("gang does not fit the free GPUs")

    def _take(self, index: int, count: int) -> tuple[str, tuple[int, ...]]:
        slots = self._nodes[index]
        taken = tuple(slots.free[:count])
        del slots.free[:count]
        self._free[index] -= count
        return slots.node.id, taken

    def _count(self) -> None:
        sizes = [self._nodes[index].node.gpus for index in self._index.values()]
        self.gpus = sum(sizes)
        self.largest_node = max(sizes, default=0)
