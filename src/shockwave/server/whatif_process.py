"""The process that answers one what-if: it reads the journal of a scheduler, and nothing else.

It takes a :class:`Task` as JSON on its standard input and writes an :class:`Outcome`. It lowers
its own priority and its own limits before it reads a single event.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from shockwave.measure.whatif import Limits, TooSlowError, ask
from shockwave.measure.whatif.changes import specs as active_specs
from shockwave.measure.whatif.memory import Past, recall
from shockwave.model.errors import InputError, ShockwaveError
from shockwave.server.archive import Archive
from shockwave.server.snapshots import Snapshots
from shockwave.server.store import Store
from shockwave.server.whatif_records import (
    WhatIfQuestion,
    WhatIfRecord,
    changes_of,
    record_of,
    specs_of_records,
)

_NICER = 10  # than the scheduler: of a processor that both want it has a tenth
_MOST_EVENTS = 200_000  # of a longer journal only the end is read
_READING_SECONDS = 60.0  # that the journal may take on top
PATIENCE = 4.0  # times the limit, until an answer is given up that others leave no processor for


class Task(BaseModel):
    """One question, where the state is, and what it may cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state_dir: Path
    database: str
    question: WhatIfQuestion
    specs: list[dict[str, Any]]  # of the jobs that would be submitted
    seconds: float
    memory_bytes: int


class Outcome(BaseModel):
    """The answer, or why there is none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    record: WhatIfRecord | None = None
    problem: str = ""
    is_input: bool = False  # the question is wrong


def answer(task: Task) -> WhatIfRecord:
    """Raises :class:`InputError`, :class:`TooSlowError` or another :class:`ShockwaveError`."""
    archive = Archive(task.state_dir / "archive")
    with closing(Store(task.database, archive, only_read=True)) as store:
        origin_unix = store.started_unix()
        snapshots = Snapshots(task.state_dir / "snapshots", store)
        others = () if task.question.policy is None else (task.question.policy,)
        past = _past(store, snapshots, others)
    state = past.state
    specs = specs_of_records(task.specs)
    result = ask(
        state,
        changes_of(task.question, specs, state, origin_unix),
        limits=Limits(task.question.samples, task.seconds),
        now=max(time.time() - origin_unix, state.time),
        policies=past.policies,
        learner=past.learner,
        seed=task.question.seed,
        timer=_timer(),
    )
    known = {spec.id: spec for spec in (*active_specs(state), *specs)}
    return record_of(result, known, origin_unix)


def _past(store: Store, snapshots: Snapshots, others: Sequence[str]) -> Past:
    """From the first event, or where those are many, from the oldest snapshot that is kept."""
    last, last_seconds = store.last_event()
    state, after = None, 0
    if last > _MOST_EVENTS:
        for _, found in snapshots.all(last):
            if not isinstance(found, Exception):
                state, after = found[0], found[1].sequence_number
    events = (event for _, event in store.events(after))
    return recall(events, others, state=state, last_seconds=last_seconds)


def _timer() -> Callable[[], float]:
    """Seconds of this process: at its low priority those on the wall are mostly others'."""
    began = time.monotonic()
    return lambda: max(time.process_time(), (time.monotonic() - began) / PATIENCE)


def outcome(task: Task) -> Outcome:
    try:
        return Outcome(record=answer(task))
    except TooSlowError as error:
        return Outcome(problem=f"{error}. An operator may allow more: what_if_seconds")
    except InputError as error:
        return Outcome(problem=str(error), is_input=True)
    except (ShockwaveError, OSError) as error:
        return Outcome(problem=str(error))
    except MemoryError:
        mebibytes = task.memory_bytes >> 20
        return Outcome(problem=f"it would need more than {mebibytes} MiB of memory")


def main() -> None:
    task = Task.model_validate_json(sys.stdin.buffer.read())
    with suppress(OSError):
        os.nice(_NICER)
    _limit(resource.RLIMIT_AS, task.memory_bytes)
    _limit(resource.RLIMIT_CPU, int(task.seconds + _READING_SECONDS))
    sys.stdout.write(outcome(task).model_dump_json())


def _limit(which: int, most: int) -> None:
    """Never more than was allowed before."""
    hard = resource.getrlimit(which)[1]
    allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (allowed, allowed))


if __name__ == "__main__":
    main()
