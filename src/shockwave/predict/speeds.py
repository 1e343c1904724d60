"""How fast a job runs with every option: a posterior over its seconds per epoch.

The logarithm of a job's seconds per epoch with option ``o`` after ``b`` doublings of its epochs is

    y_j(o, b)  =  c(o, b)  +  f_k(o, b)  +  h_j(o)

``c`` is one of several curves of scaling (:mod:`shockwave.predict.speed_law`), which one is a
question of probability: of the model first, then of the job. ``f`` belongs to the model (jobs of
one kind share what they learn), ``h`` to the job alone; both are Gaussian. The covariance of ``f``
says how far a curve can be trusted: the level of a model and its taste for a type of GPU are open;
what is lost to synchronisation walks with the doublings of the GPUs, so that uncertainty widens
with the distance from what was measured; and all of it drifts as training goes on. What a job
measures itself tells about ``f`` and ``h`` together, so that options near to it are known as well.
How large ``h`` is, jobs of the model tell: by how much each was off what the others had let expect.
Conditioning is a least-squares problem of the size of one model's, then of one job's measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shockwave.model.options import Options
from shockwave.model.view import Floats, Ints, View
from shockwave.predict.own_speeds import Measured
from shockwave.predict.speed_law import (
    CURVES,
    STAGES,
    OptionShape,
    SpeedSettings,
    covariance_by_option,
    covariance_of_jobs,
    covariance_of_models,
    curves,
)

_STAGE_ENDS: Floats = np.append(2.0 ** np.arange(STAGES - 1), np.inf)
_STAGE_STARTS: Floats = np.append(0.0, _STAGE_ENDS[:-1])
_PRIOR_MODELS = 2.0  # that the curves without any experience count for
_PRIOR_JOBS = 2.0  # that the spread between jobs without any experience counts for
_LEAST_SPREAD, _MOST_SPREAD = 0.05, 9.0  # of the variance between jobs as set
_OTHER_CURVE = 0.3  # probability that a job is not on its model's curve, if jobs differ


@dataclass(frozen=True)
class Seen:
    """What is known of the jobs at the start of a round."""

    handle: Ints  # [job] ascending
    kind: Ints  # [job] the same number for jobs of the same model
    epochs_done: Floats  # [job]
    held: Ints  # [job] -1 for none
    measured: Floats  # [job, option] latest seconds per epoch, nan where there are none
    declared: Floats  # [job, option] what the job itself says, nan where it does not
    done_with: Floats | None = None  # [job, option] epochs done with it; None if all is new


@dataclass(frozen=True)
class Curves:
    """The posterior curve by curve: a Gaussian around each, and how likely each is."""

    likely: Floats  # [job, curve]
    apart: Floats  # [job, curve, option] its mean of the logarithm, less that of all curves
    deviation: Floats  # [job, option] of the logarithm around a curve


@dataclass(frozen=True)
class Speeds:
    """The posterior: the seconds per epoch are ``exp(N(log_mean, deviation^2))``."""

    log_mean: Floats  # [job, option] at the present stage
    deviation: Floats  # [job, option]
    unknown: Floats  # [job, option] how open the model is, by what all of its jobs have shown
    by_stage: Floats  # [job, option, stage] mean of the logarithm later on
    curves: Curves

    @property
    def median(self) -> Floats:
        """[job, option] seconds per epoch now."""
        return np.exp(self.log_mean)

    def quantile(self, deviations: Floats | float) -> Floats:
        """[job, option] seconds per epoch now, so many deviations from the median."""
        return np.asarray(np.exp(self.log_mean + deviations * self.deviation))

    def remaining_seconds(self, epochs_done: Floats, epochs: Floats) -> Floats:
        """[job, option] seconds from ``epochs_done`` to ``epochs`` with that option throughout."""
        since = np.maximum(_STAGE_STARTS, epochs_done[:, None])
        until = np.minimum(_STAGE_ENDS, epochs[:, None])
        within = np.maximum(until - since, 0.0)
        return np.asarray((np.exp(self.by_stage) * within[:, None, :]).sum(axis=2))


def stage_of(epochs_done: Floats) -> Ints:
    """[job] 0 before the first epoch is done, then one more with every doubling."""
    doublings = np.floor(np.log2(np.maximum(epochs_done, 0.5))).astype(np.int64) + 1
    return np.clip(doublings, 0, STAGES - 1)


class SpeedLearner:
    """Takes in what every round shows, and answers with the posterior of all jobs."""

    def __init__(self, settings: SpeedSettings | None = None) -> None:
        self.settings = settings or SpeedSettings()
        self._shape: OptionShape | None = None
        self._before = np.zeros((STAGES, 0, 0)), np.zeros((0, STAGES, STAGES))  # what is open
        self._kinds: dict[int, _Kind] = {}
        self._jobs = Measured.nothing()

    def see(self, view: View, options: Options, declared: Floats | None = None) -> Speeds:
        """Learns from a round as a policy sees it; ``declared`` in place of what jobs said."""
        return self.learn(
            OptionShape(options.type, options.gpus, options.spans),
            Seen(
                handle=view.handle,
                kind=view.kind,
                epochs_done=view.epochs_done,
                held=options.held,
                measured=options.measured,
                declared=options.declared if declared is None else declared,
                done_with=options.measured_epochs,
            ),
        )

    def learn(self, shape: OptionShape, seen: Seen) -> Speeds:
        """The posterior after this round's measurements. Jobs that are gone are forgotten."""
        if self._shape is None or not self._shape.same(shape):
            self._before = covariance_by_option(shape, self.settings)
            for record in self._kinds.values():
                record.widen(len(shape))
        self._shape = shape
        self._jobs = self._jobs.of(seen.handle, len(shape))
        kind = seen.kind if self.settings.share else seen.handle
        stage = stage_of(seen.epochs_done)
        self._observe(shape, seen, kind, stage)
        numbers, row = np.unique(kind, return_inverse=True)
        kinds = [self._kinds.setdefault(number, _Kind()) for number in numbers.tolist()]
        tastes, usual = self._tastes(shape), self._usual_curves()
        for record in kinds:
            record.condition(shape, self.settings, tastes, usual, self._before)
        if not self.settings.share:
            for number in self._kinds.keys() - set(numbers.tolist()):
                del self._kinds[number]
        return self._posterior(shape, seen, stage, kinds, row, usual)

    def _posterior(
        self, shape: OptionShape, seen: Seen, stage: Ints, kinds: list[_Kind], row: Ints,
        usual: Floats,
    ) -> Speeds:  # fmt: skip
        """Of every job: its model's curves, each with what sets the job apart from it."""
        models = np.stack([record.mean for record in kinds])  # [kind, curve, option, stage]
        spread = np.array([record.spread for record in kinds])[row]
        likely = np.stack([record.likely for record in kinds])[row]
        other = (_OTHER_CURVE * np.minimum(spread, 1.0))[:, None]
        likely = (1.0 - other) * likely + other * usual
        doubt = np.stack([record.covariance for record in kinds])  # [kind, stage, option, option]
        since = self._jobs.since(np.stack([record.drifts for record in kinds]), row, stage)
        own, variance, misfit = self._jobs.apart(
            covariance_of_jobs(shape, self.settings), spread, models, doubt, since, row, stage,
            seen.declared, self.settings.noise,
        )  # fmt: skip
        likely = likely * np.exp(-0.5 * (misfit - misfit.min(axis=1, keepdims=True)))
        likely /= likely.sum(axis=1, keepdims=True)
        by_stage = np.empty((len(row), len(shape), STAGES))
        open_curve, itself = np.empty(variance.shape), self._jobs.shown(since)
        for number in range(len(kinds)):  # one at a time: jobs times curves are many
            mine = np.flatnonzero(row == number)
            weight, off = likely[mine], own[mine]
            by_stage[mine] = np.einsum("jc,cos->jos", weight, models[number])
            by_stage[mine] += np.einsum("jc,jco->jo", weight, off)[:, :, None]
            off += models[number][:, :, stage[mine]].transpose(2, 0, 1)
            off -= np.einsum("jc,jco->jo", weight, off)[:, None, :]
            own[mine] = np.where(itself[mine][:, None, :], 0.0, off)  # whatever curve it is on
            open_curve[mine] = np.einsum("jc,jco->jo", weight, np.square(own[mine]))
        around = variance + self.settings.noise**2
        deviation = np.sqrt(open_curve + around)
        mean = by_stage[np.arange(len(row)), :, stage]
        unknown = np.sqrt(np.diagonal(doubt, axis1=2, axis2=3)[row, stage])
        curves = Curves(likely, own, np.sqrt(around))
        return Speeds(mean, deviation, unknown, by_stage, curves)

    def _tastes(self, shape: OptionShape) -> Floats:
        """[type] how much longer an epoch takes there than on other types, over all models.

        From models that were measured on several types, with the fewest GPUs: there nothing is
        exchanged. Their differences are averaged, and count the more the more models there are.
        """
        types = int(shape.type.max(initial=-1)) + 1
        total, models = np.zeros(types), np.zeros(types)
        fewest = [
            own[np.argmin(shape.gpus[own])] if len(own) else 0
            for own in (np.flatnonzero(shape.type == number) for number in range(types))
        ]
        for record in self._kinds.values():
            measured = record.count.sum(axis=1) > 0
            numbers = np.unique(shape.type[: len(measured)][measured])
            if record.fitted and len(numbers) > 1:
                middle = np.tensordot(record.likely, record.mean, axes=1)
                own = np.array([middle[fewest[number]].mean() for number in numbers])
                total[numbers] += own - own.mean()
                models[numbers] += 1.0
        return np.asarray(total / (models + 0.5))

    def _usual_curves(self) -> Floats:
        """[curve] how likely each is for a model that nobody has run: as it was for the others."""
        known = [record.likely for record in self._kinds.values() if record.fitted]
        total = np.full(CURVES, _PRIOR_MODELS / CURVES) + np.sum(known, axis=0)
        return np.asarray(total / total.sum())

    def _observe(self, shape: OptionShape, seen: Seen, kind: Ints, stage: Ints) -> None:
        latest = seen.measured[np.arange(len(kind)), np.maximum(seen.held, 0)]
        new = (seen.held >= 0) & (latest > 0) & np.isfinite(latest)
        if seen.done_with is not None:
            new &= self._jobs.has_new(seen.held, latest, seen.done_with)
        running = np.flatnonzero(new)
        variance = np.diagonal(covariance_of_jobs(shape, self.settings))
        for job in running.tolist():
            option, now, number = int(seen.held[job]), int(stage[job]), int(kind[job])
            value = float(np.log(latest[job]))
            record = self._kinds.setdefault(number, _Kind())
            record.widen(len(shape))
            if not self._jobs.knows(job):
                record.compare(option, now, value, float(variance[option]))
            again = self._jobs.last(job) == (option, now, number)
            record.add(option, now, value, again)
            self._jobs.take(job, (option, now, number), value, record.drift(option, now))


