"""The question, put to sampled futures one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from shockwave.engine.state import SchedulerState
from shockwave.measure.whatif.answer import Answer, answer
from shockwave.measure.whatif.changes import Change, ExtraJob, check
from shockwave.measure.whatif.draws import draw
from shockwave.measure.whatif.roll import OutOfTime, Present, Rolled, roll
from shockwave.model.errors import InputError, ShockwaveError
from shockwave.policies.base import Policy

FEWEST_SAMPLES = 5  # with fewer there is no interval worth the name


class TooSlowError(ShockwaveError):
    """There was no time for enough samples."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is computed: so many samples, or as many as there is time for."""

    samples: int = 24
    seconds: float = 60.0


def ask(
    state: SchedulerState,
    changes: Sequence[Change],
    *,
    limits: Limits | None = None,
    now: float | None = None,
    policies: Mapping[str, Policy] = MappingProxyType({}),
    seed: int = 0,
    timer: Callable[[], float] = time.monotonic,
) -> Answer:
    """Before and after of the changes, from this state on. The state itself is not changed.

    ``now`` is the present if that is later than the last event, ``policies`` those by name that
    have seen the past (:func:`~shockwave.measure.whatif.memory.recall`). Raises
    :class:`InputError` for changes that cannot be, and :class:`TooSlowError` where the limit
    leaves too few samples.
    """
    limits = limits or Limits()
    if state.run is None:
        raise InputError("the journal is empty", hint="Ask when the scheduler has begun")
    check(changes, state)
    now = state.time if now is None else max(now, state.time)
    changes = [_arriving(change, now) for change in changes]
    extra = [change.spec for change in changes if isinstance(change, ExtraJob)]
    present = Present.of(state, now)
    futures = draw(present.state(), extra, now, limits.samples, seed)
    until = timer() + limits.seconds
    before: list[Rolled] = []
    after: list[Rolled] = []
    for future in futures:
        try:
            pair = [
                roll(
                    present,
                    future,
                    changes,
                    apply=apply,
                    policies=policies,
                    is_late=lambda: timer() > until,
                )
                for apply in (False, True)
            ]
        except OutOfTime:
            break
        before.append(pair[0])
        after.append(pair[1])
    if len(before) < min(FEWEST_SAMPLES, limits.samples):
        raise TooSlowError(
            f"in {limits.seconds:g} s only {len(before)} of {limits.samples} futures could be "
            "rolled forward. Allow more seconds"
        )
    arrivals = dict.fromkeys(present.watched, now)
    table = state.table
    for handle in table.active.tolist():
        spec = table.spec(handle)
        if spec.id in arrivals:
            arrivals[spec.id] = spec.arrival_seconds
    arrivals |= {spec.id: now for spec in extra}
    return answer(
        before,
        after,
        arrivals,
        [spec.id for spec in extra],
        now=now,
        round_seconds=state.rounds.round_seconds,
    )


def _arriving(change: Change, now: float) -> Change:
    if isinstance(change, ExtraJob):
        return ExtraJob(replace(change.spec, arrival_seconds=now))
    return change
