"""The question, put to sampled futures one after the other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from shockwave.engine.state import SchedulerState
from shockwave.measure.whatif.answer import Answer, answer
from shockwave.measure.whatif.changes import Change, ExtraJob, MoreGpus, check, nodes_up
from shockwave.measure.whatif.draws import draw
from shockwave.measure.whatif.roll import OutOfTime, Present, Rolled, roll
from shockwave.model.errors import InputError, ShockwaveError
from shockwave.model.job import JobSpec
from shockwave.policies.base import Policy
from shockwave.predict.speeds import SpeedLearner

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
    learner: SpeedLearner | None = None,
    seed: int = 0,
    timer: Callable[[], float] = time.monotonic,
) -> Answer:
    """Before and after of the changes, from this state on. The state itself is not changed.

    ``now`` is the present if that is later than the last event, ``policies`` those by name that
    have seen the past (:func:`~shockwave.measure.whatif.memory.recall`), as has the ``learner``
    of speeds. Raises
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
    with_nodes = present.state()
    for change in changes:
        if isinstance(change, MoreGpus):  # what jobs would do on them has to be drawn too
            for event in nodes_up(change, state, now):
                with_nodes.apply(event)
    futures = draw(with_nodes, extra, now, limits.samples, seed, learner)
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
            f"in {limits.seconds:g} s of computing only {len(before)} of {limits.samples} futures "
            f"could be rolled forward, and {FEWEST_SAMPLES} are needed"
        )
    arrivals = dict.fromkeys(present.watched, now)
    table = state.table
    for handle in table.active.tolist():
        spec = table.spec(handle)
        if spec.id in arrivals:
            arrivals[spec.id] = spec.arrival_seconds
    arrivals |= {spec.id: now for spec in extra}
    found = answer(
        before,
        after,
        arrivals,
        [spec.id for spec in extra],
        now=now,
        round_seconds=state.rounds.round_seconds,
    )
    return replace(found, guessed=_guessed(state, extra))


def _arriving(change: Change, now: float) -> Change:
    if isinstance(change, ExtraJob):
        return ExtraJob(replace(change.spec, arrival_seconds=now))
    return change


def _guessed(state: SchedulerState, extra: Sequence[JobSpec]) -> int:
    """Jobs of which neither a declaration nor an epoch that has ended tells how long they take."""
    table = state.table
    begun = table.epochs_done[table.rows(table.active)] > 0
    untold = [table.spec(h) for h, b in zip(table.active.tolist(), begun, strict=True) if not b]
    return sum(all(map(math.isnan, spec.epoch_seconds)) for spec in (*untold, *extra))
