"""Futures drawn from what is known now: what jobs will still do, and who will come."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shockwave.engine.state import SchedulerState
from shockwave.measure.whatif.choices import OptionSpeeds, speeds_by_law
from shockwave.model.events import JobSubmitted
from shockwave.model.job import JobSpec, Regime, TraceJob
from shockwave.model.view import Floats, Ints, View
from shockwave.plan.arrivals import ArrivalHabits
from shockwave.predict.base import Trajectories
from shockwave.predict.epoch_times import epoch_seconds
from shockwave.predict.forecasts import UncertainForecast
from shockwave.predict.restatement import Restatement
from shockwave.predict.speeds import SpeedLearner

_EXPECTED = "expected-"  # names of jobs that are not there yet
_LONGEST = 2.0  # times the span of arrivals so far: no future has arrivals for longer
_MOST_EXPECTED = 2_000


@dataclass(frozen=True)
class Future:
    """One sample: the whole life of every job that is there, and the jobs that will come."""

    present: Mapping[str, TraceJob]
    coming: tuple[TraceJob, ...]


def draw(
    state: SchedulerState,
    extra: Sequence[JobSpec],
    now: float,
    count: int,
    seed: int,
    learner: SpeedLearner | None = None,
) -> list[Future]:
    """``count`` futures. What is drawn does not depend on the ``extra`` jobs but for their own.

    The ``learner`` has seen how fast jobs were with which GPUs, where they have a choice.
    """
    predictor = Restatement()
    learner = learner or SpeedLearner()
    predictor.learn(list(state.experience))
    rng = np.random.default_rng([seed, 0])
    lives = _lives(state, state.table.active, predictor, learner, count, rng)
    futures = []
    for sample, present in enumerate(lives):
        rng = np.random.default_rng([seed, 1, sample])
        futures.append(Future(present, _coming(state, present, now, rng)))
    if not extra:
        return futures
    before = state.table.submitted
    for spec in extra:
        state.apply(JobSubmitted(max(now, state.time), spec))
    handles = np.arange(before, state.table.submitted)
    rng = np.random.default_rng([seed, 2])
    more = _lives(state, handles, predictor, learner, count, rng)
    for handle in handles.tolist():  # they are asked about, and not there
        state.table.active = state.table.active[state.table.active != handle]
    return [
        replace(future, present={**future.present, **lives})
        for future, lives in zip(futures, more, strict=True)
    ]


def _lives(
    state: SchedulerState,
    handles: Ints,
    predictor: Restatement,
    learner: SpeedLearner,
    count: int,
    rng: np.random.Generator,
) -> list[dict[str, TraceJob]]:
    """For each sample, the whole life of each of these jobs."""
    if not len(handles):
        return [{} for _ in range(count)]
    # In the company of all others: what is unknown of a job is estimated from them.
    everyone = np.union1d(state.table.active, handles)
    view = _view(state, everyone)
    forecast = predictor.forecast(view)
    if isinstance(forecast, UncertainForecast):
        trajectories = forecast.trajectories(_spread(rng, count, len(view), forecast.dimensions))
    else:
        trajectories = forecast.sample(count, rng)
    seconds = epoch_seconds(view)
    options = None
    if state.table.options is not None and view.options is not None:
        claimed = state.table.options.declared[state.table.rows(everyone), : len(view.options)]
        options = OptionSpeeds(view, claimed, learner, rng.standard_normal(count))
    wanted = np.searchsorted(everyone, handles)
    lives: list[dict[str, TraceJob]] = [{} for _ in range(count)]
    for handle, row in zip(handles.tolist(), wanted.tolist(), strict=True):
        past = _past(state, handle)
        for sample in range(count):
            job = _life(state, handle, past, view, row, trajectories, sample, seconds[row])
            if options is not None:
                base = float(seconds[row, view.configuration[row]])
                job = replace(job, speeds=options.of(row, sample, job.regimes, base))
            lives[sample][job.spec.id] = job
    return lives


def _view(state: SchedulerState, handles: Ints) -> View:
    return state.table.view(
        handles,
        now=state.time,
        round_index=0,
        gpus_total=max(state.placer.gpus, 1),
        round_seconds=state.rounds.round_seconds,
        restart_seconds=state.rounds.restart_seconds,
        changed=True,
    )


def _spread(rng: np.random.Generator, count: int, jobs: int, dimensions: int) -> Floats:
    """Uniform numbers, for each job and dimension one in each of ``count`` equal intervals."""
    order = np.argsort(rng.random((count, jobs, dimensions)), axis=0)
    spread = (order + rng.random((count, jobs, dimensions))) / count
    return np.clip(spread, 1e-9, 1.0 - 1e-9)


def _past(state: SchedulerState, handle: int) -> list[tuple[int, int]]:
    """The regimes that are over: (index of the configuration, epochs)."""
    began = float(state.table.regime_start[state.table.row(handle)])
    regimes: list[tuple[int, int]] = []
    done = 0.0
    for index, epochs in state.table.finished_job(handle).regimes:
        if done + epochs > began + 0.5:
            break
        regimes.append((index, round(epochs)))
        done += epochs
    return regimes


def _life(
    state: SchedulerState,
    handle: int,
    past: Sequence[tuple[int, int]],
    view: View,
    row: int,
    trajectories: Trajectories,
    sample: int,
    seconds: Floats,
) -> TraceJob:
    """Facts first, then the sampled regimes with their ends at whole epochs."""
    spec = state.table.spec(handle)
    sizes = spec.configurations
    regimes = [Regime(sizes[index], epochs, float(seconds[index])) for index, epochs in past]
    done = float(view.epochs_done[row])
    end = sum(epochs for _, epochs in past)
    now = int(view.configuration[row])
    drawn, speeds = trajectories.epochs[sample, row], trajectories.seconds[sample, row]
    ends = np.rint(done + np.cumsum(drawn))
    for segment in np.flatnonzero(drawn > 0).tolist():
        is_first = len(regimes) == len(past)
        until = int(ends[segment])
        if is_first:
            until = max(until, math.ceil(done - 1e-9))
        if until <= end:
            continue
        speed = float(speeds[segment])
        index = now if is_first else _closest(seconds[: len(sizes)], speed)
        regimes.append(Regime(sizes[index], until - end, speed))
        end = until
    if end <= done:  # whoever is beyond what they declared has an epoch to go at least
        regimes.append(Regime(sizes[now], math.floor(done) + 1 - end, float(seconds[now])))
    return TraceJob(spec, tuple(regimes))


def _closest(seconds: Floats, speed: float) -> int:
    """The configuration whose epochs take so long; a trajectory tells no more than that."""
    return int(np.argmin(np.abs(seconds - speed)))


def _coming(
    state: SchedulerState, present: Mapping[str, TraceJob], now: float, rng: np.random.Generator
) -> tuple[TraceJob, ...]:
    """Jobs like the latest ones, at their rate, for a time that nobody knows."""
    known = [_finished_life(job.spec, job.regimes) for job in state.experience]
    recent = [job for job in (*known, *present.values()) if job is not None and job.spec.gpus > 0]
    recent.sort(key=lambda job: job.spec.arrival_seconds)
    arrival = np.array([job.spec.arrival_seconds for job in recent])
    habits = ArrivalHabits()
    expected = habits.expect(
        now,
        arrival,
        np.array([job.spec.gpus for job in recent], dtype=np.int64),
        np.array([job.exclusive_seconds for job in recent]),
        gpus_total=max(state.placer.gpus, 1),
        round_seconds=state.rounds.round_seconds,
        horizon_seconds=math.inf,
    )
    if not len(expected):
        return ()
    gap = float(expected.after_seconds[0])
    span = now - float(arrival[0])
    chance = rng.random()  # the longer arrivals have lasted, the longer they go on
    lasts = min(habits.share_of_span * chance / max(1.0 - chance, 1e-9), _LONGEST) * span
    alike = min(len(recent), max(habits.recent_per_gpu * state.placer.gpus, habits.least_recent))
    options = state.table.options
    coming: list[TraceJob] = []
    time = now + rng.exponential(gap)
    while time < now + lasts and len(coming) < _MOST_EXPECTED:
        like = recent[-1 - int(rng.integers(alike))]
        spec = replace(
            like.spec,
            id=f"{_EXPECTED}{len(coming)}",
            arrival_seconds=time,
            group="",
            group_parallel=0,
            after=(),
            after_any=(),
        )
        speeds = like.speeds
        if options is not None and speeds is None:
            speeds = speeds_by_law(options.options, spec.gpus, like.regimes)
        coming.append(replace(like, spec=spec, speeds=speeds))
        time += rng.exponential(gap)
    return tuple(coming)


def _finished_life(spec: JobSpec, regimes: Sequence[tuple[int, float]]) -> TraceJob | None:
    """What a job that ended did, by its declared speeds; None where it declared none."""
    seconds = spec.epoch_seconds
    if not regimes or not all(np.isfinite(seconds[index]) for index, _ in regimes):
        return None
    lived = (
        Regime(spec.configurations[index], max(round(epochs), 1), seconds[index])
        for index, epochs in regimes
    )
    return TraceJob(spec, tuple(lived))
