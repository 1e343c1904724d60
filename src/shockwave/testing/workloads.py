"""Small random workloads, and futures that part from one another after some point."""

from __future__ import annotations

import numpy as np

from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob


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
