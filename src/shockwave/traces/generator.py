"""A seeded generator of workloads: gangs, models, runtimes, arrivals and true regimes.

Every job draws its gang, model, adaptation and exclusive runtime ``X`` first. Its regimes
are drawn as fractions of its life, the way its technique would behave:

* accordion alternates between two batch sizes. It begins in a critical regime (small
  batch), goes large, and returns to small for a while after each drop of the learning rate,
  of which there are none to three at random points.
* gns doubles its batch at random points up to its maximum; not every job gets there.
* pruning shrinks the model to four fifths at random points.

The number of epochs is the one whose total comes closest to ``X``. What a job declares is
all that it may use, not what it happens to use: some never adapt, and short jobs may end
before their later regimes.

Only uniform doubles are taken from the random generator and everything is rounded, so that
one seed gives the same trace on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob
from shockwave.traces.disturb import wrong_epochs
from shockwave.traces.mix import Mix
from shockwave.traces.profiles import PROFILES, ModelProfile
from shockwave.traces.scaling import with_options

# Percent of the model that is left after each pruning step of a fifth.
PRUNED_PERCENTS = (100, 80, 64, 51, 41)

_SECONDS_PER_HOUR = 3600.0
_ARRIVAL_DECIMALS = 1

Choice = TypeVar("Choice")

# Fractions of a job's life in order: (index of the configuration, fraction).
Shape = list[tuple[int, float]]


def generate(mix: Mix, rng: np.random.Generator | None = None) -> list[TraceJob]:
    """The jobs of ``mix`` by arrival, with ids "0", "1", ... in that order.

    ``rng`` defaults to PCG64 seeded with ``mix.seed``.
    """
    draw = Draw(rng or np.random.Generator(np.random.PCG64(mix.seed)))
    arrivals = _arrivals(mix, draw)
    scalable = {gpus: models_that_scale(mix.models, gpus) for gpus in mix.gpus}
    jobs = [
        _job(str(number), arrival, mix, scalable, draw) for number, arrival in enumerate(arrivals)
    ]
    jobs = with_options(jobs, mix)
    if mix.wrong_epochs > 0:
        jobs = wrong_epochs(
            jobs, mix.wrong_epochs, np.random.Generator(np.random.PCG64([mix.seed, 2]))
        )
    return jobs


class Draw:
    """Choices from uniform doubles, the one thing whose stream is the same everywhere."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def uniform(self) -> float:
        return float(self._rng.random())

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.uniform()

    def log_between(self, low: float, high: float) -> float:
        return low * math.exp(self.uniform() * math.log(high / low))

    def index(self, count: int) -> int:
        return min(int(self.uniform() * count), count - 1)

    def choice(self, probabilities: Mapping[Choice, float]) -> Choice:
        point = self.uniform() * sum(probabilities.values())
        possible = [choice for choice, share in probabilities.items() if share > 0]
        for choice in possible:
            point -= probabilities[choice]
            if point < 0:
                return choice
        return possible[-1]

    def points(self, count: int, low: float, high: float) -> list[float]:
        return sorted(self.between(low, high) for _ in range(count))


def _arrivals(mix: Mix, draw: Draw) -> list[float]:
    """Seconds, ascending from 0. Given their number, Poisson arrivals in a span are uniform."""
    others = mix.jobs - 1
    if mix.span_hours is not None:
        later = draw.points(others, 0.0, mix.span_hours * _SECONDS_PER_HOUR)
        return [0.0, *(round(seconds, _ARRIVAL_DECIMALS) for seconds in later)]
    arrivals = [0.0]
    now = 0.0
    for _ in range(others):
        now -= mix.interarrival_seconds * math.log1p(-draw.uniform())
        arrivals.append(round(now, _ARRIVAL_DECIMALS))
    return arrivals


def models_that_scale(models: Mapping[str, float], gpus: int) -> dict[str, float]:
    return {model: share for model, share in models.items() if PROFILES[model].max_gpus >= gpus}


