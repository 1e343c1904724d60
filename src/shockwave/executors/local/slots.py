"""Which GPU slots there are, and which of them each rank of a gang sees."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from pathlib import Path

from shockwave.model.cluster import Node
from shockwave.model.errors import InputError
from shockwave.model.events import Placement
from shockwave.model.words import count_of
from shockwave.protocol.environment import DEVICES
from shockwave.protocol.locks import is_held, open_lock
from shockwave.protocol.names import file_name
from shockwave.protocol.records import LaunchRecord, Part


class Slots:
    """The GPU slots of this machine. Several nodes share it one after the other.

    Slot ``s`` of a node is device ``s`` plus the slots of the nodes before it, so that no two
    gangs ever see the same device. ``devices`` names the devices where they are not simply
    0, 1, 2, ...; raises :class:`InputError` if there are fewer than slots.
    """

    def __init__(
        self, root: Path, nodes: tuple[Node, ...], devices: Sequence[str] | None = None
    ) -> None:
        self._folder = root / "slots"
        self._nodes = {node.id: node for node in nodes}
        self._first_device: dict[str, int] = {}
        count = 0
        for node in nodes:
            self._first_device[node.id] = count
            count += node.gpus
        self._devices = [str(number) for number in range(count)] if devices is None else devices
        if len(self._devices) < count:
            raise InputError(
                f"must name a device for each of {count} GPU slots",
                place="devices",
                value=tuple(self._devices),
            )

    def problem(self, placement: Placement) -> str | None:
        """Why a gang cannot be placed like that, or None."""
        for node_id, slots in placement:
            node = self._nodes.get(node_id)
            if node is None:
                return f"node {node_id} is not one of this machine ({', '.join(self._nodes)})"
            if any(not 0 <= slot < node.gpus for slot in slots):
                return f"node {node_id} has {count_of(node.gpus, 'slot')}, not {slots}"
        return None  # one without slots needs no GPU

    def device(self, node: str, slot: int) -> str:
        """What ``CUDA_VISIBLE_DEVICES`` says on a slot."""
        return self._devices[self._first_device[node] + slot]

    def is_taken(self, node: str, slot: int) -> bool:
        """Whether processes of ours are on it."""
        return is_held(self._lock(node, slot))

    def _lock(self, node: str, slot: int) -> Path:
        return self._folder / f"{file_name(node)}-{slot}.lock"

    def elsewhere(
        self,
        placement: Placement,
        promised: Collection[tuple[str, int]],
        avoided: Callable[[str, int], bool],
    ) -> Placement:
        """The placement on slots of the same nodes that nobody else has.

        A slot that is not ``avoided`` stays where it is, as long as it is not ``promised`` to
        another gang. One that a gang of ours is just leaving comes last: it has to be waited for.
        """
        found: list[tuple[str, tuple[int, ...]]] = []
        for node, slots in placement:
            free = [n for n in range(self._nodes[node].gpus) if (node, n) not in promised]
            keys = {n: (avoided(node, n), self.is_taken(node, n)) for n in free}
            chosen: list[int] = []
            for slot in slots:
                left = [n for n in free if n not in chosen]
                chosen.append(min(left, key=lambda n: (*keys[n], n != slot), default=slot))
            found.append((node, tuple(chosen)))
        return tuple(found)

    def of_record(self, record: LaunchRecord | None, ordered: Placement) -> Placement:
        """The slots that an earlier scheduler really gave a launch, by their devices."""
        if record is None:
            return ordered
        named = {variables.get(DEVICES) for part in record.parts for variables in part.ranks}
        found = [
            (node.id, tuple(n for n in range(node.gpus) if self.device(node.id, n) in named))
            for node in self._nodes.values()
        ]
        known = sum(len(slots) for _, slots in found) == sum(len(slots) for _, slots in ordered)
        return tuple((node, slots) for node, slots in found if slots) if known else ordered

    def part(self, placement: Placement, parts: Sequence[Part]) -> Part:
        """The ranks of all parts as one: however many nodes there are, all are this machine."""
        ranks: list[dict[str, str]] = []
        for (node, slots), part in zip(placement, parts, strict=bool(placement)):
            for slot, variables in zip(slots, part.ranks, strict=True):
                ranks.append({**variables, DEVICES: self.device(node, slot)})
        if not placement:  # it needs no GPU, and shall find none
            return Part("", [{**variables, DEVICES: ""} for variables in parts[0].ranks])
        return Part(", ".join(node for node, _ in placement), ranks)

    def open_locks(self, placement: Placement) -> list[int]:
        """Descriptors of the files that stand for the slots: whoever locks one has the GPU.

        They are opened here, because the user of a job may not open them. In one order for all,
        so that gangs that wait for each other's slots cannot lock each other out. Raises
        :class:`OSError`.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        paths = [self._lock(node, slot) for node, slots in placement for slot in slots]
        with ExitStack() as opened:
            descriptors = []
            for path in sorted(paths):
                descriptors.append(descriptor := open_lock(path))
                opened.callback(os.close, descriptor)
            opened.pop_all()
        return descriptors
