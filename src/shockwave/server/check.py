"""Whether everything beside the journal follows from it: rebuilt from the first event, compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from shockwave.engine.snapshot import to_document
from shockwave.engine.state import SchedulerState
from shockwave.model.events import JobChanged, JobSubmitted
from shockwave.server import facts as facts_module
from shockwave.server.projection import Projection
from shockwave.server.schema import indexed
from shockwave.server.snapshots import Snapshot, Snapshots
from shockwave.server.store import Store

_SHOWN = 120  # characters of a value


def differences(
    store: Store,
    snapshots: Snapshots,
    origin_unix: float,
    on_progress: Callable[[int], None] = lambda events: None,
) -> Iterator[str]:
    """What is not as the journal says, a line each.

    Compared are the state and the projection that a restart from each of the snapshots would
    begin with, and every row of the index of jobs. A scheduler may be running: it is about what
    there was when this began. Raises :class:`JournalError` where the journal itself is damaged.
    """
    last, index = store.index()
    state, projection, rows = _rebuilt(store, origin_unix, last, on_progress)
    document, arrays = to_document(state)
    for path, found in snapshots.all(last):
        if isinstance(found, Exception):
            yield f"{path.name}: cannot be used: {found}"
            continue
        restored, restored_arrays = to_document(_followed(store, found, last)[0])
        yield from _unlike(f"{path.name}: state", document, restored)
        for name, column in arrays.items():
            same_nan = column.dtype.kind == "f"
            if not np.array_equal(column, restored_arrays[name], equal_nan=same_nan):
                yield f"{path.name}: state: column {name} differs"
        yield from _unlike(f"{path.name}: projection", projection.dump(), found[1].dump())
    for job in index:
        expected = rows.pop(job.id, None)
        if expected is None:
            yield f"index: job {job.id} is in no event"
            continue
        for name, value in expected.items():
            if getattr(job, name) != value:
                yield _difference(f"index: job {job.id}, {name}", value, getattr(job, name))
    yield from (f"index: job {job} is missing" for job in rows)


def _followed(store: Store, snapshot: Snapshot, last: int) -> Snapshot:
    """The snapshot, brought up to the last event."""
    state, projection = snapshot
    for number, event in store.events(projection.sequence_number):
        if number > last:
            break
        state.apply(event)
        projection.apply(event)
    return state, projection


def _rebuilt(
    store: Store, origin_unix: float, last: int, on_progress: Callable[[int], None]
) -> tuple[SchedulerState, Projection, dict[str, dict[str, Any]]]:
    state, projection = SchedulerState(), Projection(origin_unix)
    rows: dict[str, dict[str, Any]] = {}
    for number, event in store.events():
        if number > last:
            break
        state.apply(event)
        projection.apply(event)
        if isinstance(event, JobSubmitted):
            rows[event.job.id] = {**indexed(projection.submitted, event), "facts": None}
        elif isinstance(event, JobChanged) and event.job.id in rows:
            row = rows[event.job.id]
            row.update(name=event.job.name, tenant=event.job.tenant)
            if event.submission is not None:
                row["submission"] = event.submission
        for facts in projection.ended:
            rows[facts.id].update(state=facts.state, facts=facts_module.to_json(facts))
        projection.ended.clear()
        if number % 10_000 == 0:
            on_progress(number)
    return state, projection, rows


def _unlike(what: str, expected: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            yield _difference(f"{what}: {name}", expected.get(name), found.get(name))


def _difference(place: str, expected: object, found: object) -> str:
    return f"{place} should be {_short(expected)}, but is {_short(found)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
