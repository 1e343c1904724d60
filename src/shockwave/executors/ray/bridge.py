"""The child process that speaks to Ray, so that the scheduler does not have to.

Ray's client may wait for ever for a head that is away, and a restarted head may abort it in
native code. Here that ends only this process, and the scheduler starts another one
(:mod:`shockwave.executors.ray.client`).

Requests and answers are lines of JSON on standard input and output, one at a time, in order.
What cannot be answered ends the process with a last line that says why. In between it gives
back the placement groups of gangs that have ended, because the next gang waits for them.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
from ray import cloudpickle

# For what no public function tells without Ray's dashboard: whether an actor runs, what a node has
# left, and which nodes are being drained (docs/ray.md).
from ray._private import state as ray_state
from ray.util import list_named_actors
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from shockwave import protocol
from shockwave.executors.ray import worker
from shockwave.executors.ray.occupancy import occupancy
from shockwave.protocol.processes import end_with_parent

NAMESPACE = "shockwave"

_NODE_ID = "ray.io/node-id"  # labels that Ray gives to every node
_GPU_TYPE = "ray.io/accelerator-type"
_GPU_TYPE_RESOURCE = "accelerator_type:"
# In the order in which an actor goes through them: one that moves on while we ask is seen twice.
_PENDING = ("DEPENDENCIES_UNREADY", "PENDING_CREATION")
_RUNNING = "ALIVE"
_TIDY_SECONDS = 0.25
_LOOKS = 5
_MOST_GROUPS = 10_000  # to remember
_KILL_SECONDS = 6.0  # for an actor to end its processes itself, on a busy node too

Parts = dict[str, str]  # part (its number as text, as JSON has it) -> pending or running


class Bridge:
    """Answers requests about the gangs whose names begin with ``prefix``."""

    def __init__(self, address: str, prefix: str) -> None:
        self._prefix = prefix
        for module in (worker, protocol):
            cloudpickle.register_pickle_by_value(module)
        ray.init(address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)
        self._actor = ray.remote(worker.PartActor)
        self._node = ray.get_runtime_context().get_node_id()
        self._groups: dict[str, PlacementGroup] = {}  # by the name of the gang
        self._ours: dict[str, list[str]] = {}  # groups, ended ones too, and the nodes of each
        self._find_groups()

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        verbs: dict[str, Callable[..., dict[str, Any]]] = {
            "look": self._look,
            "start": self._start,
            "terminate": self._terminate,
            "end": self._end,
            "causes": self._causes,
        }
        return verbs[request["do"]](**request.get("what", {}))

    # Looking.

    def _look(self) -> dict[str, Any]:
        """All nodes that are up, and all gangs of which a part lives or waits to be started."""
        known = ray.nodes()
        alive = {node["NodeID"]: node for node in known if node["Alive"]}
        if self._node not in alive:
            raise ConnectionError("the Ray node of this machine has ended")
        total, free = _resources()
        leave_by = ray_state.state.get_draining_nodes()  # unix milliseconds, 0 for no limit
        nodes = [
            {
                **self._node_record(node, total.get(ray_id, {}), free.get(ray_id, {})),
                "leaves_by": leave_by.get(ray_id),
            }
            for ray_id, node in alive.items()
        ]
        dead = {
            node["NodeName"]: str(node.get("DeathReasonMessage") or "Ray calls it dead")
            for node in known
            if not node["Alive"]
        }
        return {"nodes": nodes, "dead": dead, "gangs": self._gangs()}

    def _node_record(
        self, node: Mapping[str, Any], total: Mapping[str, float], free: Mapping[str, float]
    ) -> dict[str, Any]:
        living = {group.id.hex() for group in self._groups.values()}
        awaited = [group for group in living if node["NodeID"] in self._ours[group]]
        gpus = int(node["Resources"].get("GPU", 0))
        foreign, settled = occupancy(gpus, total, free, self._ours, awaited)
        return {
            "ray_id": node["NodeID"],
            "name": node["NodeName"],
            "address": node["NodeManagerAddress"],
            "gpus": gpus,
            "gpu_type": _gpu_type(node),
            "foreign": foreign,
            "settled": settled,
        }

    def _gangs(self) -> dict[str, Parts]:
        found: dict[str, Parts] = {}
        for state in (*_PENDING, _RUNNING):
            for actor in ray_state.actors(actor_state_name=state).values():
                if actor["Name"].startswith(self._prefix):
                    gang, _, part = actor["Name"].rpartition("/")
                    how = "running" if state == _RUNNING else "pending"
                    found.setdefault(gang, {})[part] = how
        return found

    def _living(self) -> set[str]:
        """Gangs of which a part runs or waits to be started, and no more about them."""
        return {
            name.rpartition("/")[0] for name in list_named_actors() if name.startswith(self._prefix)
        }

    def _causes(self, names: Sequence[str]) -> dict[str, Any]:
        """Why parts of these gangs do not live, as far as Ray remembers."""
        wanted = set(names)
        found: dict[str, dict[str, Any]] = {}
        dead = ray_state.actors(actor_state_name="DEAD").values()
        for actor in sorted(dead, key=lambda actor: actor["EndTime"]):  # the last one counts
            gang, _, part = actor["Name"].rpartition("/")
            if gang in wanted:
                found.setdefault(gang, {})[part] = _cause(actor["DeathCause"])
        return found

    # Starting.

    def _start(self, gangs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Each gets a placement group and actors in it; they start when Ray has placed them.

        A gang that is there already is left as it is: we were asked twice.
        """
        there = self._living()
        for gang in gangs:
            if gang["name"] not in there:
                self._start_gang(gang)
        return {}

    def _start_gang(self, gang: Mapping[str, Any]) -> None:
        name, parts = gang["name"], gang["parts"]
        self._give_back(name)  # of a bridge that ended half-way
        group = placement_group(
            [{"GPU": part["gpus"]} for part in parts],
            strategy="PACK",
            name=name,
            lifetime="detached",
            bundle_label_selector=[{_NODE_ID: part["ray_id"]} for part in parts],
        )
        self._keep(name, group, [part["ray_id"] for part in parts])
        for number, part in enumerate(parts):
            self._actor.options(
                name=f"{name}/{number}",
                lifetime="detached",
                num_cpus=0,
                num_gpus=part["gpus"],
                max_restarts=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, number),
            ).remote(gang, part)

    # Ending.

    def _terminate(self, names: Sequence[str]) -> dict[str, Any]:
        """Asks and does not wait. Gangs of which nothing has started are ended, and told.

        What waits to be started beside parts that run will find its lease taken back.
        """
        gangs = self._gangs()
        waiting = [name for name in names if set(gangs.get(name, {}).values()) == {"pending"}]
        for name in names:
            for part, how in gangs.get(name, {}).items():
                handle = self._handle(name, part) if how == "running" else None
                if handle is not None:
                    handle.terminate.remote()
        self._end(waiting)
        return {"ended": waiting}

    def _end(self, names: Sequence[str]) -> dict[str, Any]:
        gangs = {name: parts for name, parts in self._gangs().items() if name in set(names)}
        handles = {
            (name, part): handle
            for name, parts in gangs.items()
            for part in parts
            if (handle := self._handle(name, part)) is not None
        }
        told = [
            handle.kill.remote()
            for (name, part), handle in handles.items()
            if gangs[name][part] == "running"
        ]
        if told:
            ray.wait(told, num_returns=len(told), timeout=_KILL_SECONDS)
        for handle in handles.values():
            ray.kill(handle)
        for name in names:
            self._give_back(name)
        self.tidy()
        return {}

    def _handle(self, name: str, part: str) -> Any | None:
        """None if it has just ended."""
        try:
            return ray.get_actor(f"{name}/{part}")
        except ValueError:
            return None

    def tidy(self) -> None:
        """Gives back the GPUs of gangs of which nothing lives any more."""
        if self._groups:
            living = self._living()
            for name in [name for name in self._groups if name not in living]:
                self._give_back(name)

    def _give_back(self, name: str) -> None:
        group = self._groups.pop(name, None)
        if group is not None:
            remove_placement_group(group)

    def _keep(self, name: str, group: PlacementGroup, nodes: list[str]) -> None:
        self._groups[name] = group
        self._ours[group.id.hex()] = nodes
        while len(self._ours) > _MOST_GROUPS:
            del self._ours[next(iter(self._ours))]

    def _find_groups(self) -> None:
        """Those that an earlier bridge has made. Ray lists removed ones for ever: ask but once."""
        for record in placement_group_table().values():
            if record["name"].startswith(self._prefix) and record["state"] != "REMOVED":
                nodes = [node for node in record["bundles_to_node_id"].values() if node]
                self._keep(record["name"], ray.util.get_placement_group(record["name"]), nodes)


