"""Nodes as Slurm tells of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shockwave.executors.gangs.nodes import Health, SeenNode
from shockwave.executors.slurm.jobs import gpus_in
from shockwave.model.cluster import Node

_TYPE = re.compile(r"gpu:([A-Za-z_][^:,()]*):")
_SYMBOLS = "*~#!%$@^-"  # behind a state, in Slurm before 21.08
_DOWN = {"DOWN", "ERROR", "FUTURE", "INVAL", "INVALID_REG"}
_WITHHELD = {
    "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINT", "MAINTENANCE", "RESERVED",
    "REBOOT_ISSUED",
}  # fmt: skip
_UNCLEAR = {"UNKNOWN", "NOT_RESPONDING", "NO_RESPOND"}


@dataclass(frozen=True, slots=True)
class SlurmNode:
    name: str
    address: str
    state: str
    gpus: int
    gpu_type: str
    gpus_used: int  # by anybody
    partitions: frozenset[str]
    features: frozenset[str]
    reason: str  # why it is not used, in the words of whoever said so

    @property
    def health(self) -> Health:
        flags = {flag.rstrip(_SYMBOLS) for flag in self.state.upper().split("+")}
        if flags & _DOWN:
            return Health.DOWN
        if flags & _WITHHELD:
            return Health.WITHHELD
        if flags & _UNCLEAR or "*" in self.state:
            return Health.UNCLEAR
        return Health.UP

    def seen(self, occupied: int) -> SeenNode:
        """As any backend shows it, with the GPUs of it that others hold."""
        node = Node(self.name, self.gpus, self.gpu_type)
        why = self.reason or self.state
        return SeenNode(node, self.address, self.health, occupied, reason=why)


def read_nodes(text: str) -> list[SlurmNode]:
    """The answer to ``scontrol --oneliner --details show nodes``."""
    return [_node(line) for line in text.splitlines() if line.startswith("NodeName=")]


def _node(line: str) -> SlurmNode:
    gpus = _value(line, "Gres")
    kind = _TYPE.search(gpus)
    name = _value(line, "NodeName")
    return SlurmNode(
        name=name,
        address=_value(line, "NodeAddr") or name,
        state=_value(line, "State"),
        gpus=gpus_in(gpus),
        gpu_type=kind.group(1) if kind else "gpu",
        gpus_used=gpus_in(_value(line, "GresUsed")),
        partitions=frozenset(_value(line, "Partitions").split(",")) - {""},
        features=frozenset(_value(line, "AvailableFeatures").split(",")) - {""},
        reason=line.partition(" Reason=")[2].strip(),
    )


def _value(line: str, key: str) -> str:
    """The first value by that name: whatever people wrote about a node comes last."""
    match = re.search(rf"(?:^|\s){key}=(\S*)", line)
    return "" if match is None or match.group(1) in ("(null)", "N/A") else match.group(1)
