"""How fast a job runs with every option: a posterior over its seconds per epoch.

The logarithm of a job's seconds per epoch with option ``o`` after ``b`` doublings of its epochs is

    y_j(o, b)  =  f_k(o, b)  +  h_j(o)

``f`` belongs to the model (jobs of one kind share what they learn), ``h`` to the job alone. Both
are Gaussian, so that speeds are log-normal. The mean of ``f`` is a scaling law: twice the GPUs,
half the time and a little lost to synchronisation, more of it across nodes. Its covariance says how
far the law can be trusted: the level of a model and its taste for a type of GPU are open; what is
lost to synchronisation is a random walk over the doublings of the GPUs, so that uncertainty widens
with the distance from what was measured, and across nodes another step; and all of it drifts as
training goes on. Conditioning on what was measured is a least-squares problem of the size of one
model's measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shockwave.model.options import Options
from shockwave.model.view import Bools, Floats, Ints, View

STAGES = 12  # doublings of the epochs done: 0-1, 1-2, 2-4, ... epochs
_STAGE_ENDS: Floats = np.append(2.0 ** np.arange(STAGES - 1), np.inf)
_STAGE_STARTS: Floats = np.append(0.0, _STAGE_ENDS[:-1])


@dataclass(frozen=True)
class SpeedSettings:
    """Standard deviations in units of the logarithm: 0.1 is about 10 %."""

    loss_per_doubling: float = 0.08  # what the scaling law loses to synchronisation
    loss_across_nodes: float = 0.2
    first_loss: float = 0.5  # more of it per doubling in the first epoch, when large batches waste
    first_loss_stages: float = 1.5  # stages in which that halves
    first_spread: float = 0.35  # how far a model is from that: one that is fine-tuned has none
    level: float = 3.0  # of a model nobody has run
    type: float = 0.7  # what a type of GPU is worth to one model more than to others
    doubling: float = 0.2  # per doubling of the GPUs
    across_nodes: float = 0.3
    stage: float = 0.3  # per doubling of the GPUs, that training itself changes
    stage_memory: float = 2.0  # stages after which the change is forgotten
    job: float = 0.2  # how far one job of a model is from another
    job_memory: float = 4.0  # doublings of the GPUs after which its difference is forgotten
    noise: float = 0.02  # of a measurement
    share: bool = True  # learn from other jobs of the same model


@dataclass(frozen=True)
class OptionShape:
    """What options are, as far as speeds depend on it."""

    type: Ints  # [option]
    gpus: Ints  # [option]
    spans: Bools  # [option] needs several nodes

    def __len__(self) -> int:
        return len(self.type)


@dataclass(frozen=True)
class Seen:
    """What is known of the jobs at the start of a round."""

    handle: Ints  # [job] ascending
    kind: Ints  # [job] the same number for jobs of the same model
    epochs_done: Floats  # [job]
    held: Ints  # [job] -1 for none
    measured: Floats  # [job, option] latest seconds per epoch, nan where there are none
    declared: Floats  # [job, option] what the job itself says, nan where it does not


@dataclass(frozen=True)
class Speeds:
    """The posterior: the seconds per epoch are ``exp(N(log_mean, deviation^2))``."""

    log_mean: Floats  # [job, option] at the present stage
    deviation: Floats  # [job, option]
    unknown: Floats  # [job, option] the part of the deviation that every job of the model shares
    by_stage: Floats  # [job, option, stage] mean of the logarithm later on

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
        self._kinds: dict[int, _Kind] = {}
        self._handle: Ints = np.empty(0, dtype=np.int64)
        self._difference: Floats = np.empty((0, 0))  # [job, option] of its own, nan if unknown
        self._cell: Ints = np.empty((0, 3), dtype=np.int64)  # option, stage of its last measurement

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
            ),
        )

    def learn(self, shape: OptionShape, seen: Seen) -> Speeds:
        """The posterior after this round's measurements. Jobs that are gone are forgotten."""
        self._fit(shape, seen.handle)
        kind = seen.kind if self.settings.share else seen.handle
        stage = stage_of(seen.epochs_done)
        self._observe(shape, seen, kind, stage)
        numbers, row = np.unique(kind, return_inverse=True)
        kinds = [self._kinds.setdefault(number, _Kind()) for number in numbers.tolist()]
        tastes = self._tastes(shape)
        for record in kinds:
            record.condition(shape, self.settings, tastes)
        mean = np.stack([record.mean for record in kinds])[row]  # [job, option, stage]
        unknown = np.stack([record.variance for record in kinds])[row, :, stage]
        if not self.settings.share:
            gone = self._kinds.keys() - set(numbers.tolist())
            for number in gone:
                del self._kinds[number]
        own, certain = self._own(shape, seen, stage, mean)
        mean = mean + own[:, :, None]
        variance = unknown + self.settings.job**2 * (1.0 - certain**2) + self.settings.noise**2
        now = mean[np.arange(len(row)), :, stage]
        return Speeds(now, np.sqrt(variance), np.sqrt(unknown), mean)

    def _tastes(self, shape: OptionShape) -> Floats:
        """[type] how much longer an epoch takes there than on other types, over all models.

        From models that were measured on several types; their differences are averaged, and
        count the more the more models there are.
        """
        types = int(shape.type.max(initial=-1)) + 1
        total, models = np.zeros(types), np.zeros(types)
        for record in self._kinds.values():
            measured = record.count.sum(axis=1) > 0
            numbers = np.unique(shape.type[: len(measured)][measured])
            if record.fitted and len(numbers) > 1:
                own = np.array([record.mean[shape.type == number].mean() for number in numbers])
                total[numbers] += own - own.mean()
                models[numbers] += 1.0
        return np.asarray(total / (models + 0.5))

    def _fit(self, shape: OptionShape, handle: Ints) -> None:
        """Rows for these jobs, columns for these options; options only ever come to the end."""
        if self._shape is None or len(self._shape) != len(shape):
            for record in self._kinds.values():
                record.widen(len(shape))
        self._shape = shape
        difference = np.full((len(handle), len(shape)), np.nan)
        cell = np.full((len(handle), 3), -1, dtype=np.int64)
        known = np.isin(handle, self._handle, assume_unique=True)
        old = np.searchsorted(self._handle, handle[known])
        difference[known, : self._difference.shape[1]] = self._difference[old]
        cell[known] = self._cell[old]
        self._handle, self._difference, self._cell = handle, difference, cell

    def _observe(self, shape: OptionShape, seen: Seen, kind: Ints, stage: Ints) -> None:
        latest = seen.measured[np.arange(len(kind)), np.maximum(seen.held, 0)]
        running = np.flatnonzero((seen.held >= 0) & (latest > 0) & np.isfinite(latest))
        for job in running.tolist():
            option, now, number = int(seen.held[job]), int(stage[job]), int(kind[job])
            record = self._kinds.setdefault(number, _Kind())
            record.widen(len(shape))
            again = tuple(self._cell[job].tolist()) == (option, now, number)
            record.add(option, now, float(np.log(latest[job])), again)
            self._cell[job] = option, now, number

    def _own(
        self, shape: OptionShape, seen: Seen, stage: Ints, mean: Floats
    ) -> tuple[Floats, Floats]:
        """[job, option] how far the job is from its model, and the correlation behind that."""
        jobs = np.arange(len(stage))
        running = np.flatnonzero(seen.held >= 0)
        held = seen.held[running]
        latest = seen.measured[running, held]
        expected = mean[running, held, stage[running]]
        before = self._difference[running, held]
        with np.errstate(divide="ignore", invalid="ignore"):
            now = np.where(latest > 0, np.log(latest) - expected, before)
        # A job that has changed its pace, as with another batch size, did so with every option.
        self._difference[running] += np.nan_to_num(now - before)[:, None]
        self._difference[running, held] = now
        known = ~np.isnan(self._difference)
        claimed = np.isfinite(seen.declared) & (seen.declared > 0) & ~known
        own = self._difference
        if claimed.any():  # what a job says of itself is a measurement until there is one
            at_first = mean[jobs, :, stage]
            with np.errstate(divide="ignore", invalid="ignore"):
                said = np.log(np.where(claimed, seen.declared, 1.0)) - at_first
            own, known = np.where(claimed, said, own), known | claimed
        doublings = np.log2(shape.gpus)
        other_type = (shape.type[:, None] != shape.type).astype(np.float64)
        apart = np.abs(doublings[:, None] - doublings) + 2.0 * other_type  # [option, option]
        somebody = np.asarray(known.any(axis=1))
        nearest = np.zeros(own.shape, dtype=np.int64)
        distance = np.full(own.shape, np.inf)
        nearest[somebody], distance[somebody] = _nearest(apart, known[somebody])
        correlation = np.exp(-distance / self.settings.job_memory)
        value = np.where(somebody[:, None], own[jobs[:, None], nearest], 0.0)
        return correlation * value, correlation