@dataclass
class _Kind:
    """What is known of one model: a mean per cell (option, stage), and how many jobs it is of."""

    total: Floats = field(default_factory=lambda: np.zeros((0, STAGES)))
    count: Floats = field(default_factory=lambda: np.zeros((0, STAGES)))
    mean: Floats = field(default_factory=lambda: np.zeros((CURVES, 0, STAGES)))
    covariance: Floats = field(default_factory=lambda: np.zeros((STAGES, 0, 0)))  # at a stage
    drifts: Floats = field(default_factory=lambda: np.zeros((0, STAGES, STAGES)))  # variance
    likely: Floats = field(default_factory=lambda: np.full(CURVES, 1.0 / CURVES))
    _apart: float = _PRIOR_JOBS  # squares of how far jobs were from what was expected of them
    _compared: float = _PRIOR_JOBS
    _used: tuple[Floats, Floats] | None = None  # of the last conditioning: averages, counts

    @property
    def fitted(self) -> bool:
        return self._used is not None and bool((self.count > 0).any())

    @property
    def spread(self) -> float:
        """The variance between jobs of the model, over that of the settings."""
        return float(np.clip(self._apart / self._compared, _LEAST_SPREAD, _MOST_SPREAD))

    def widen(self, options: int) -> None:
        if options > len(self.total):
            more = np.zeros((options - len(self.total), STAGES))
            self.total, self.count = np.vstack([self.total, more]), np.vstack([self.count, more])
            self._used = None

    def compare(self, option: int, stage: int, log_seconds: float, job_variance: float) -> None:
        """How far a job's first measurement is from what others let expect."""
        if not self.fitted:
            return
        middle = float(self.likely @ self.mean[:, option, stage])
        doubt = float(self.covariance[stage, option, option])
        doubt += float(self.likely @ (self.mean[:, option, stage] - middle) ** 2)
        weight = (job_variance / (job_variance + doubt)) ** 2
        self._apart += weight * max((log_seconds - middle) ** 2 - doubt, 0.0) / job_variance
        self._compared += weight

    def drift(self, option: int, stage: int) -> Floats:
        """[stage] how much longer an epoch takes now than it took then."""
        if not self.fitted:
            return np.zeros(STAGES)
        middle = self.likely @ self.mean[:, option]
        return np.asarray(middle[stage] - middle)

    def add(self, option: int, stage: int, log_seconds: float, again: bool) -> None:
        """A measurement; ``again`` if the same job was the last to measure this cell, just now."""
        if again and self.count[option, stage] > 0:
            average = self.total[option, stage] / self.count[option, stage]
            self.total[option, stage] += log_seconds - average
        else:
            self.total[option, stage] += log_seconds
            self.count[option, stage] += 1.0

    def _changed(self, average: Floats, before: Floats, count: Floats, noise: float) -> bool:
        """Whether there are new cells, other averages, or many more jobs behind them."""
        if np.isnan(average).all() or (np.isnan(before) != np.isnan(average)).any():
            return True
        moved = np.nanmax(np.abs(average - before), initial=0.0) > 0.5 * noise
        return bool(moved or (self.count > 1.5 * count + 0.5).any())

    def condition(
        self, shape: OptionShape, s: SpeedSettings, tastes: Floats, usual: Floats,
        before: tuple[Floats, Floats],
    ) -> None:  # fmt: skip
        """The posterior at every cell, unless little has changed since the last one.

        Every curve is conditioned on what was measured; the less it had to be bent, by the
        covariance, the likelier it is.
        """
        self.widen(len(shape))
        average = np.divide(
            self.total, self.count, out=np.full_like(self.total, np.nan), where=self.count > 0
        )
        if self._used is not None and not self._changed(average, *self._used, s.noise):
            return
        self._used = average, self.count.copy()
        option, stage = (found.astype(np.int64) for found in np.nonzero(self.count > 0))
        seen = option, stage
        law = curves(shape, s, tastes)
        grid = np.repeat(np.arange(len(shape)), STAGES), np.tile(np.arange(STAGES), len(shape))
        every = np.arange(len(shape))
        covariance, together = before[0].copy(), before[1].copy()
        self.mean, self.likely = law, usual
        if len(option):
            inner = covariance_of_models(shape, s, seen, seen)
            apart = self.spread * np.diagonal(covariance_of_jobs(shape, s))[option]
            inner[np.diag_indices(len(inner))] += s.noise**2 + apart / self.count[seen]
            cross = covariance_of_models(shape, s, grid, seen)
            weights = np.linalg.solve(inner, cross.T)  # [seen, cell]
            off = average[seen] - law[:, option, stage]  # [curve, seen]
            self.mean = law + (off @ weights).reshape(law.shape)
            misfit = (off * np.linalg.solve(inner, off.T).T).sum(axis=1)
            likely = usual * np.exp(-0.5 * (misfit - misfit.min()))
            self.likely = likely / likely.sum()
            by_stage = cross.reshape(len(shape), STAGES, -1).transpose(1, 0, 2)
            solved = weights.reshape(len(option), len(shape), STAGES).transpose(2, 0, 1)
            covariance -= by_stage @ solved
            together -= np.einsum("som,tmo->ost", by_stage, solved)
        covariance[:, every, every] = np.maximum(covariance[:, every, every], 0.0)
        self.covariance = covariance
        alone = np.diagonal(covariance, axis1=1, axis2=2).T  # [option, stage]
        drifts = alone[:, :, None] + alone[:, None, :] - 2.0 * together
        self.drifts = np.maximum(drifts, 0.0)
