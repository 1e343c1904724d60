"""Restatement with a prior learned from finished jobs: the predictor to use.

What a job did so far is fact; what it will do is a mixture of four answers:

* ``split``: the epochs left are split equally over the ongoing and every reachable
  configuration (:mod:`shockwave.predict.shares`), the prior before anything was learned;
* ``stay``: the ongoing regime is the last one;
* ``relative`` and ``absolute``: it goes on as finished jobs of its kind went on from the
  same point, by one or the other clock (:mod:`shockwave.predict.experience`).

How much each answer counts is learned as well. Every finished job is replayed at a few
points of its life, and an answer's weight is the inverse square of its mean error there,
kept separately for jobs that have changed their configuration and jobs that have not yet:
"most jobs of this kind never adapt" is learned as the error of ``stay`` before the first
change. Errors of a kind shrink to those of its adaptation, and those to a common prior,
so that a kind with little evidence is predicted as its relatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from shockwave.model.job import Regime, TraceJob
from shockwave.model.view import Floats, Ints, View
from shockwave.predict.base import FinishedJob, Forecast, Predictor, Trajectories
from shockwave.predict.claims import Claims
from shockwave.predict.experience import (
    Example,
    Examples,
    Experience,
    Futures,
    Situation,
    futures,
)
from shockwave.predict.forecasts import GRID, UncertainForecast
from shockwave.predict.memo import Memo
from shockwave.predict.shares import SharesForecast
from shockwave.predict.snapshots import Snapshot, view_of
from shockwave.predict.transitions import current
from shockwave.predict.trust import ABSOLUTE, ANSWERS, RELATIVE, SPLIT, STAY, Trust, numbered

_REPLAYED_AT = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8)
_FULL_REPLAYS, _FREQUENT_REPLAYS = 32, 256  # of a kind; then every 8th, later every 32nd
_EXAMPLES_TO_TRUST = 1.0
_JITTER = 0.2  # a regime ends earlier or later than its example by up to this share


_MixtureOf = Callable[[View], "MixtureForecast"]


class Restatement(Predictor):
    """Facts restated, the rest by a prior learned from jobs of the same kind."""

    name: ClassVar[str] = "restatement"

    def __init__(self) -> None:
        self.experience = Experience()
        self.trust = Trust()
        self._claims = Claims()
        self._finished: dict[int, int] = {}
        self._means = Memo(1)
        self._grids = Memo(GRID)

    def forecast(self, view: View) -> Forecast:
        view = self._claims.checked(view)
        return _RememberedForecast(view, self)

    def means(self, view: View, mixture: _MixtureOf) -> Floats:
        """[job] mean remaining seconds, as far as possible from memory."""
        return self._means.rows(
            view, self._stamp, lambda stale: mixture(stale).remaining_seconds[:, None]
        )[:, 0]

    def grid(self, view: View, mixture: _MixtureOf) -> Floats:
        """[point, job] the grid that quantiles are read from, as far as possible from memory."""
        return self._grids.rows(view, self._stamp, lambda stale: mixture(stale).sorted_grid.T).T

    @property
    def _stamp(self) -> int:
        """Jobs that wait are looked at again once there is a twentieth more experience."""
        return int(math.log1p(sum(self._finished.values())) / math.log(1.05))

    def learn(self, finished: Sequence[FinishedJob]) -> None:
        for told in finished:
            job = told
            if self._claims.learn(told) != 1.0:  # what it did counts, not what it said
                taken = max(round(sum(epochs for _, epochs in told.regimes)), 1)
                job = replace(told, spec=replace(told.spec, epochs=taken))
            example = Example.of(job)
            if example is None:
                continue
            count = self._finished[job.kind] = self._finished.get(job.kind, 0) + 1
            choice = len(job.spec.configurations) > 1
            every = 8 if count <= _FREQUENT_REPLAYS else 32
            if choice and (count <= _FULL_REPLAYS or count % every == 0):
                self._replay(job)
            self.experience.add(job.spec.adaptation, example)

    def _replay(self, job: FinishedJob) -> None:
        """Compare every answer with what the job did, by its declared epoch times."""
        seconds = job.spec.epoch_seconds
        if not all(np.isfinite(seconds[index]) for index, _ in job.regimes):
            return
        regimes = tuple(
            Regime(job.spec.configurations[index], int(epochs), seconds[index])
            for index, epochs in job.regimes
        )
        life = TraceJob(job.spec, regimes)
        snapshots = [Snapshot(life, share * job.spec.epochs) for share in _REPLAYED_AT]
        view = view_of(snapshots, {(job.spec.model, job.spec.adaptation.value): job.kind})
        truth = np.array([snapshot.remaining_seconds for snapshot in snapshots])
        answers = MixtureForecast(view, self.experience, self.trust).answers
        errors = np.abs(answers - truth) / max(life.exclusive_seconds, 1e-9)
        self.trust.observe(job.kind, job.spec.adaptation.code, changed(view), errors)


@dataclass(frozen=True)
class _Group:
    """Jobs that share examples, and what these say by one clock."""

    clock: int
    rows: Ints
    futures: Futures

    @property
    def evidence(self) -> Floats:
        """[job] how much the examples that agree with the job count in all."""
        return np.asarray(self.futures.weight.sum(axis=1))

    @property
    def shares(self) -> Floats:
        """[job, example] weights that sum to one, or to zero where nothing agrees."""
        return np.asarray(self.futures.weight / np.maximum(self.evidence, 1e-12)[:, None])


class MixtureForecast(UncertainForecast):
    """The mixture of all answers for every job of a view."""

    def __init__(
        self,
        view: View,
        experience: Experience,
        trust: Trust,
    ) -> None:
        self._view = view
        self._experience = experience
        self._trust = trust
        self._split = SharesForecast(view)

    @property
    def jobs(self) -> int:
        return len(self._view)

    @property
    def dimensions(self) -> int:
        return 2 + self._split.dimensions

    @cached_property
    def remaining_seconds(self) -> Floats:
        return np.asarray((self._weights * np.nan_to_num(self.answers)).sum(axis=0))

    @cached_property
    def answers(self) -> Floats:
        """[answer, job] mean remaining seconds by each answer; nan where it has none."""
        answers = np.full((len(ANSWERS), self.jobs), np.nan)
        answers[SPLIT] = self._split.remaining_seconds
        answers[STAY] = self._view.epochs_left * self._now_seconds
        for group in self._groups:
            own = self._seconds[group.rows[:, None, None], group.futures.path]
            seconds = np.einsum("jer,jer->je", group.futures.epochs, own)
            mean = (group.shares * seconds).sum(axis=1)
            answers[group.clock, group.rows] = np.where(group.evidence > 0, mean, np.nan)
        return answers

    def trajectories(self, uniforms: Floats) -> Trajectories:
        count, jobs = len(uniforms), self.jobs
        steps = np.cumsum(self._weights, axis=0)
        choice = np.broadcast_to(uniforms[:, :, 0], (count, jobs))
        jitter = np.broadcast_to(uniforms[:, :, 1], (count, jobs))
        # The answer that the first uniform falls on; what is left of it picks the example.
        answer = np.minimum((steps[:, None] <= choice).sum(axis=0), len(ANSWERS) - 1)
        narrow = self._split.dimensions
        width = max([narrow, *(group.futures.path.shape[2] for group in self._groups)])
        epochs = np.zeros((count, jobs, width))
        seconds = np.ones((count, jobs, width))
        sample, job = np.nonzero(answer == SPLIT)
        shared = uniforms[sample, job if uniforms.shape[1] > 1 else 0, 2:]
        epochs[sample, job, :narrow], seconds[sample, job, :narrow] = self._split.draw(job, shared)
        for group in self._groups:
            rows, clock = group.rows, group.clock
            sample, column = np.nonzero(answer[:, rows] == clock)
            if not len(sample):
                continue
            job = rows[column]
            low = steps[clock - 1, job]
            place = (choice[sample, job] - low) / np.maximum(self._weights[clock, job], 1e-12)
            ladder = np.cumsum(group.shares, axis=1)
            pick = (ladder[column] < place[:, None]).sum(axis=1)
            # Rounding may point beyond the ladder: the last example that counts at all.
            pick = np.minimum(pick, ladder.shape[1] - 1 - _trailing_zeros(group.shares)[column])
            drawn = _jittered(group.futures.epochs[column, pick], jitter[sample, job])
            epochs[sample, job] = _widened(drawn, width)
            own = self._seconds[job[:, None], group.futures.path[column, pick]]
            seconds[sample, job] = _widened(own, width)
        sample, job = np.nonzero(answer == STAY)
        epochs[sample, job, 0] = self._view.epochs_left[job]
        seconds[sample, job, 0] = self._now_seconds[job]
        return Trajectories(epochs=epochs, seconds=seconds)

    @property
    def _seconds(self) -> Floats:
        return self._split.seconds

    @cached_property
    def _now_seconds(self) -> Floats:
        return np.asarray(self._seconds[np.arange(self.jobs), current(self._view)])

    @cached_property
    def _weights(self) -> Floats:
        """[answer, job] weights of the mixture; they sum to one."""
        weights = self._trust.weights(self._view, changed(self._view)).T.copy()
        weights[SPLIT] *= self._split.survival
        heard = np.zeros_like(weights)
        heard[[SPLIT, STAY]] = 1.0
        for group in self._groups:
            heard[group.clock, group.rows] = group.evidence / (group.evidence + _EXAMPLES_TO_TRUST)
        weights *= heard
        return np.asarray(weights / weights.sum(axis=0))

    @cached_property
    def _groups(self) -> list[_Group]:
        """What the examples say by each clock; none while there are none."""
        view = self._view
        rows = np.flatnonzero(view.configurations > 1)
        if not len(rows):
            return []
        columns = [view.kind, view.adaptation, view.configurations, current(view), changed(view)]
        number, found = numbered([column[rows] for column in columns])
        parts = [
            self._experience.examples(Situation(kind, adaptation, count, now, bool(moved)))
            for kind, adaptation, count, now, moved in found
        ]
        examples = Examples.joined(parts)
        known = (examples.weight.max(axis=1) > 0)[number]
        rows, number = rows[known], number[known]
        if not len(rows):
            return []
        return [
            _Group(clock, rows, futures(examples, number, view, rows, relative=clock == RELATIVE))
            for clock in (RELATIVE, ABSOLUTE)
        ]


class _RememberedForecast(MixtureForecast):
    """The same; jobs that did not move since they were last predicted are not computed again."""

    def __init__(self, view: View, predictor: Restatement) -> None:
        super().__init__(view, predictor.experience, predictor.trust)
        self._predictor = predictor
        self._mixtures: dict[bytes, MixtureForecast] = {}

    @cached_property
    def remaining_seconds(self) -> Floats:
        return self._predictor.means(self._known, self._mixture)

    @cached_property
    def sorted_grid(self) -> Floats:
        return self._predictor.grid(self._known, self._mixture)

    def _mixture(self, some: View) -> MixtureForecast:
        """Of some of the jobs. Mostly means and quantiles are asked for of the same ones."""
        key = some.handle.tobytes()
        if key not in self._mixtures:
            self._mixtures[key] = MixtureForecast(some, self._experience, self._trust)
        return self._mixtures[key]

    @cached_property
    def _known(self) -> View:
        """Unknown epoch times are estimated from the other jobs: before looking at a few."""
        return replace(self._view, measured_seconds=self._seconds)


def changed(view: View) -> Ints:
    """[job] 1 where a job has left its first configuration, else 0."""
    return np.asarray((view.regime_epochs < view.epochs_done - 1e-9).astype(np.int64))


def _trailing_zeros(shares: Floats) -> Ints:
    """[job] examples at the end of the row that do not count."""
    return np.asarray((np.cumsum(shares[:, ::-1], axis=1) <= 0).sum(axis=1))


def _widened(values: Floats, width: int) -> Floats:
    return np.pad(values, ((0, 0), (0, width - values.shape[1])))


def _jittered(epochs: Floats, uniform: Floats) -> Floats:
    """Move the ends of the regimes to come; what they add up to stays the same.

    ``epochs[draw, regime]``, one uniform number per draw. An end moves by a share of its
    distance from now or from the job's end, whichever is closer.
    """
    ends = np.cumsum(epochs, axis=1)
    room = np.minimum(ends, ends[:, -1:] - ends)
    moved = ends + _JITTER * (2.0 * uniform[:, None] - 1.0) * room
    return np.diff(moved, axis=1, prepend=0.0)