def _nearest(apart: Floats, known: Bools) -> tuple[Ints, Floats]:
    """[job, option] the nearest option that is known, and how far away it is."""
    patterns, row = np.unique(known, axis=0, return_inverse=True)
    distance = np.where(patterns[:, None, :], apart, np.inf)  # [pattern, option, known option]
    nearest = distance.argmin(axis=2)
    return nearest[row.ravel()], distance.min(axis=2)[row.ravel()]


@dataclass
class _Kind:
    """What is known of one model: a mean per cell (option, stage), and how many jobs it is of."""

    total: Floats = field(default_factory=lambda: np.zeros((0, STAGES)))
    count: Floats = field(default_factory=lambda: np.zeros((0, STAGES)))
    mean: Floats = field(default_factory=lambda: np.zeros((0, STAGES)))
    variance: Floats = field(default_factory=lambda: np.zeros((0, STAGES)))
    _used: tuple[Floats, Floats] | None = None  # of the last conditioning: averages, counts

    @property
    def fitted(self) -> bool:
        return self._used is not None

    def widen(self, options: int) -> None:
        if options > len(self.total):
            more = np.zeros((options - len(self.total), STAGES))
            self.total, self.count = np.vstack([self.total, more]), np.vstack([self.count, more])
            self._used = None

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
        if (np.isnan(before) != np.isnan(average)).any():
            return True
        moved = np.nanmax(np.abs(average - before), initial=0.0) > 0.5 * noise
        return bool(moved or (self.count > 1.5 * count + 0.5).any())

    def condition(self, shape: OptionShape, s: SpeedSettings, tastes: Floats) -> None:
        """The posterior of ``f`` at every cell, unless little has changed since the last one."""
        self.widen(len(shape))
        average = np.divide(
            self.total, self.count, out=np.full_like(self.total, np.nan), where=self.count > 0
        )
        if self._used is not None and not self._changed(average, *self._used, s.noise):
            return
        self._used = average, self.count.copy()
        option, stage = np.nonzero(self.count > 0)
        law = _law(shape, s) + tastes[shape.type][:, None]
        grid = np.repeat(np.arange(len(shape)), STAGES), np.tile(np.arange(STAGES), len(shape))
        prior = _covariance(shape, s, grid, grid, diagonal=True)
        if not len(option):
            self.mean = law
            self.variance = prior.reshape(len(shape), STAGES)
            return
        seen = (option, stage)
        inner = _covariance(shape, s, seen, seen)
        inner[np.diag_indices(len(option))] += s.noise**2 + s.job**2 / self.count[option, stage]
        cross = _covariance(shape, s, grid, seen)
        weights = np.linalg.solve(inner, cross.T)  # [seen, cell]
        shift = weights.T @ (average[option, stage] - law[option, stage])
        self.mean = law + shift.reshape(len(shape), STAGES)
        variance = prior - (cross.T * weights).sum(axis=0)
        self.variance = np.maximum(variance, 0.0).reshape(len(shape), STAGES)


