"""What is known of a Ray cluster: the last look at it, and the requests to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shockwave.executors.gangs.errors import BackendAway
from shockwave.executors.ray.client import RayClient
from shockwave.model.cluster import Node


@dataclass(frozen=True, slots=True)
class RayNode:
    """A node with GPUs. ``ray_id`` is another one after every restart of the node."""

    name: str
    ray_id: str
    address: str
    gpus: int
    gpu_type: str
    foreign: int  # GPUs that others hold
    settled: bool = True  # else some of them may turn out to be ours

    @property
    def node(self) -> Node:
        return Node(self.name, self.gpus, self.gpu_type)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a part does not live, in Ray's words."""

    message: str
    node_died: bool
    started: bool  # else it failed before it could do anything


@dataclass(frozen=True, slots=True)
class Sight:
    """How things were when Ray was last asked.

    ``gangs`` has the parts that live or wait, by the gang's name: part -> whether it runs.
    """

    nodes: dict[str, RayNode] = field(default_factory=dict)  # by name
    gangs: dict[str, dict[int, bool]] = field(default_factory=dict)


class RayCluster:
    """Asks Ray through a client. ``trouble`` says why it does not answer, if it does not."""

    def __init__(self, client: RayClient) -> None:
        self._client = client
        self.trouble: str | None = "Ray was not asked yet"
        self.sight = Sight()

    @property
    def bridge_pid(self) -> int | None:
        return self._client.bridge_pid

    def look(self) -> bool:
        """Takes another look. False if Ray does not answer; then all is as it was."""
        try:
            answer = self._client.ask("look")
        except BackendAway as error:
            self.trouble = str(error)
            return False
        self.trouble = None
        gangs = {
            name: {int(part): how == "running" for part, how in parts.items()}
            for name, parts in answer["gangs"].items()
        }
        self.sight = Sight(_named(answer["nodes"]), gangs)
        return True

    # All of these raise BackendAway.

    def start(self, gangs: Sequence[dict[str, Any]]) -> None:
        self._ask("start", gangs=list(gangs))

    def terminate(self, names: Sequence[str]) -> set[str]:
        """Returns those that had not even started: they have ended already."""
        return set(self._ask("terminate", names=list(names))["ended"])

    def end(self, names: Sequence[str]) -> None:
        """Also gives back the GPUs of gangs that have ended by themselves."""
        self._ask("end", names=list(names))

    def causes(self, names: Sequence[str]) -> dict[str, dict[int, Cause]]:
        """Why parts of these gangs do not live, as far as Ray remembers."""
        answer = self._ask("causes", names=list(names))
        return {
            name: {int(part): Cause(**cause) for part, cause in parts.items()}
            for name, parts in answer.items()
        }

    def close(self) -> None:
        self._client.close()

    def _ask(self, do: str, **what: Any) -> dict[str, Any]:
        try:
            return self._client.ask(do, **what)
        except BackendAway as error:
            self.trouble = str(error)
            raise


def _named(records: Sequence[dict[str, Any]]) -> dict[str, RayNode]:
    """Nodes with GPUs by the name that Ray knows them by, its address unless it was given one.

    Where several have the same name, part of Ray's own id makes the difference.
    """
    with_gpus = [record for record in records if record["gpus"]]
    count = Counter(record["name"] for record in with_gpus)
    nodes = {}
    for record in sorted(with_gpus, key=lambda record: (record["name"], record["ray_id"])):
        name = record["name"]
        if count[name] > 1:
            name = f"{name}-{record['ray_id'][:6]}"
        gpu_type = (record["gpu_type"] or "gpu").lower()
        nodes[name] = RayNode(**{**record, "name": name, "gpu_type": gpu_type})
    return nodes
