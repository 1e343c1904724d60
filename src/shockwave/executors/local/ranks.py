"""Who the ranks of a gang are, and which GPU each of them sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from shockwave.executors.local.names import file_name
from shockwave.model.cluster import Node
from shockwave.model.errors import InputError
from shockwave.model.events import Placement


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

    def locks(self, placement: Placement) -> list[Path]:
        """The files that stand for the slots: whoever locks one has the GPU."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return [
            self._folder / f"{file_name(node)}-{slot}.lock"
            for node, slots in placement
            for slot in slots
        ]

    def variables(self, placement: Placement, shared: Mapping[str, str]) -> list[dict[str, str]]:
        """The environment of every rank, in order; the port is found when the ranks start."""
        ranks: list[dict[str, str]] = []
        world_size = sum(len(slots) for _, slots in placement)
        for node_rank, (node, slots) in enumerate(placement):
            for local_rank, slot in enumerate(slots):
                ranks.append(
                    {
                        **shared,
                        "RANK": str(len(ranks)),
                        "LOCAL_RANK": str(local_rank),
                        "GROUP_RANK": str(node_rank),
                        "WORLD_SIZE": str(world_size),
                        "LOCAL_WORLD_SIZE": str(len(slots)),
                        "MASTER_ADDR": "127.0.0.1",
                        "CUDA_VISIBLE_DEVICES": self._devices[self._first_device[node] + slot],
                    }
                )
        return ranks
