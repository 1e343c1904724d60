"""Nodes as Slurm tells of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shockwave.executors.gangs.nodes import Health, SeenNode
from shockwave.executors.options import UNKNOWN_TYPE
from shockwave.executors.slurm.fields import value_of
from shockwave.executors.slurm.jobs import gpus_in
from shockwave.model.cluster import Node

_TYPE = re.compile(r"gpu:([^:,()]*[^:,()0-9][^:,()]*):(?=[0-9])")
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
    gpu_type: str  # a node with several is of a type of its own: a100+1g.10gb
    gpus_used: int  # by anybody
    partitions: frozenset[str]
    features: frozenset[str]
    reason: str  # why it is not used, in the words of whoever said so
    cpus: int = 1
    cpus_used: int = 0  # by anybody
    memory_mb: int = 0
    memory_mb_used: int = 0  # by anybody; stays 0 where Slurm does not share out memory

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

    def has(self, gpu_type: str) -> bool:
        """Whether some of its GPUs are of this type."""
        return gpu_type in self.gpu_type.split("+")

    def blocked_gpus(self, cpus_per_gpu: int, mb_per_gpu: int) -> int:
        """GPUs that nobody holds and nobody can have: processors or memory for them are gone."""
        free = max(self.gpus - self.gpus_used, 0)
        cpus = max(self.cpus - self.cpus_used, 0)
        room = min(free, cpus // cpus_per_gpu) if cpus_per_gpu else (free if cpus else 0)
        if mb_per_gpu:
            room = min(room, max(self.memory_mb - self.memory_mb_used, 0) // mb_per_gpu)
        return free - room

    def seen(self, occupied: int, contested: bool = False) -> SeenNode:
        """As any backend shows it, with the GPUs of it that others hold."""
        node = Node(self.name, self.gpus, self.gpu_type)
        why = f"{self.state.lower()} in Slurm" + (f": {self.reason}" if self.reason else "")
        return SeenNode(node, self.address, self.health, occupied, contested, reason=why)


def read_nodes(text: str) -> list[SlurmNode]:
    """The answer to ``scontrol --oneliner --details show nodes``."""
    return [_node(line) for line in text.splitlines() if line.startswith("NodeName=")]


def _node(line: str) -> SlurmNode:
    gpus = value_of(line, "Gres")
    name = value_of(line, "NodeName")
    return SlurmNode(
        name=name,
        address=value_of(line, "NodeAddr") or name,
        state=value_of(line, "State"),
        gpus=gpus_in(gpus),
        gpu_type="+".join(dict.fromkeys(_TYPE.findall(gpus))) or UNKNOWN_TYPE,
        gpus_used=gpus_in(value_of(line, "GresUsed")),
        partitions=frozenset(value_of(line, "Partitions").split(",")) - {""},
        features=frozenset(value_of(line, "AvailableFeatures").split(",")) - {""},
        reason=line.partition(" Reason=")[2].strip(),
        cpus=int(value_of(line, "CPUTot") or 1),
        cpus_used=int(value_of(line, "CPUAlloc") or 0),
        memory_mb=int(value_of(line, "RealMemory") or 0),
        memory_mb_used=int(value_of(line, "AllocMem") or 0),
    )
