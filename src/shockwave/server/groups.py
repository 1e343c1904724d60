"""Groups: jobs that were submitted together as a sweep, seen as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, get_args

from shockwave.server.facts import JobFacts
from shockwave.server.records import GroupRecord, State
from shockwave.server.store import Store


def group_record(name: str, active: Sequence[JobFacts], store: Store) -> GroupRecord:
    """One line for a group. ``active`` are its jobs that have not ended; the store has the rest.

    Without any jobs there is no such group.
    """
    counts: dict[str, int] = store.ended_of_group(name)
    over = sum(counts.values())
    ended = None if active or not over else _one_that_ended(name, store)
    for facts in active:
        counts[facts.state] = counts.get(facts.state, 0) + 1
    parts = sum(facts.epochs_done / facts.spec.epochs for facts in active)
    one = active[0] if active else ended
    return GroupRecord(
        id=name,
        owner="" if one is None else one.spec.owner,
        parallel=0 if one is None else one.spec.group_parallel,
        gpus=max((facts.spec.gpus for facts in [*active, *([ended] if ended else [])]), default=0),
        jobs={cast(State, state): counts[state] for state in get_args(State) if state in counts},
        progress=(over + parts) / max(over + len(active), 1),
        submitted=0.0 if one is None else one.submitted_unix,
        silent=sum(facts.silent_since_unix is not None for facts in active),
    )


def _one_that_ended(group: str, store: Store) -> JobFacts | None:
    found = store.ended_jobs(states=(), tenant=None, after=0, limit=1, group=group)
    return found[0] if found else None
