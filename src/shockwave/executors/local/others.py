"""GPUs on which processes of others compute: not ours to use until they have ended.

A GPU whose slot a gang of ours has locked is ours, whoever else may be on it. On the rest, a
process counts when it is seen twice in a row: one of ours that has just ended may still be listed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shockwave.executors.local.nvidia import Gpu, Library
from shockwave.executors.local.slots import Slots
from shockwave.model.cluster import Node
from shockwave.model.events import Event, NodeOccupied

LOOK_SECONDS = 2.0  # between two looks at all GPUs


class Others:
    """Looks at the GPUs of all slots now and then, and tells what changed."""

    def __init__(
        self,
        library: Library,
        slots: Slots,
        nodes: Sequence[Node],
        clock: Callable[[], float],
    ) -> None:
        self._library = library
        self._slots = slots
        self._clock = clock
        gpus = library.gpus()
        self._gpus: dict[tuple[str, int], Gpu] = {
            (node.id, slot): gpu
            for node in nodes
            for slot in range(node.gpus)
            for gpu in gpus
            if gpu.is_called(slots.device(node.id, slot))
        }
        self._seen: dict[tuple[str, int], frozenset[int]] = {}
        self._told: dict[str, tuple[int, ...]] = {node.id: () for node in nodes}
        self._looked: float | None = None

    def hold(self, node: str, slot: int) -> bool:
        """Whether others computed on it at the last look."""
        return slot in self._told[node]

    @property
    def gpus(self) -> list[Gpu]:
        """Those that slots stand for."""
        return list(self._gpus.values())

    def news(self, time: float) -> list[Event]:
        """What changed since the last time, at most every so often."""
        now = self._clock()
        if self._looked is not None and now - self._looked < LOOK_SECONDS:
            return []
        self._looked = now
        taken: dict[str, list[int]] = {node: [] for node in self._told}
        for place, gpu in self._gpus.items():
            node, slot = place
            computing = self._library.computing(gpu)
            before, self._seen[place] = self._seen.get(place, frozenset()), computing
            if computing & before and not self._slots.is_taken(node, slot):
                taken[node].append(slot)
        events: list[Event] = []
        for node, slots in taken.items():
            told, self._told[node] = self._told[node], tuple(slots)
            if len(told) != len(slots):
                events.append(NodeOccupied(time, node, len(slots)))
        return events
