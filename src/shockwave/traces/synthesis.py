"""Regimes for jobs of which only a runtime is known, drawn as the generator draws its own.

A job keeps its arrival, its gang and its exclusive runtime. It is given a model, a technique
of adaptation and regimes by the shares of a :class:`Mix`; the epoch times of the model are
scaled so that all epochs together take as long as the source recorded. A job that declares
how it adapts, but not when, keeps its declaration and its number of epochs, and is given
regimes only. With a share of ``elastic`` jobs, or ``types``, jobs are also given what they can run
on: on the recorded number of GPUs of the first type they take as long as recorded, and with other
options they scale as their model does. Every job has a random generator of its own, seeded with
the seed and the job's id: it does not matter which other jobs are there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from shockwave.model.job import Adaptation, Regime, TraceJob
from shockwave.traces.generator import (
    Draw,
    draw_configurations,
    draw_shape,
    epochs_of_regimes,
    models_that_scale,
)
from shockwave.traces.mix import Mix
from shockwave.traces.profiles import PROFILES, ModelProfile
from shockwave.traces.scaling import Suits, as_recorded, suited

_MOST_EPOCHS = 3000.0


@dataclass(frozen=True)
class Synthesiser:
    """Gives jobs regimes and options.

    Of ``mix`` only the models, the shares of adaptations and what is said of options count.
    """

    seed: int = 0
    mix: Mix = field(default_factory=Mix)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What it makes up, in words, to be written down with the result."""
        shares = ", ".join(
            f"{adaptation} {share:g}" for adaptation, share in self.mix.adaptations.items() if share
        )
        elasticity = (
            f"{self.mix.elastic:g} of the jobs can use 1 to {self.mix.elastic_gpus} GPUs; jobs run "
            f"on {_types(self.mix)} with {self.mix.node_gpus} GPUs a node; a job takes as long as "
            "recorded on the recorded number of the first type, and scales as its model does",
        )
        return (
            f"regimes are drawn with seed {self.seed} for jobs that had none: shares {shares}; "
            f"{self.mix.never_adapt:g} of those that may adapt never do",
            f"jobs without a known model are given one of {', '.join(self.mix.models)}; epoch "
            "times are scaled so that runtimes are as recorded",
            *(elasticity if self._gives_options else ()),
        )

    @property
    def _gives_options(self) -> bool:
        return self.mix.elastic > 0 or bool(self.mix.types)

    @cached_property
    def _suits(self) -> Suits:
        return suited(self.mix, np.random.Generator(np.random.PCG64([self.seed, 1])))

    def apply(self, jobs: Iterable[TraceJob]) -> Iterator[TraceJob]:
        """The jobs with regimes, in the same order; those that have some are left as they are."""
        for job in jobs:
            if len(job.regimes) > 1:
                yield job
            elif len(job.spec.configurations) > 1:
                yield self._divided(job)
            elif job.spec.adaptation is Adaptation.STATIC:
                yield self._invented(job)
            else:
                yield job

    def _draw(self, job: TraceJob) -> Draw:
        return Draw(np.random.Generator(np.random.PCG64(stable_number(self.seed, job.spec.id))))

    def _resizable(self, job: TraceJob, profile: ModelProfile | None) -> TraceJob:
        """The job with options, drawn apart from its regimes; as it is if its model is unknown."""
        if not self._gives_options or profile is None:
            return job
        own = [stable_number(self.seed, job.spec.id), 1]
        drawn = Draw(np.random.Generator(np.random.PCG64(own))).uniform()
        return as_recorded(job, profile, self.mix, self._suits, elastic=drawn < self.mix.elastic)

    def _divided(self, job: TraceJob) -> TraceJob:
        """Regimes within what the job declares."""
        spec, draw = job.spec, self._draw(job)
        profile = PROFILES.get(spec.model)
        if draw.uniform() < self.mix.never_adapt or spec.adaptation is Adaptation.STATIC:
            return self._resizable(job, profile)
        shape = draw_shape(spec.adaptation, len(spec.configurations), draw)
        lengths = epochs_of_regimes(shape, [1.0] * len(spec.configurations), spec.epochs)
        regimes = tuple(
            Regime(spec.configurations[index], epochs, spec.epoch_seconds[index])
            for index, epochs in lengths
        )
        made = replace(job, regimes=regimes, extra={**job.extra, "synthesised": "regimes"})
        return self._resizable(made, profile)

    def _invented(self, job: TraceJob) -> TraceJob:
        """A model, a technique and regimes that take as long as the job took."""
        spec, draw = job.spec, self._draw(job)
        widest = max(PROFILES[model].max_gpus for model in self.mix.models)
        models = models_that_scale(self.mix.models, min(spec.gpus, widest))
        profile = PROFILES[draw.choice(models)]
        adaptation = draw.choice(self.mix.adaptations)
        adapts = draw.uniform() >= self.mix.never_adapt
        configurations, profiled = draw_configurations(adaptation, profile, spec.gpus, draw)
        shape = draw_shape(adaptation, len(configurations), draw) if adapts else [(0, 1.0)]
        recorded_seconds = job.exclusive_seconds
        # Weeks of epochs of a second would be epochs by the million.
        slowest = max(1.0, recorded_seconds / (_MOST_EPOCHS * min(profiled)))
        epoch_seconds = [seconds * slowest for seconds in profiled]
        lengths = epochs_of_regimes(shape, epoch_seconds, recorded_seconds)
        total = sum(epochs * epoch_seconds[index] for index, epochs in lengths)
        scaled = tuple(seconds * (recorded_seconds / total) for seconds in epoch_seconds)
        made = replace(
            job,
            spec=replace(
                spec,
                epochs=sum(epochs for _, epochs in lengths),
                configurations=configurations,
                epoch_seconds=scaled,
                adaptation=adaptation,
                model=profile.name if spec.model in ("", "unknown") else spec.model,
            ),
            regimes=tuple(
                Regime(configurations[index], epochs, scaled[index]) for index, epochs in lengths
            ),
            extra={**job.extra, "synthesised": "model and regimes"},
        )
        return self._resizable(made, profile)


def _types(mix: Mix) -> str:
    return ", ".join(mix.types) or "GPUs of one type"


def stable_number(seed: int, text: str) -> int:
    """64 bits that depend on both and on nothing else."""
    digest = hashlib.blake2b(f"{seed}:{text}".encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")
