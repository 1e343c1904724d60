"""Small random workloads, and futures that part from one another after some point."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob, timeline
from shockwave.model.speeds import Speeds


def random_jobs(seed: int, count: int = 12, largest_gang: int = 4) -> list[TraceJob]:
    """Jobs that arrive within an hour, run for minutes to hours, and change regimes often."""
    rng = np.random.default_rng(seed)
    return [_random_job(f"job-{index}", rng, largest_gang) for index in range(count)]


def alter_future(job: TraceJob, keep: int, rng: np.random.Generator) -> TraceJob:
    """The same job for its first ``keep`` epochs, with other regimes after them."""
    kept: list[Regime] = []
    for regime in job.regimes:
        epochs = min(regime.epochs, keep - sum(r.epochs for r in kept))
        if epochs > 0:
            kept.append(Regime(regime.configuration, epochs, regime.epoch_seconds))
    left = job.spec.epochs - sum(r.epochs for r in kept)
    return TraceJob(job.spec, _merge(kept + _random_regimes(job.spec, left, rng)))


def _random_job(name: str, rng: np.random.Generator, largest_gang: int) -> TraceJob:
    adaptation = list(Adaptation)[int(rng.integers(len(Adaptation)))]
    count = 1 if adaptation is Adaptation.STATIC else int(rng.integers(1, 5))
    if adaptation is Adaptation.ACCORDION:
        count = min(count, 2)
    sizes = tuple(32 * 2**power for power in range(count))
    if adaptation is Adaptation.PRUNING:
        sizes = sizes[::-1]
    seconds = tuple(np.round(rng.uniform(5, 90, count), 3).tolist())
    spec = JobSpec(
        id=name,
        arrival_seconds=float(rng.integers(0, 3600)),
        gpus=int(rng.integers(1, largest_gang + 1)),
        epochs=int(rng.integers(1, 60)),
        configurations=sizes,
        epoch_seconds=seconds,
        adaptation=adaptation,
        model=("ResNet-18", "LM")[int(rng.integers(2))],
        tenant=("red", "blue")[int(rng.integers(2))],
        weight=float(rng.choice([0.5, 1.0, 2.0])),
    )
    return TraceJob(spec, _merge(_random_regimes(spec, spec.epochs, rng)))


def _random_regimes(spec: JobSpec, epochs: int, rng: np.random.Generator) -> list[Regime]:
    """Any order of the declared configurations: jobs do not always do what they declare."""
    regimes: list[Regime] = []
    while epochs > 0:
        index = int(rng.integers(len(spec.configurations)))
        length = int(rng.integers(1, epochs + 1))
        regimes.append(Regime(spec.configurations[index], length, spec.epoch_seconds[index]))
        epochs -= length
    return regimes


def _merge(regimes: list[Regime]) -> tuple[Regime, ...]:
    merged: list[Regime] = []
    for regime in regimes:
        if merged and merged[-1].configuration == regime.configuration:
            together = merged[-1].epochs + regime.epochs
            merged[-1] = Regime(regime.configuration, together, regime.epoch_seconds)
        else:
            merged.append(regime)
    return tuple(merged)


def elastic_jobs(
    seed: int, count: int = 12, types: tuple[str, ...] = ("T4", "A100")
) -> list[TraceJob]:
    """Jobs as those of :func:`random_jobs` that can use several types and numbers of GPUs.

    A third of them keep to their request; some cannot use all types; starts cost some of them
    more than others. The second type is twice as fast as the first, and so on, more or less.
    """
    rng = np.random.default_rng([seed, 1])
    return [_elastic(job, rng, types) for job in random_jobs(seed, count)]


def _elastic(job: TraceJob, rng: np.random.Generator, types: tuple[str, ...]) -> TraceJob:
    counts = () if rng.random() < 1 / 3 else (1, 2, 4, 8)[: int(rng.integers(2, 5))]
    usable = types if rng.random() < 2 / 3 else (types[int(rng.integers(len(types)))],)
    epochs = [r.epoch_seconds for r in job.regimes for _ in range(r.epochs)]
    scaling = rng.uniform(0.5, 1.0)
    by_type = {}
    for number, name in enumerate(types):
        factor = float(rng.uniform(0.7, 1.4)) / 2**number
        by_type[name] = {
            gpus: tuple(
                round(
                    float(s * factor * rng.uniform(0.9, 1.1) * (job.spec.gpus / gpus) ** scaling), 3
                )
                for s in epochs
            )
            for gpus in sorted({job.spec.gpus, *counts})
            for speedup in ((job.spec.gpus / gpus) ** scaling,)
        }
    speeds = Speeds(by_type)
    spec = replace(
        job.spec,
        epoch_seconds=(math.nan,) * len(job.spec.configurations),
        gpu_counts=counts,
        gpu_types=usable,
        preferred_type=usable[-1] if rng.random() < 0.3 else "",
    )
    own_cost = float(rng.integers(5, 60)) if rng.random() < 0.5 else None
    reference = spec.preferred_type or usable[0]
    regimes = timeline(job.regimes, speeds.epoch_seconds(reference, spec.gpus))
    return TraceJob(spec, regimes, speeds=speeds, restart_seconds=own_cost)
