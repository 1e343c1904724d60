"""Which GPUs a gang gets: together where possible, in place once running.

A running gang never moves, because a move costs it a restart. Gangs that start are placed
largest first, each on the node that it fits most tightly; only a gang that no single node
can hold spans several, as few as possible. Gangs that may use some nodes only come before
those that may use all.

Others may hold GPUs too. Which slots those are does not matter, only how many: that many are
not free. A gang keeps what it holds even where that leaves others with less than they say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from shockwave.model.cluster import Node
from shockwave.model.errors import ExecutorError
from shockwave.model.events import Placement
from shockwave.model.view import Ints

_NO_NODES: Ints = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class TypeRoom:
    """The GPUs of one type on nodes that are up."""

    name: str
    gpus: int  # without those that others hold
    largest_node: int  # with them


class Placer:
    """Keeps track of who holds which GPU slot of which node.

    A copy is cheap, so that whoever decides can try on a copy what would fit.
    """

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self._nodes: list[Node] = []  # all that were ever here
        self._slots: list[tuple[int, ...]] = []  # ascending, that no gang of ours holds
        self._occupied: list[int] = []  # GPUs that others hold
        self._index: dict[str, int] = {}  # of those that are up
        self._held: dict[int, Placement] = {}
        self._free: Ints = np.empty(0, dtype=np.int64)  # slots to place on
        self.gpus = 0  # on nodes that are up, without those that others hold
        self.largest_node = 0  # the most of these on one node
        self._by_type: dict[str, Ints] | None = {}  # nodes that are up; None: to be counted
        for node in nodes:
            self.add(node)

    def copy(self) -> Placer:
        twin = Placer(())
        twin._nodes = self._nodes.copy()
        twin._slots = self._slots.copy()
        twin._occupied = self._occupied.copy()
        twin._index = self._index.copy()
        twin._held = self._held.copy()
        twin._free = self._free.copy()
        twin.gpus, twin.largest_node = self.gpus, self.largest_node
        twin._by_type = self._by_type
        return twin

    def add(self, node: Node) -> None:
        """A node joins or comes back: empty, but for gangs that have not left it yet."""
        if node.id in self._index:
            raise ExecutorError(f"node {node.id} came up, but it was never reported down")
        taken = {
            slot
            for placement in self._held.values()
            for name, slots in placement
            if name == node.id
            for slot in slots
        }
        free = tuple(slot for slot in range(node.gpus) if slot not in taken)
        self._index[node.id] = len(self._nodes)
        self._nodes.append(node)
        self._slots.append(free)
        self._occupied.append(0)
        self._free = np.append(self._free, len(free))
        self._count()

    def remove(self, node_id: str) -> list[int]:
        """A node is gone; returns the handles of the gangs that held GPUs on it.

        Those gangs still hold their slots on other nodes until they are released.
        """
        index = self._index.pop(node_id, None)
        if index is None:
            return []
        self._set_free(index, ())
        self._count()
        return self.holders(node_id)

    def occupy(self, node_id: str, gpus: int) -> None:
        """Others hold ``gpus`` GPUs of a node now; nothing if it is not up."""
        index = self._index.get(node_id)
        if index is not None:
            self._occupied[index] = min(max(gpus, 0), self._nodes[index].gpus)
            self._set_free(index, self._slots[index])
            self._count()

    def occupied(self, node_id: str) -> int:
        """How many GPUs of a node others hold."""
        index = self._index.get(node_id)
        return 0 if index is None else self._occupied[index]

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
                    self._set_free(index, tuple(sorted((*self._slots[index], *slots))))

    def claim(self, handle: int, placement: Placement) -> None:
        """A gang holds exactly these slots already, as a journal says."""
        if handle in self._held:
            return
        for node_id, slots in placement:
            index = self._index.get(node_id)
            if index is not None:
                free = self._slots[index]
                self._set_free(index, tuple(slot for slot in free if slot not in slots))
        self._held[handle] = placement

    def take_back(self, handle: int, placement: Placement) -> bool:
        """A gang that has just given up these slots gets them again, if nobody has them now."""
        for node_id, slots in placement:
            index = self._index.get(node_id)
            if index is None or self._free[index] < len(slots):
                return False
            if not set(slots) <= set(self._slots[index]):
                return False
        self.claim(handle, placement)
        return True

    def placement(self, handle: int) -> Placement:
        """The slots that a gang holds; empty if it holds none."""
        return self._held.get(handle, ())

    def held(self) -> Mapping[int, Placement]:
        """All gangs that hold slots, by handle."""
        return self._held

    def nodes(self) -> list[Node]:
        """The nodes that are up."""
        return [self._nodes[index] for index in self._index.values()]

    def node(self, node_id: str) -> Node | None:
        """A node that is up."""
        index = self._index.get(node_id)
        return None if index is None else self._nodes[index]

    def capacity(self, allowed: Iterable[str]) -> int:
        """GPUs of these nodes, free or held by us."""
        return sum(self._usable(self._index[name]) for name in allowed if name in self._index)

    def room(self, allowed: Iterable[str] | None = None) -> int:
        """GPUs of these nodes, or of all, that are free now."""
        if allowed is None:
            return int(self._free.sum())
        return int(sum(self._free[self._index[name]] for name in allowed if name in self._index))

    def place(
        self,
        handles: list[int],
        gpus: list[int],
        allowed: Mapping[int, frozenset[str]] | None = None,
    ) -> dict[int, Placement]:
        """Place gangs that start now, most preferred first; those that do not fit are left out.

        ``allowed`` names the nodes of the gangs that may not use all. Without such gangs, all
        fit that together need no more than the free GPUs.
        """
        if not allowed:
            return self._place_anywhere(handles, gpus)
        size_of = dict(zip(handles, gpus, strict=True))
        bound = {handle: size_of[handle] for handle in handles if handle in allowed}
        rest = [handle for handle in handles if handle not in allowed]
        # Those with the least room first. Of these the largest, if all fit, else as they come.
        room = {handle: self.capacity(allowed[handle]) for handle in bound}
        placed = self._place_bound(
            sorted(bound, key=lambda handle: (room[handle], -bound[handle])), bound, allowed
        )
        if len(placed) < len(bound):
            self.release(list(placed))
            placed = self._place_bound(sorted(bound, key=room.__getitem__), bound, allowed)
        return placed | self._place_anywhere(rest, [size_of[handle] for handle in rest])

    def _place_bound(
        self, handles: list[int], gpus: Mapping[int, int], allowed: Mapping[int, frozenset[str]]
    ) -> dict[int, Placement]:
        placed: dict[int, Placement] = {}
        for handle in handles:
            placement = self._place_among(gpus[handle], allowed[handle])
            if placement:
                self._held[handle] = placed[handle] = placement
        return placed

    def _place_among(self, size: int, allowed: frozenset[str]) -> Placement:
        """One gang on some of the nodes only; empty if it does not fit."""
        indices = [self._index[name] for name in allowed if name in self._index]
        indices.sort(key=lambda index: (int(self._free[index]), index))
        for index in indices:
            if self._free[index] >= size:
                return (self._take(index, size),)
        return self._place_spanning(size, indices[::-1])

    def _place_anywhere(
        self, handles: list[int], gpus: list[int], within: Ints | None = None
    ) -> dict[int, Placement]:
        by_size: dict[int, list[int]] = {}
        for handle, size in zip(handles, gpus, strict=True):
            by_size.setdefault(size, []).append(handle)
        placed: dict[int, Placement] = {}
        for size in sorted(by_size, reverse=True):
            gangs = by_size[size]
            done = self._place_whole(gangs, size, placed, within)
            for handle in gangs[done:]:
                free = self._free if within is None else self._free[within]
                emptiest_first = np.argsort(-free, kind="stable")
                placement = self._place_spanning(
                    size, emptiest_first if within is None else within[emptiest_first]
                )
                if not placement:
                    break  # nor does another gang of this size fit
                placed[handle] = placement
        self._held.update(placed)
        return placed

    def _place_whole(
        self, gangs: list[int], size: int, placed: dict[int, Placement], within: Ints | None
    ) -> int:
        """Place equal gangs on single nodes, tightest first; returns how many it placed."""
        candidates = np.flatnonzero(self._free >= size)
        if within is not None:
            candidates = np.intersect1d(candidates, within, assume_unique=True)
        candidates = candidates[np.argsort(self._free[candidates], kind="stable")]
        done = 0
        for index in candidates.tolist():
            for _ in range(int(self._free[index]) // size):
                if done == len(gangs):
                    return done
                placed[gangs[done]] = (self._take(index, size),)
                done += 1
        return done

    def _place_spanning(self, size: int, emptiest_first: Iterable[int]) -> Placement:
        """On as few nodes as possible; empty if the gang does not fit these nodes."""
        counts: list[tuple[int, int]] = []
        for index in map(int, emptiest_first):
            count = min(size, int(self._free[index]))
            if count == 0:
                break
            counts.append((index, count))
            size -= count
            if size == 0:
                return tuple(self._take(index, count) for index, count in counts)
        return ()

    def _take(self, index: int, count: int) -> tuple[str, tuple[int, ...]]:
        slots = self._slots[index]
        self._set_free(index, slots[count:])
        return self._nodes[index].id, slots[:count]

    def _set_free(self, index: int, slots: tuple[int, ...]) -> None:
        self._slots[index] = slots
        free = len(slots) - self._occupied[index]
        self._free[index] = free if free > 0 else 0

    def _usable(self, index: int) -> int:
        return self._nodes[index].gpus - self._occupied[index]

    def _count(self) -> None:
        sizes = [self._usable(index) for index in self._index.values()]
        self.gpus = sum(sizes)
        self.largest_node = max(sizes, default=0)
        self._by_type = None

    # Types.

    def types(self) -> list[TypeRoom]:
        """The types of GPUs on nodes that are up, in the order of the nodes."""
        return [
            TypeRoom(
                name,
                sum(self._usable(index) for index in indices.tolist()),
                max(self._nodes[index].gpus for index in indices.tolist()),
            )
            for name, indices in self._nodes_by_type().items()
        ]

    def nodes_of_type(self, gpu_type: str) -> frozenset[str]:
        """The names of the nodes that are up and have such GPUs."""
        indices = self._nodes_by_type().get(gpu_type, _NO_NODES)
        return frozenset(self._nodes[index].id for index in indices.tolist())

    def room_of_type(self, gpu_type: str) -> int:
        """GPUs of a type that are free now."""
        return int(self._free[self._nodes_by_type().get(gpu_type, _NO_NODES)].sum())

    def place_on_type(
        self, gpu_type: str, handles: list[int], gpus: list[int]
    ) -> dict[int, Placement]:
        """As :meth:`place`, on the nodes of one type."""
        within = self._nodes_by_type().get(gpu_type, _NO_NODES)
        return self._place_anywhere(handles, gpus, within)

    def _nodes_by_type(self) -> dict[str, Ints]:
        if self._by_type is None:
            found: dict[str, list[int]] = {}
            for index in self._index.values():
                if self._nodes[index].gpus:
                    found.setdefault(self._nodes[index].gpu_type, []).append(index)
            self._by_type = {name: np.array(indices) for name, indices in found.items()}
        return self._by_type
