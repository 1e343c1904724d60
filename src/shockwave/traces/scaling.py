"""How generated jobs scale over types and numbers of GPUs: compute, and two kinds of exchange.

A job keeps its global batch ``B`` whatever it runs on. On ``g`` GPUs of a type that computes ``v``
times as fast, a step takes ::

    parts * overhead / v  +  B / g * sample_seconds * s / v  +  allreduce(g)
    allreduce(g) = 2 * (g - 1) / g * parameter_bytes * s / bandwidth(g)  +  2 * (g - 1) * latency

``parts`` is into how many pieces a GPU's share of the batch has to be cut to fit its memory, ``s``
the fraction of the model that is left after pruning. Within a node the bandwidth is that of
:mod:`shockwave.traces.profiles`; a gang on several nodes exchanges over the network, which is
slower. So speed grows with the GPUs, ever less, and drops where a gang first leaves its node. On
the request, on a type with ``v = 1`` and on one node, all is as for jobs without a choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from shockwave.model.job import Adaptation, TraceJob, timeline
from shockwave.model.options import counts_between
from shockwave.model.speeds import Speeds
from shockwave.traces.mix import Mix
from shockwave.traces.profiles import (
    HOP_LATENCY_SECONDS,
    LINK_BYTES_PER_SECOND,
    PROFILES,
    ModelProfile,
)

NETWORK_BYTES_PER_SECOND = 3e9
_ONE_TYPE = "gpu"

Suits = Mapping[tuple[str, str], float]  # (model, type) to how fast it computes there


def with_options(jobs: list[TraceJob], mix: Mix) -> list[TraceJob]:
    """The jobs of a mix with what they can run on: some elastic, on one or several types.

    Which jobs are elastic, and how well each model suits each type, is drawn apart from
    everything else, so that the jobs are otherwise those of the same mix without options.
    """
    if mix.elastic == 0 and not mix.types:
        return jobs
    rng = np.random.Generator(np.random.PCG64([mix.seed, 1]))
    suits = suited(mix, rng)
    made = []
    for job in jobs:
        profile = PROFILES[job.spec.model]
        counts = _counts(job, mix, elastic=float(rng.random()) < mix.elastic)
        if not counts and not mix.types:
            made.append(job)
            continue
        by_type = {
            gpu_type: {
                gpus: _epoch_seconds(job, profile, gpus, speed, mix.node_gpus)
                for gpus in sorted({job.spec.gpus, *counts})
            }
            for gpu_type, speed in _types_for(profile, suits).items()
        }
        made.append(_resizable(job, Speeds(by_type), counts, mix))
    return made


def as_recorded(
    job: TraceJob, profile: ModelProfile, mix: Mix, suits: Suits, *, elastic: bool
) -> TraceJob:
    """The job with what it can run on; its request takes on the first type as long as recorded.

    With other options it scales as the model of ``profile`` does.
    """
    counts = _counts(job, mix, elastic=elastic)
    if not counts and not mix.types:
        return job
    types = _types_for(profile, suits)
    recorded = [regime.epoch_seconds for regime in job.regimes for _ in range(regime.epochs)]
    first = next(iter(types.values()))
    request = _epoch_seconds(job, profile, job.spec.gpus, first, mix.node_gpus)
    by_type = {}
    for gpu_type, speed in types.items():
        by_type[gpu_type] = {
            gpus: tuple(
                seconds * (own / base)
                for seconds, own, base in zip(
                    recorded,
                    _epoch_seconds(job, profile, gpus, speed, mix.node_gpus),
                    request,
                    strict=True,
                )
            )
            for gpus in sorted({job.spec.gpus, *counts})
        }
    return _resizable(job, Speeds(by_type), counts, mix)


def suited(mix: Mix, rng: np.random.Generator) -> Suits:
    """How fast every model computes on every type: the type's speed, and a taste of the model."""
    types = mix.types or {_ONE_TYPE: 1.0}
    return {
        (model, gpu_type): speed * (0.75 + 0.5 * float(rng.random())) if mix.types else speed
        for model in PROFILES
        for gpu_type, speed in types.items()
    }


def _types_for(profile: ModelProfile, suits: Suits) -> dict[str, float]:
    return {kind: speed for (model, kind), speed in suits.items() if model == profile.name}


def _counts(job: TraceJob, mix: Mix, *, elastic: bool) -> tuple[int, ...]:
    return counts_between(1, max(mix.elastic_gpus, job.spec.gpus)) if elastic else ()


def _resizable(job: TraceJob, speeds: Speeds, counts: tuple[int, ...], mix: Mix) -> TraceJob:
    spec = replace(
        job.spec,
        gpu_counts=counts,
        gpu_types=tuple(mix.types),
        epoch_seconds=(math.nan,) * len(job.spec.configurations),
    )
    times = speeds.epoch_seconds(speeds.types[0], spec.gpus)
    return replace(job, spec=spec, regimes=timeline(job.regimes, times), speeds=speeds)


def _epoch_seconds(
    job: TraceJob, profile: ModelProfile, gpus: int, speed: float, node_gpus: int
) -> tuple[float, ...]:
    """[epoch] seconds of the whole job with one option."""
    found: list[float] = []
    for regime in job.regimes:
        pruned = job.spec.adaptation is Adaptation.PRUNING
        size = regime.configuration / 100 if pruned else 1.0
        batch = _batch_of(job, profile, size) if pruned else regime.configuration
        seconds = _seconds(profile, batch * job.spec.gpus, gpus, speed, node_gpus, size)
        found += [seconds] * regime.epochs
    return tuple(found)


def _batch_of(job: TraceJob, profile: ModelProfile, size: float) -> int:
    """The batch size of a pruned job, which names its sizes of the model instead."""
    seconds = dict(zip(job.spec.configurations, job.spec.epoch_seconds, strict=True))
    truth = seconds[round(size * 100)]
    return min(
        profile.batch_sizes,
        key=lambda batch: abs(profile.epoch_seconds(batch, job.spec.gpus, size) - truth),
    )


def _seconds(
    profile: ModelProfile, batch: int, gpus: int, speed: float, node_gpus: int, size: float
) -> float:
    steps = math.ceil(profile.samples / batch)
    parts = max(math.ceil(batch / gpus / profile.batch_sizes[-1]), 1)
    compute = (
        parts * profile.step_overhead_seconds + batch / gpus * profile.sample_seconds * size
    ) / speed
    bandwidth = LINK_BYTES_PER_SECOND if gpus <= node_gpus else NETWORK_BYTES_PER_SECOND
    exchange = (
        2 * (gpus - 1) / gpus * 4 * profile.parameters * size / bandwidth
        + 2 * (gpus - 1) * HOP_LATENCY_SECONDS
    )
    return round(steps * (compute + exchange), 4)
