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
from shockwave.server.recovery import fold
from shockwave.server.snapshots import Snapshots
from shockwave.server.store import Store, indexed

_SHOWN = 120  # characters of a value


def differences(
    store: Store,
    snapshots: Snapshots,
    origin_unix: float,
    on_progress: Callable[[int], None] = lambda events: None,
) -> Iterator[str]:
    """What is not as the journal says, a line each.

    Compared are the state and the projection that a restart would begin with, and every row of
    the index of jobs. Raises :class:`JournalError` where the journal itself is damaged.
    """
    state, projection, rows = _rebuilt(store, origin_unix, on_progress)
    restored_state, restored_projection = fold(store, snapshots, origin_unix)
    document, arrays = to_document(state)
    restored, restored_arrays = to_document(restored_state)
    yield from _unlike("state", document, restored)
    for name, column in arrays.items():
        if not np.array_equal(column, restored_arrays[name], equal_nan=column.dtype.kind == "f"):
            yield f"state: column {name} differs"
    yield from _unlike("projection", projection.dump(), restored_projection.dump())
    for job in store.index():
        expected = rows.pop(job.id, None)
        if expected is None:
            yield f"index: job {job.id} is in no event"
            continue
        for name, value in expected.items():
            if getattr(job, name) != value:
                yield _difference(f"index: job {job.id}, {name}", value, getattr(job, name))
    yield from (f"index: job {job} is missing" for job in rows)


def _rebuilt(
    store: Store, origin_unix: float, on_progress: Callable[[int], None]
) -> tuple[SchedulerState, Projection, dict[str, dict[str, Any]]]:
    state, projection = SchedulerState(), Projection(origin_unix)
    rows: dict[str, dict[str, Any]] = {}
    for number, event in store.events():
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
    for name in expected.keys() | found.keys():
        if expected.get(name) != found.get(name):
            yield _difference(f"{what}: {name}", expected.get(name), found.get(name))


def _difference(place: str, expected: object, found: object) -> str:
    return f"{place} should be {_short(expected)}, but is {_short(found)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
