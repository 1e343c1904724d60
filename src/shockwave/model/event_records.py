"""Events as JSON types and back: how a journal is written down."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, get_args

import numpy as np

from shockwave.model.cluster import Node
from shockwave.model.errors import JournalError
from shockwave.model.events import Event, Starts, StopReason
from shockwave.model.job import Adaptation, JobSpec, OnHang, Preemptible
from shockwave.model.options import Option
from shockwave.model.tenants import tenant_of_record

_KINDS: dict[str, type[Any]] = {cls.kind: cls for cls in get_args(Event)}
_FIELDS = {cls: tuple(field.name for field in dataclasses.fields(cls)) for cls in _KINDS.values()}


def to_record(event: Event) -> dict[str, Any]:
    """The event as JSON types, ``kind`` first; ``nan`` becomes null."""
    record = {"kind": event.kind}
    for name in _FIELDS[type(event)]:
        record[name] = plain(getattr(event, name))
    return record


def from_record(record: dict[str, Any]) -> Event:
    """The inverse of :func:`to_record`. Raises :class:`JournalError` on anything else."""
    try:
        fields = dict(record)
        cls = _KINDS[fields.pop("kind")]
        converted = _CONVERTED[cls]
        for name in converted.keys() & fields.keys():
            fields[name] = converted[name](fields[name])
        event: Event = cls(**fields)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise JournalError(f"not an event of a journal: {str(record)[:120]} ({error})") from error
    return event


def plain(value: Any) -> Any:
    """A value of an event, or a dataclass of such values, as JSON types."""
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, np.ndarray):
        return [None if item != item else item for item in value.tolist()]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}


def spec_of_record(record: dict[str, Any]) -> JobSpec:
    fields = dict(record)
    fields["adaptation"] = Adaptation(fields["adaptation"])
    fields["preemptible"] = Preemptible(fields.get("preemptible", Preemptible.ALWAYS))
    fields["on_hang"] = OnHang(fields.get("on_hang", OnHang.NOTHING))
    for name in ("configurations", "after", "after_any", "gpu_counts", "gpu_types"):
        fields[name] = tuple(fields.get(name, ()))
    fields["epoch_seconds"] = tuple(math.nan if s is None else s for s in fields["epoch_seconds"])
    fields["option_seconds"] = _options_and_seconds(fields.get("option_seconds", ()))
    return JobSpec(**fields)


def _options_and_seconds(entries: Iterable[Any]) -> tuple[tuple[str, int, float], ...]:
    return tuple((gpu_type, gpus, seconds) for gpu_type, gpus, seconds in entries)


def _column(kind: type[Any]) -> Callable[[Any], Any]:
    return lambda values: None if values is None else np.array(values, dtype=kind)  # null: nan


_OF_TYPE: dict[str, Callable[[Any], Any]] = {
    "Node": lambda node: Node(**node),
    "tuple[Node, ...]": lambda nodes: tuple(Node(**node) for node in nodes),
    "JobSpec": spec_of_record,
    "Tenant": tenant_of_record,
    "Placement": lambda parts: tuple((node, tuple(slots)) for node, slots in parts),
    "Option | None": lambda option: None if option is None else Option(**option),
    "tuple[tuple[str, int, float], ...]": _options_and_seconds,
    "Starts": Starts,
    "StopReason": StopReason,
    "Ints": _column(np.int64),
    "Floats": _column(np.float64),
    "Floats | None": _column(np.float64),
}
_CONVERTED = {
    cls: {
        field.name: _OF_TYPE[str(field.type)]
        for field in dataclasses.fields(cls)
        if str(field.type) in _OF_TYPE
    }
    for cls in _KINDS.values()
}