def _resources() -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """What every node has and what is free there, both of the same moment if possible."""
    total = ray_state.total_resources_per_node()
    for _ in range(_LOOKS):
        free = ray_state.available_resources_per_node()
        before, total = total, ray_state.total_resources_per_node()
        if before == total:
            break
    return total, free


def _gpu_type(node: Mapping[str, Any]) -> str | None:
    """By the label, or the resource that older nodes have instead."""
    kinds = [name for name in node["Resources"] if name.startswith(_GPU_TYPE_RESOURCE)]
    by_resource = kinds[0].removeprefix(_GPU_TYPE_RESOURCE) if kinds else None
    return node.get("Labels", {}).get(_GPU_TYPE) or by_resource


def _cause(cause: Any) -> dict[str, Any]:
    """Ray's record of an actor's death in fewer words."""
    kind = cause.WhichOneof("context")
    context: Any = getattr(cause, kind) if kind else None
    started = kind != "creation_task_failure_context"
    if started:
        message = " ".join(str(getattr(context, "error_message", kind)).split())
    else:
        message = _last_line(context.formatted_exception_string)
    node_died = started and "its node has died" in message
    return {"message": message, "node_died": node_died, "started": started}


def _last_line(traceback: str) -> str:
    lines = [line.strip() for line in traceback.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _serve(bridge: Bridge, tell: Callable[[dict[str, Any]], None]) -> None:
    waiting = b""
    tidied = time.monotonic()
    while True:
        ready, _, _ = select.select([0], [], [], _TIDY_SECONDS)
        if ready:
            data = os.read(0, 1 << 16)
            if not data:
                return
            *lines, waiting = (waiting + data).split(b"\n")
            for line in lines:
                request = json.loads(line)
                tell({"number": request["number"], "answer": bridge.answer(request)})
        if time.monotonic() - tidied >= _TIDY_SECONDS:
            bridge.tidy()
            tidied = time.monotonic()


def main() -> None:
    settings = json.loads(sys.argv[1])
    end_with_parent()
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Ray prints is not an answer

    def tell(record: dict[str, Any]) -> None:
        channel.write(json.dumps(record) + "\n")
        channel.flush()

    code = 0
    try:
        bridge = Bridge(settings["address"], settings["prefix"])
        tell({"number": 0, "answer": {"ray": ray.__version__}})
        _serve(bridge, tell)
    except BaseException as error:
        code = 1
        tell({"number": 0, "error": f"{type(error).__name__}: {' '.join(str(error).split())}"})
        raise
    finally:
        os._exit(code)  # Ray's own end would wait for a head that is away


if __name__ == "__main__":
    main()
