"""Views of a trace's jobs part-way through, without a cluster: to score predictors on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shockwave.model.job import TraceJob
from shockwave.model.view import View
from shockwave.predict.base import FinishedJob

Kind = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A job of a trace after ``epochs_done`` epochs, and when that is if it runs alone."""

    job: TraceJob
    epochs_done: float

    @property
    def seconds_done(self) -> float:
        """Productive seconds up to this point."""
        seconds, left = 0.0, self.epochs_done
        for regime in self.job.regimes:
            inside = min(left, regime.epochs)
            seconds += inside * regime.epoch_seconds
            left -= inside
        return seconds

    @property
    def time(self) -> float:
        return self.job.spec.arrival_seconds + self.seconds_done

    @property
    def remaining_seconds(self) -> float:
        """The truth: seconds of exclusive running that are left."""
        return self.job.exclusive_seconds - self.seconds_done


def number_kinds(jobs: Sequence[TraceJob]) -> dict[Kind, int]:
    """A number for every (model, adaptation) of the trace, in order of appearance."""
    kinds: dict[Kind, int] = {}
    for job in jobs:
        kinds.setdefault(_kind(job), len(kinds))
    return kinds


def finished(job: TraceJob, kinds: Mapping[Kind, int]) -> FinishedJob:
    """What a predictor learns of the job when it is done."""
    index = job.spec.configurations.index
    regimes = tuple((index(regime.configuration), float(regime.epochs)) for regime in job.regimes)
    return FinishedJob(job.spec, kinds[_kind(job)], regimes)


def view_of(snapshots: Sequence[Snapshot], kinds: Mapping[Kind, int]) -> View:
    """The view that shows these jobs as they are, each as if it had run alone."""
    count = len(snapshots)
    specs = [snapshot.job.spec for snapshot in snapshots]
    width = max((len(spec.configurations) for spec in specs), default=1)
    profile = np.full((count, width), np.nan)
    measured = np.full((count, width), np.nan)
    configuration_epochs = np.zeros((count, width))
    configuration = np.zeros(count, dtype=np.int64)
    regime_epochs = np.zeros(count)
    for row, snapshot in enumerate(snapshots):
        spec = snapshot.job.spec
        profile[row, : len(spec.epoch_seconds)] = spec.epoch_seconds
        start = 0.0
        for regime in snapshot.job.regimes:
            if start > snapshot.epochs_done:
                break
            column = spec.configurations.index(regime.configuration)
            inside = min(snapshot.epochs_done - start, float(regime.epochs))
            configuration[row], regime_epochs[row] = column, inside
            if inside > 0:
                configuration_epochs[row, column] += inside
                measured[row, column] = regime.epoch_seconds
            start += regime.epochs
    seconds = np.array([snapshot.seconds_done for snapshot in snapshots], dtype=np.float64)
    return View(
        now=max((snapshot.time for snapshot in snapshots), default=0.0),
        round=0,
        gpus_total=max((spec.gpus for spec in specs), default=1),
        round_seconds=120.0,
        restart_seconds=0.0,
        jobs_seen=count,
        changed=True,
        between_rounds=False,
        handle=np.arange(count),
        arrival=np.array([spec.arrival_seconds for spec in specs], dtype=np.float64),
        gpus=np.array([spec.gpus for spec in specs], dtype=np.int64),
        epochs=np.array([spec.epochs for spec in specs], dtype=np.float64),
        weight=np.array([spec.weight for spec in specs], dtype=np.float64),
        tenant=np.zeros(count, dtype=np.int64),
        kind=np.array([kinds[_kind(snapshot.job)] for snapshot in snapshots], dtype=np.int64),
        adaptation=np.array([spec.adaptation.code for spec in specs], dtype=np.int64),
        configurations=np.array([len(spec.configurations) for spec in specs], dtype=np.int64),
        profile=profile,
        running=np.ones(count, dtype=np.bool_),
        must_stay=np.zeros(count, dtype=np.bool_),
        epochs_done=np.array([snapshot.epochs_done for snapshot in snapshots], dtype=np.float64),
        configuration=configuration,
        regime_epochs=regime_epochs,
        configuration_epochs=configuration_epochs,
        measured_seconds=measured,
        productive_seconds=seconds,
        received_seconds=seconds.copy(),
        fair_seconds=seconds.copy(),
        active_integral=np.zeros(count),
        rounds_active=np.zeros(count, dtype=np.int64),
        restarts=np.zeros(count, dtype=np.int64),
        measured_restart_seconds=np.full(count, np.nan),
        unsaved_seconds=np.full(count, np.nan),
    )


def _kind(job: TraceJob) -> Kind:
    return job.spec.model, job.spec.adaptation.value
