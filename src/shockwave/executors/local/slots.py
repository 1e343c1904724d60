"""Which GPU slots there are, and which of them each rank of a gang sees."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from shockwave.model.cluster import Node
from shockwave.model.errors import InputError
from shockwave.model.events import Placement
from shockwave.protocol.environment import DEVICES
from shockwave.protocol.locks import open_lock
from shockwave.protocol.names import file_name
from shockwave.protocol.records import Part


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
                return f"node {node_id} has {node.gpus} slots, not {slots}"
        return None if any(slots for _, slots in placement) else "a gang needs at least one GPU"

    def part(self, placement: Placement, parts: Sequence[Part]) -> Part:
        """The ranks of all parts as one: however many nodes there are, all are this machine."""
        ranks: list[dict[str, str]] = []
        for (node, slots), part in zip(placement, parts, strict=True):
            for slot, variables in zip(slots, part.ranks, strict=True):
                device = self._devices[self._first_device[node] + slot]
                ranks.append({**variables, DEVICES: device})
        return Part(", ".join(node for node, _ in placement), ranks)

    def open_locks(self, placement: Placement) -> list[int]:
        """Descriptors of the files that stand for the slots: whoever locks one has the GPU.

        They are opened here, because the user of a job may not open them. In one order for all,
        so that gangs that wait for each other's slots cannot lock each other out. Raises
        :class:`OSError`.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = [f"{file_name(node)}-{slot}.lock" for node, slots in placement for slot in slots]
        with ExitStack() as opened:
            descriptors = []
            for name in sorted(names):
                descriptors.append(descriptor := open_lock(self._folder / name))
                opened.callback(os.close, descriptor)
            opened.pop_all()
        return descriptors
