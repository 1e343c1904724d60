"""How good are predictions of speed? Scores the posterior over options, without a cluster.

Jobs come in order of arrival, one after the other. Each is asked about before it starts, and then
at 25, 50 and 75 % of its epochs, when it has just been measured on an option drawn at random: how
long will an epoch take, now, with every option that it may use? Errors are grouped by how far an
option is from the nearest one on which this job was measured.

Beside the posterior stand the same without what other jobs taught (``alone``), and two rules that
need no learning: ``linear``, twice the GPUs in half the time, and ``constant``, as fast on anything
as on what was measured last. Neither knows anything of a job that was not measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shockwave.model.job import TraceJob
from shockwave.model.options import Option
from shockwave.model.view import Floats, Ints
from shockwave.predict.scoring import PROGRESS
from shockwave.predict.speed_law import OptionShape, SpeedSettings
from shockwave.predict.speeds import Seen, SpeedLearner

DISTANCES = ("measured", "1 doubling", "2 doublings", "further", "another type", "newcomer")
_MEASURED, _FURTHER, _OTHER_TYPE, _NEWCOMER = 0, 3, 4, 5
_DEVIATIONS_80 = 1.2815515655446004  # of a normal, on both sides
_NODE_GPUS = 4


@dataclass(frozen=True)
class SpeedScore:
    """One predictor at one distance (None: all of them)."""

    predictor: str
    distance: str | None
    cases: int
    error_relative: float  # mean of |predicted - true| / true, of the median
    median_error_relative: float
    coverage_80: float | None  # truth within [quantile(0.1), quantile(0.9)]; None without intervals


@dataclass(frozen=True)
class _Guess:
    seconds: Floats  # [option] nan where it has nothing to say
    low: Floats | None = None
    high: Floats | None = None


def score_speeds(
    jobs: Sequence[TraceJob], *, node_gpus: Mapping[str, int] | None = None, seed: int = 0
) -> list[SpeedScore]:
    """Scores on the jobs whose speeds are known for several options; empty if there are none.

    ``node_gpus`` is how many GPUs a node of a type has, 4 where it does not say.
    """
    several = [job for job in jobs if len(_usable(job)) > 1]
    several.sort(key=lambda job: job.spec.arrival_seconds)
    keys = sorted({option for job in several for option in _usable(job)})
    sizes = node_gpus or {}
    types = {name: number for number, name in enumerate(dict.fromkeys(k.gpu_type for k in keys))}
    shape = OptionShape(
        np.array([types[key.gpu_type] for key in keys], dtype=np.int64),
        np.array([key.gpus for key in keys], dtype=np.int64),
        np.array([key.gpus > sizes.get(key.gpu_type, _NODE_GPUS) for key in keys], dtype=np.bool_),
    )
    scores = []
    for name, learner in (
        ("posterior", SpeedLearner()),
        ("alone", SpeedLearner(SpeedSettings(share=False))),
        ("linear", None),
        ("constant", None),
    ):
        cases = _cases(name, learner, several, keys, shape, np.random.default_rng(seed))
        if len(cases):
            scores += [_score(name, number, cases) for number in (*range(len(DISTANCES)), None)]
    return [one for one in scores if one.cases]


def _usable(job: TraceJob) -> list[Option]:
    if job.speeds is None:
        return []
    counts = job.spec.gpu_counts or (job.spec.gpus,)
    named = job.spec.gpu_types or job.speeds.types
    return [
        Option(name, count)
        for name in named
        for count in counts
        if count in job.speeds.by_type.get(name, {})
    ]


def _cases(
    name: str,
    learner: SpeedLearner | None,
    jobs: Sequence[TraceJob],
    keys: Sequence[Option],
    shape: OptionShape,
    rng: np.random.Generator,
) -> Floats:
    """[case, (distance, relative error, inside)]; ``inside`` is nan where there is no interval."""
    kinds: dict[str, int] = {}
    rows: list[Floats] = []
    for handle, job in enumerate(jobs):
        assert job.speeds is not None
        usable = np.array([keys.index(option) for option in _usable(job)], dtype=np.int64)
        kind = kinds.setdefault(job.spec.model, len(kinds))
        measured = np.full(len(keys), np.nan)
        for share in (0.0, *PROGRESS):
            done = share * job.speeds.epochs
            epoch = min(int(done), job.speeds.epochs - 1)
            truth = np.full(len(keys), np.nan)
            for place in usable.tolist():
                times = job.speeds.epoch_seconds(keys[place].gpu_type, keys[place].gpus)
                truth[place] = times[epoch]
            held = -1 if share == 0.0 else int(usable[rng.integers(len(usable))])
            if held >= 0:
                measured[held] = truth[held]
            if learner is None:
                guess = _by_rule(name, shape, held, measured)
            else:
                guess = _learned(learner, shape, handle, kind, done, held, measured)
            distance = _distances(shape, measured)
            known = usable[~np.isnan(guess.seconds[usable])]
            inside = np.full(len(keys), np.nan)
            if guess.low is not None and guess.high is not None:
                within = (guess.low <= truth) & (truth <= guess.high)
                inside = within.astype(np.float64)
            error = np.abs(guess.seconds / truth - 1.0)
            rows.append(np.stack([distance[known], error[known], inside[known]], axis=1))
    return np.concatenate(rows) if rows else np.empty((0, 3))


def _learned(
    learner: SpeedLearner,
    shape: OptionShape,
    handle: int,
    kind: int,
    epochs_done: float,
    held: int,
    measured: Floats,
) -> _Guess:
    seen = Seen(
        handle=np.array([handle]),
        kind=np.array([kind]),
        epochs_done=np.array([epochs_done]),
        held=np.array([held]),
        measured=measured[None, :].copy(),
        declared=np.full((1, len(shape)), np.nan),
    )
    speeds = learner.learn(shape, seen)
    low, high = (speeds.quantile(sign * _DEVIATIONS_80)[0] for sign in (-1.0, 1.0))
    return _Guess(speeds.median[0], low, high)


def _by_rule(name: str, shape: OptionShape, held: int, measured: Floats) -> _Guess:
    if held < 0:
        return _Guess(np.full(len(shape), np.nan))
    fewer = shape.gpus[held] / shape.gpus if name == "linear" else np.ones(len(shape))
    return _Guess(measured[held] * fewer)


def _distances(shape: OptionShape, measured: Floats) -> Ints:
    """[option] position in ``DISTANCES``."""
    known = np.flatnonzero(~np.isnan(measured))
    if not len(known):
        return np.full(len(shape), _NEWCOMER)
    apart = np.abs(np.log2(shape.gpus)[:, None] - np.log2(shape.gpus[known]))
    apart = np.where(shape.type[:, None] == shape.type[known], apart, np.inf)
    nearest = apart.min(axis=1)
    steps = np.where(np.isinf(nearest), 0.0, np.ceil(nearest - 1e-9))
    same = np.minimum(steps, _FURTHER).astype(np.int64)
    return np.where(np.isinf(nearest), _OTHER_TYPE, same)


def _score(name: str, distance: int | None, cases: Floats) -> SpeedScore:
    rows = cases if distance is None else cases[cases[:, 0] == distance]
    inside = rows[:, 2]
    return SpeedScore(
        predictor=name,
        distance=None if distance is None else DISTANCES[distance],
        cases=len(rows),
        error_relative=float(rows[:, 1].mean()) if len(rows) else 0.0,
        median_error_relative=float(np.median(rows[:, 1])) if len(rows) else 0.0,
        coverage_80=float(inside.mean()) if len(rows) and not np.isnan(inside).any() else None,
    )