def _law(shape: OptionShape, s: SpeedSettings) -> Floats:
    """[option, stage] log seconds by the scaling law alone, for one GPU taking a minute."""
    doublings = np.log2(shape.gpus)[:, None]
    first = s.first_loss * 0.5 ** (np.arange(STAGES) / s.first_loss_stages)
    lost = (s.loss_per_doubling + first) * doublings + s.loss_across_nodes * shape.spans[:, None]
    return np.asarray(np.log(60.0) - np.log(2.0) * doublings + lost)


def _covariance(
    shape: OptionShape,
    s: SpeedSettings,
    left: tuple[Ints, Ints],
    right: tuple[Ints, Ints],
    diagonal: bool = False,
) -> Floats:
    """Between cells (option, stage): [left, right], or [cell] of each with itself."""
    (option, stage), (other, later) = left, right
    if not diagonal:
        option, stage = option[:, None], stage[:, None]
    doublings = np.log2(shape.gpus)
    same_type = shape.type[option] == shape.type[other]
    fewer = np.minimum(doublings[option], doublings[other])
    both_span = shape.spans[option] & shape.spans[other]
    drift = np.exp(-np.abs(stage - later) / s.stage_memory)
    first = 0.5 ** ((stage + later) / s.first_loss_stages) * doublings[option] * doublings[other]
    alike = 0.5 + 0.5 * same_type  # half of what synchronisation costs is the model's, on any type
    return np.asarray(
        s.level**2
        + s.type**2 * same_type
        + s.doubling**2 * fewer * alike
        + s.across_nodes**2 * both_span * alike
        + s.stage**2 * drift * (0.1 + fewer)
        + s.first_spread**2 * first
    )
