"""How good are predictions? Scores predictors on a trace, without simulating a cluster.

Every job that can adapt (declares more than one configuration) is shown to the predictor
at 25, 50 and 75 % of its epochs, as it would look had it run alone since its arrival;
jobs that would have finished by then have been learned from. Jobs with one configuration
are left out: everybody predicts them exactly, so they would only dilute the scores.

Coverage needs care where a forecast has atoms ("this job is in its last configuration,
so this is its remaining time"): the closed interval between two quantiles that coincide
covers a true atom always, and a predictor that is certain and right would count as badly
calibrated. So coverage is counted by the randomised probability integral transform: the
truth lies in the forecast distribution ``F`` at a place uniform on ``[F(x-), F(x)]``, and
the central interval of level ``p`` covers it with the share of that range that lies within
``[(1 - p) / 2, (1 + p) / 2]``. Then a calibrated predictor covers exactly ``p`` and a
point forecast that is right counts ``p``, one that is wrong counts 0. The share of cases
inside the closed interval ``[quantile(0.1), quantile(0.9)]`` is reported beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shockwave.model.job import TraceJob
from shockwave.model.view import Floats
from shockwave.predict.base import Predictor
from shockwave.predict.snapshots import Kind, Snapshot, finished, number_kinds, view_of

PROGRESS = (0.25, 0.5, 0.75)
LEVELS = tuple(level / 10 for level in range(1, 10))
_TOLERANCE = 1e-6  # relative to the exclusive runtime: closer is equal
_SAMPLES = 200


@dataclass(frozen=True)
class Score:
    """One predictor at one point of progress (None: all points together)."""

    predictor: str
    progress: float | None
    cases: int
    mae_seconds: float  # of the mean
    mae_relative: float  # the same over the exclusive runtime, mean over jobs
    median_mae_seconds: float  # of the median, the point that absolute errors ask for
    crps_seconds: float
    coverage_80: float  # by the randomised transform
    closed_coverage_80: float  # truth within [quantile(0.1), quantile(0.9)]
    calibration: tuple[tuple[float, float], ...]  # (nominal, empirical coverage)


@dataclass(frozen=True)
class _Cases:
    """Columns over all cases of one predictor."""

    progress: Floats
    exclusive: Floats
    error: Floats
    median_error: Floats
    crps: Floats
    inside: Floats
    below: Floats  # F(x-)
    upto: Floats  # F(x)

    def score(self, predictor: str, progress: float | None) -> Score:
        rows = np.ones(len(self.progress), bool) if progress is None else self.progress == progress
        covered = tuple(
            (level, float(_mean(_covered(self.below[rows], self.upto[rows], level))))
            for level in LEVELS
        )
        return Score(
            predictor=predictor,
            progress=progress,
            cases=int(rows.sum()),
            mae_seconds=_mean(self.error[rows]),
            mae_relative=_mean(self.error[rows] / self.exclusive[rows]),
            median_mae_seconds=_mean(self.median_error[rows]),
            crps_seconds=_mean(self.crps[rows]),
            coverage_80=_mean(_covered(self.below[rows], self.upto[rows], 0.8)),
            closed_coverage_80=_mean(self.inside[rows]),
            calibration=covered,
        )


def score(
    jobs: Sequence[TraceJob],
    predictors: Sequence[Callable[[], Predictor]],
    *,
    seed: int = 0,
) -> list[Score]:
    """Scores of fresh predictors on a trace, per point of progress and over all of them.

    Jobs without a choice are left out; a trace without any job that can adapt gives scores
    of zero cases.
    """
    kinds = number_kinds(jobs)
    snapshots = sorted(
        (
            (Snapshot(job, share * job.spec.epochs), share)
            for job in jobs
            if len(job.spec.configurations) > 1
            for share in PROGRESS
        ),
        key=lambda entry: entry[0].time,
    )
    scores = []
    for make in predictors:
        predictor = make()
        cases = _cases(predictor, jobs, snapshots, kinds, np.random.default_rng(seed))
        scores += [cases.score(predictor.name, progress) for progress in (*PROGRESS, None)]
    return scores


def _cases(
    predictor: Predictor,
    jobs: Sequence[TraceJob],
    snapshots: Sequence[tuple[Snapshot, float]],
    kinds: dict[Kind, int],
    rng: np.random.Generator,
) -> _Cases:
    """Show the snapshots in order of time, teaching the jobs that finished in between."""
    done = sorted(jobs, key=lambda job: job.spec.arrival_seconds + job.exclusive_seconds)
    ends = np.array([job.spec.arrival_seconds + job.exclusive_seconds for job in done])
    known = np.searchsorted(ends, [entry.time for entry, _ in snapshots], side="right")
    if type(predictor).learn is Predictor.learn:  # does not learn: one batch will do
        known = np.zeros_like(known)
    rows: list[Floats] = []
    taught = start = 0
    while start < len(snapshots):
        stop = int(np.searchsorted(known, known[start], side="right"))
        if known[start] > taught:
            predictor.learn([finished(job, kinds) for job in done[taught : known[start]]])
            taught = int(known[start])
        rows.append(_compare(predictor, snapshots[start:stop], kinds, rng))
        start = stop
    columns = np.concatenate(rows, axis=1) if rows else np.zeros((8, 0))
    return _Cases(*columns)


def _compare(
    predictor: Predictor,
    snapshots: Sequence[tuple[Snapshot, float]],
    kinds: dict[Kind, int],
    rng: np.random.Generator,
) -> Floats:
    """[column of _Cases, snapshot] one forecast for all snapshots against the truth."""
    view = view_of([entry for entry, _ in snapshots], kinds)
    truth = np.array([entry.remaining_seconds for entry, _ in snapshots])
    exclusive = np.array([entry.job.exclusive_seconds for entry, _ in snapshots])
    near = _TOLERANCE * exclusive
    forecast = predictor.forecast(view)
    samples = forecast.sample(_SAMPLES, rng).remaining_seconds
    low, high = forecast.quantile(0.1), forecast.quantile(0.9)
    return np.stack(
        [
            np.array([progress for _, progress in snapshots]),
            exclusive,
            np.abs(forecast.remaining_seconds - truth),
            np.abs(forecast.quantile(0.5) - truth),
            crps(samples, truth),
            ((low - near <= truth) & (truth <= high + near)).astype(np.float64),
            (samples < truth - near).mean(axis=0),
            (samples <= truth + near).mean(axis=0),
        ]
    )


def crps(samples: Floats, truth: Floats) -> Floats:
    """[case] continuous ranked probability score, ``E|X - x| - E|X - X'| / 2``.

    ``samples[s, case]``; in the unit of the samples, smaller is better, and for a point
    forecast the absolute error.
    """
    count = len(samples)
    ordered = np.sort(samples, axis=0)
    weights = (2.0 * np.arange(1, count + 1) - count - 1.0)[:, None]
    spread = (weights * ordered).sum(axis=0) / count**2
    return np.asarray(np.abs(samples - truth).mean(axis=0) - spread)


def _covered(below: Floats, upto: Floats, level: float) -> Floats:
    """[case] share of ``[below, upto]`` within the central interval of that level."""
    low, high = (1.0 - level) / 2.0, (1.0 + level) / 2.0
    width = upto - below
    overlap = np.clip(np.minimum(upto, high) - np.maximum(below, low), 0.0, None)
    point = (below >= low) & (below <= high)
    return np.where(width > 0, overlap / np.where(width > 0, width, 1.0), point)


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0