def _job(
    identifier: str,
    arrival_seconds: float,
    mix: Mix,
    scalable: Mapping[int, Mapping[str, float]],
    draw: Draw,
) -> TraceJob:
    gpus = draw.choice(mix.gpus)
    profile = PROFILES[draw.choice(scalable[gpus])]
    adaptation = draw.choice(mix.adaptations)
    runtime_seconds = draw.log_between(mix.min_hours, mix.max_hours) * _SECONDS_PER_HOUR
    adapts = draw.uniform() >= mix.never_adapt
    configurations, epoch_seconds = draw_configurations(adaptation, profile, gpus, draw)
    shape = draw_shape(adaptation, len(configurations), draw) if adapts else [(0, 1.0)]
    lengths = epochs_of_regimes(shape, epoch_seconds, runtime_seconds)
    tenant = draw.index(mix.tenants)
    return TraceJob(
        spec=JobSpec(
            id=identifier,
            arrival_seconds=arrival_seconds,
            gpus=gpus,
            epochs=sum(epochs for _, epochs in lengths),
            configurations=configurations,
            epoch_seconds=epoch_seconds,
            adaptation=adaptation,
            model=profile.name,
            tenant="default" if mix.tenants == 1 else f"tenant-{tenant + 1}",
            weight=mix.tenant_weights[tenant] if mix.tenant_weights else 1.0,
        ),
        regimes=tuple(
            Regime(configurations[index], epochs, epoch_seconds[index]) for index, epochs in lengths
        ),
    )


def draw_configurations(
    adaptation: Adaptation, profile: ModelProfile, gpus: int, draw: Draw
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """All that the job may use, first one first, and the seconds per epoch of each."""
    sizes = profile.batch_sizes
    if adaptation is Adaptation.PRUNING:
        batch_size = sizes[draw.index(len(sizes))]
        percents = PRUNED_PERCENTS[: 2 + draw.index(len(PRUNED_PERCENTS) - 1)]
        return percents, tuple(
            profile.epoch_seconds(batch_size, gpus, percent / 100) for percent in percents
        )
    if adaptation is Adaptation.STATIC:
        chosen: tuple[int, ...] = (sizes[draw.index(len(sizes))],)
    else:
        first = draw.index(len(sizes) - 1)  # room to grow
        chosen = (sizes[first], sizes[-1]) if adaptation is Adaptation.ACCORDION else sizes[first:]
    return chosen, tuple(profile.epoch_seconds(size, gpus) for size in chosen)


def draw_shape(adaptation: Adaptation, configurations: int, draw: Draw) -> Shape:
    """Which fraction of its life the job spends in which configuration, in order."""
    if adaptation is Adaptation.STATIC:
        return [(0, 1.0)]
    if adaptation is Adaptation.ACCORDION:
        return _alternating(draw)
    steps = 1 + draw.index(configurations - 1)
    bounds = [0.0, *draw.points(steps, 0.02, 0.9), 1.0]
    return [(index, bounds[index + 1] - bounds[index]) for index in range(steps + 1)]


def _alternating(draw: Draw) -> Shape:
    """Small at the start and for a while after each drop of the learning rate, else large."""
    first_end = draw.between(0.05, 0.35)
    drops = draw.points(draw.index(4), first_end, 0.95)
    shape = [(0, first_end)]
    now = first_end
    for drop in drops:
        if drop <= now:  # it falls into a regime that is critical already
            continue
        end = min(drop + draw.between(0.02, 0.1), 1.0)
        shape += [(1, drop - now), (0, end - drop)]
        now = end
    return [*shape, (1, 1.0 - now)]


def epochs_of_regimes(
    shape: Shape, epoch_seconds: Sequence[float], runtime_seconds: float
) -> list[tuple[int, int]]:
    """(index of the configuration, epochs) whose total time is as close as epochs allow."""
    mean_seconds = sum(fraction * epoch_seconds[index] for index, fraction in shape)
    epochs = max(1, round(runtime_seconds / mean_seconds))
    lengths: list[tuple[int, int]] = []
    begun, reached = 0, 0.0
    for position, (index, fraction) in enumerate(shape):
        if begun == epochs:
            break
        reached += fraction
        last = position == len(shape) - 1
        # No regime is jumped over: a short job ends before its later ones instead.
        end = epochs if last else min(max(round(reached * epochs), begun + 1), epochs)
        lengths.append((index, end - begun))
        begun = end
    return lengths
