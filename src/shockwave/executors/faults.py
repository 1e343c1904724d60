"""Failures to inject into a simulation, and the file that schedules them.

JSON Lines, one fault a line::

    {"time": 3600, "event": "node-down", "node": "n3"}
    {"time": 7200, "event": "node-up", "node": "n3", "gpus": 4}
    {"time": 7200, "event": "node-occupied", "node": "n3", "gpus": 2}
    {"time": 5000, "event": "job-crash", "job": "17"}
    {"time": 9000, "event": "job-fail", "job": "18", "reason": "out of memory"}
    {"time": 9000, "event": "job-never-starts", "job": "19", "start_seconds": 60}

A node is occupied by others, who hold that many of its GPUs from then on; a gang that runs
there keeps what it has. A crash takes a running job back to its last whole epoch and is
retried; one that does not run then does not notice. A failure is final; a waiting job fails as
soon as it runs. A job that never starts holds its GPUs for ``start_seconds`` whenever it is
launched from then on, and then gives up.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from shockwave.model.cluster import Cluster, Node
from shockwave.model.errors import InputError
from shockwave.model.words import count_of


@dataclass(frozen=True, slots=True)
class Fault:
    """Something goes wrong (or right again) at ``time`` seconds."""

    time: float


@dataclass(frozen=True, slots=True)
class NodeFailure(Fault):
    node: str


@dataclass(frozen=True, slots=True)
class NodeRecovery(Fault):
    """A node comes back, or a new one joins."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeDrain(Fault):
    """An operator wants the node empty: its gangs save and go on elsewhere."""

    node: str


@dataclass(frozen=True, slots=True)
class NodeOccupation(Fault):
    """Others hold ``gpus`` GPUs of a node from now on."""

    node: str
    gpus: int
    contested: bool = False  # others would get what a gang gives up there


@dataclass(frozen=True, slots=True)
class JobCrash(Fault):
    job: str


@dataclass(frozen=True, slots=True)
class JobFailure(Fault):
    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class JobNeverStarts(Fault):
    """Whenever it is launched it holds its GPUs for a while, and does not run."""

    job: str
    start_seconds: float


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    time: float = Field(ge=0, allow_inf_nan=False)


class _NodeDown(_Line):
    event: Literal["node-down"]
    node: str

    def fault(self) -> Fault:
        return NodeFailure(self.time, self.node)


class _NodeUp(_Line):
    event: Literal["node-up"]
    node: str
    gpus: int = Field(ge=1)

    def fault(self) -> Fault:
        return NodeRecovery(self.time, Node(self.node, self.gpus))


class _NodeOccupied(_Line):
    event: Literal["node-occupied"]
    node: str
    gpus: int = Field(ge=0)

    def fault(self) -> Fault:
        return NodeOccupation(self.time, self.node, self.gpus)


class _JobCrash(_Line):
    event: Literal["job-crash"]
    job: str

    def fault(self) -> Fault:
        return JobCrash(self.time, self.job)


class _JobFail(_Line):
    event: Literal["job-fail"]
    job: str
    reason: str = "injected failure"

    def fault(self) -> Fault:
        return JobFailure(self.time, self.job, self.reason)


class _JobNeverStarts(_Line):
    event: Literal["job-never-starts"]
    job: str
    start_seconds: float = Field(60.0, ge=0, allow_inf_nan=False)

    def fault(self) -> Fault:
        return JobNeverStarts(self.time, self.job, self.start_seconds)


_AnyLine = _NodeDown | _NodeUp | _NodeOccupied | _JobCrash | _JobFail | _JobNeverStarts
_EVENTS = ("node-down", "node-up", "node-occupied", "job-crash", "job-fail", "job-never-starts")
_LINE: TypeAdapter[_AnyLine] = TypeAdapter(Annotated[_AnyLine, Field(discriminator="event")])


def read_faults(path: Path, cluster: Cluster, job_ids: set[str]) -> list[Fault]:
    """The faults of a schedule file, in order of time.

    Raises :class:`InputError` naming the line for anything that cannot happen: a node that
    goes down without being up, one that comes up twice, a job that the trace does not have.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the fault schedule: {error}", source=str(path)) from error
    numbered = [
        (number, _parse(line, path, number))
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    ]
    numbered.sort(key=lambda item: item[1].time)
    up = {node.id: node.gpus for node in cluster.nodes}
    for number, fault in numbered:
        _check(fault, up, job_ids, source=str(path), place=f"line {number}")
    return [fault for _, fault in numbered]


def _parse(line: str, path: Path, number: int) -> Fault:
    try:
        return _LINE.validate_python(json.loads(line)).fault()
    except json.JSONDecodeError as error:
        raise InputError(
            f"not JSON: {error.msg}", source=str(path), place=f"line {number}", value=line
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "line"
        raise InputError(
            f"{field}: {first['msg']}",
            source=str(path),
            place=f"line {number}",
            value=first["input"],
            hint=f"Events are {', '.join(_EVENTS)}",
        ) from error


def _check(fault: Fault, up: dict[str, int], job_ids: set[str], *, source: str, place: str) -> None:
    """``up`` has the GPUs of the nodes that are up, and is changed."""
    match fault:
        case NodeFailure() | NodeOccupation():
            if fault.node not in up:
                raise InputError(
                    "this node is not up then",
                    source=source,
                    place=place,
                    value=fault.node,
                    hint=f"Nodes that are up: {', '.join(sorted(up)[:8]) or 'none'}",
                )
            if isinstance(fault, NodeFailure):
                del up[fault.node]
            elif fault.gpus > up[fault.node]:
                raise InputError(
                    f"this node has {count_of(up[fault.node], 'GPU')}",
                    source=source,
                    place=place,
                    value=fault.gpus,
                )
        case NodeRecovery():
            if fault.node.id in up:
                raise InputError(
                    "this node is up already", source=source, place=place, value=fault.node.id
                )
            up[fault.node.id] = fault.node.gpus
        case JobCrash() | JobFailure() | JobNeverStarts():
            if fault.job not in job_ids:
                raise InputError(
                    "the trace has no such job", source=source, place=place, value=fault.job
                )
