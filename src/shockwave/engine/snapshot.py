"""The whole state as bytes and back, so that a restart need not fold the whole journal."""

from __future__ import annotations

import io
import json
from collections import deque
from typing import Any

import numpy as np

from shockwave.engine.accounts import Accounts
from shockwave.engine.dependencies import Dependencies
from shockwave.engine.placement import Placer
from shockwave.engine.rounds import Rounds
from shockwave.engine.state import EXPERIENCE_KEPT, NodeStatus, SchedulerState
from shockwave.engine.table import JobTable
from shockwave.model.cluster import Node
from shockwave.model.event_records import from_record, plain, spec_of_record, to_record
from shockwave.model.events import Placement, RunStarted
from shockwave.predict.base import FinishedJob

Arrays = dict[str, np.ndarray[Any, Any]]


def dump(state: SchedulerState, extra: dict[str, Any] | None = None) -> bytes:
    """The state, and plain values that belong to it, in one block."""
    document, arrays = to_document(state)
    document["extra"] = extra or {}
    text = json.dumps(document, separators=(",", ":")).encode()
    block = io.BytesIO()
    np.savez_compressed(block, allow_pickle=False, **arrays, document=np.frombuffer(text, np.uint8))
    return block.getvalue()


def load(block: bytes) -> tuple[SchedulerState, dict[str, Any]]:
    """The inverse of :func:`dump`. Raises whatever a damaged block leads to."""
    with np.load(io.BytesIO(block), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    document = json.loads(arrays.pop("document").tobytes())
    return from_document(document, arrays), document["extra"]


def to_document(state: SchedulerState) -> tuple[dict[str, Any], Arrays]:
    """JSON types and arrays. Two states are the same when these are."""
    table, arrays = state.table.dump()
    nodes = state.placer.nodes()
    document = {
        "run": None if state.run is None else to_record(state.run),
        "rounds": plain(state.rounds),
        "nodes": [plain(status) for status in state.nodes.values()],
        "usable": [node.id for node in nodes],  # in the order in which they are filled
        "held": [[handle, placement] for handle, placement in sorted(state.placer.held().items())],
        "dependencies": state.dependencies.dump(),
        "accounts": state.accounts.dump(),
        "experience": [plain(job) for job in state.experience],
        "rounds_scheduled": state.rounds_scheduled,
        "version": state.version,
        "time": state.time,
        "active_at_decision": state.active_at_decision,
        "table": {**table, "specs": [plain(spec) for spec in table["specs"]]},
    }
    normal: dict[str, Any] = json.loads(json.dumps(document))
    return normal, arrays


def from_document(document: dict[str, Any], arrays: Arrays) -> SchedulerState:
    state = SchedulerState()
    if document["run"] is not None:
        run = from_record(document["run"])
        assert isinstance(run, RunStarted)
        state.run = run
    state.rounds = Rounds(**document["rounds"])
    for status in document["nodes"]:
        fields = {**status, "node": Node(**status["node"])}
        state.add_status(NodeStatus(**fields))
    state.placer = _placer(document, state.nodes)
    state.dependencies = Dependencies.load(document["dependencies"])
    state.accounts = Accounts.load(document["accounts"])
    state.experience = deque(map(_finished_job, document["experience"]), maxlen=EXPERIENCE_KEPT)
    state.rounds_scheduled = document["rounds_scheduled"]
    state.version = document["version"]
    state.time = document["time"]
    state.active_at_decision = document["active_at_decision"]
    table = dict(document["table"])
    table["specs"] = [spec_of_record(spec) for spec in table["specs"]]
    state.table = JobTable.load(table, arrays)
    contested_nodes = any(status.contested for status in state.nodes.values())
    state.any_contested = contested_nodes or bool(state.table.contested.any())
    return state


def _placer(document: dict[str, Any], nodes: dict[str, NodeStatus]) -> Placer:
    placer = Placer(tuple(nodes[name].node for name in document["usable"]))
    for name in document["usable"]:
        placer.occupy(name, nodes[name].occupied)
    for handle, parts in document["held"]:
        placement: Placement = tuple((node, tuple(slots)) for node, slots in parts)
        placer.claim(handle, placement)
    return placer


def _finished_job(record: dict[str, Any]) -> FinishedJob:
    regimes = tuple((index, epochs) for index, epochs in record["regimes"])
    spec = spec_of_record(record["spec"])
    return FinishedJob(spec, record["kind"], regimes, record["tenant"])
