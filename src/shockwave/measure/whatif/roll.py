"""One future rolled forward from the present state, by the same loop that schedules for real."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from shockwave.engine.journal import MemoryJournal
from shockwave.engine.log import Log
from shockwave.engine.loop import RoundLoop
from shockwave.engine.snapshot import dump, load
from shockwave.engine.state import SchedulerState
from shockwave.executors.faults import Fault, NodeOccupation
from shockwave.executors.simulated import SimulatedExecutor
from shockwave.executors.simulation import TraceFeed
from shockwave.measure.whatif.changes import (
    Change,
    ExtraJob,
    OtherPolicy,
    events_now,
    reweighted,
    reweighting,
)
from shockwave.measure.whatif.changes import faults as later
from shockwave.measure.whatif.draws import Future
from shockwave.model.errors import StuckError
from shockwave.model.events import (
    Event,
    JobCancelled,
    JobFinished,
    JobStarted,
    JobSubmitted,
    RoundDecided,
    SettingsChanged,
    Starts,
)
from shockwave.policies import registry
from shockwave.policies.base import Policy
from shockwave.predict import registry as predictors

_LONGEST_RESTART = 0.9  # of a round; with more no job would make progress
_EXACT_JOBS = 12_000  # decisions times jobs; then rounds are twice as long, and again, up to ...
_LEAST_EXACT = 48  # decisions, however many the jobs
_COARSEST = 4  # ... so many times


@dataclass(frozen=True)
class Present:
    """The state to go on from, as bytes, and its present."""

    block: bytes
    now: float
    watched: tuple[str, ...]  # jobs whose fate is asked for; the others only compete
    rounds_so_far: Mapping[str, tuple[float, int]]  # sum of active jobs over them, and number

    @staticmethod
    def of(state: SchedulerState, now: float) -> Present:
        table = state.table
        active = table.needing_gpus().tolist()
        rows = table.rows(table.needing_gpus()).tolist()
        sums = table.active_integral[rows].tolist(), table.rounds_active[rows].tolist()
        names = tuple(table.spec(handle).id for handle in active)
        so_far = dict(zip(names, zip(*sums, strict=True), strict=True))
        return Present(dump(state), now, names, so_far)

    def state(self) -> SchedulerState:
        """A copy of its own for whoever asks."""
        return load(self.block)[0]


@dataclass(frozen=True)
class Rolled:
    """What came of the watched jobs. Times are seconds since the run began."""

    start: dict[str, float]  # of those that did not run: when they first do
    finish: dict[str, float]
    exclusive_seconds: dict[str, float]
    mean_active: dict[str, float]  # jobs beside it, itself included, over its rounds
    gpus: int  # that there were at the beginning


class OutOfTime(Exception):  # noqa: N818  (a state of affairs, not a mistake)
    """Whoever asked does not want to wait any longer."""


def roll(
    present: Present,
    future: Future,
    changes: Sequence[Change],
    *,
    apply: bool,
    policies: Mapping[str, Policy] = MappingProxyType({}),
    is_late: Callable[[], bool] = lambda: False,
) -> Rolled:
    """The future without the changes, or with them if they ``apply``.

    Extra jobs have their numbers either way, so that all that goes by a job's number is the
    same before and after. ``policies`` that have seen the past go on from it. Raises
    :class:`OutOfTime` when ``is_late`` says so.
    """
    state = present.state()
    assert state.run is not None  # a journal begins with it
    journal = MemoryJournal()
    log = Log(state, journal)
    now, told_until = present.now, state.time  # running jobs go on from when they last reported
    extra = [change.spec for change in changes if isinstance(change, ExtraJob)]
    if apply:
        log.emit(*events_now(changes, state, now))
    else:
        for spec in extra:
            log.emit(JobSubmitted(now, spec), JobCancelled(now, spec.id))
    weights = reweighting(changes, state) if apply else ()
    coming = [replace(job, spec=reweighted(weights, job.spec)) for job in future.coming]
    settings = state.run
    other = next((c.policy for c in changes if isinstance(c, OtherPolicy) and apply), None)
    name = other or settings.policy
    if name in policies:
        policy = deepcopy(policies[name])
    else:
        policy = registry.create(name, seed=settings.seed)
    loop = RoundLoop(
        policy=policy,
        predictor=predictors.create(_predictor(settings.predictor, policy.predictor, other)),
        executor=SimulatedExecutor(
            [*future.present.values(), *coming],
            _restart_seconds(state),
            [*_occupied(state, now), *(later(changes, now) if apply else ())],
            whole_epochs=settings.started_unix is not None,
            now=told_until,
            handles=state.table.submitted + len(coming),
        ),
        feed=TraceFeed(coming),
        log=log,
    )
    watched = {*present.watched, *(spec.id for spec in extra if apply)}
    gpus = state.placer.gpus
    loop.resume(now)
    try:
        left = set(watched)
        coarser_every = max(_EXACT_JOBS // max(len(watched), 1), _LEAST_EXACT)
        steps = 0
        while left and loop.step():
            if is_late():
                raise OutOfTime
            steps += 1
            if steps % coarser_every == 0 and 2 ** (steps // coarser_every) <= _COARSEST:
                _coarsen(loop)
            left = {job for job in left if state.table.find(job) is not None}
    except StuckError:
        pass  # those that nothing starts have no finish
    return _outcome(present, journal.events, watched, future, gpus)


def _coarsen(loop: RoundLoop) -> None:
    """Rounds are twice as long from the next one on: the far future needs no exact times.

    GPUs that become free are filled at once from then on, or they would idle for longer.
    """
    run = loop.state.run
    assert run is not None
    begins = loop.rounds.start(loop.round)
    longer = 2.0 * run.round_seconds
    loop.log.emit(
        SettingsChanged(
            begins,
            policy=run.policy,
            predictor=run.predictor,
            round_seconds=longer,
            restart_seconds=run.restart_seconds,
            seed=run.seed,
            version=run.version,
            starts=Starts.IMMEDIATE,
        )
    )
    loop.round = loop.rounds.boundary(begins)


def _predictor(in_force: str, of_policy: str, other: str | None) -> str:
    """The one in force feeds its policy; nobody can look into a future that is being drawn."""
    name = of_policy if other is not None else in_force
    clairvoyant = predictors.PREDICTORS.load(name).clairvoyant
    return "restatement" if clairvoyant else name


def _restart_seconds(state: SchedulerState) -> float:
    """What a start costs: as measured of the jobs that are there, else as set."""
    measured = state.table.restart_seconds[state.table.rows(state.table.active)]
    known = measured[~np.isnan(measured)]
    cost = float(known.mean()) if len(known) else state.rounds.restart_seconds
    return min(cost, _LONGEST_RESTART * state.rounds.round_seconds)


def _occupied(state: SchedulerState, now: float) -> list[Fault]:
    """What others hold they are taken to keep; an executor tells that at the beginning."""
    return [
        NodeOccupation(now, name, status.occupied, status.contested)
        for name, status in state.nodes.items()
        if status.up and (status.occupied or status.contested)
    ]


def _outcome(
    present: Present, events: Sequence[Event], watched: set[str], future: Future, gpus: int
) -> Rolled:
    start: dict[str, float] = {}
    finish: dict[str, float] = {}
    exclusive: dict[str, float] = {}
    integral, rounds, mean_active = 0.0, 0, {}
    for event in events:
        match event:
            case RoundDecided():
                integral += event.active * event.rounds
                rounds += event.rounds
            case JobStarted():
                start.setdefault(event.job, event.time)
            case JobFinished() if event.job in watched:
                finish[event.job] = event.time
                exclusive[event.job] = future.present[event.job].exclusive_seconds
                before = present.rounds_so_far.get(event.job, (0.0, 0))
                total = rounds + before[1]
                mean_active[event.job] = (integral + before[0]) / max(total, 1)
    return Rolled(
        {job: time for job, time in start.items() if job in watched},
        finish,
        exclusive,
        mean_active,
        gpus,
    )
