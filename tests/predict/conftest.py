"""Jobs and views for the tests of predictors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob
from shockwave.model.view import View
from shockwave.predict.snapshots import Snapshot, number_kinds, view_of

MakeJob = Callable[..., TraceJob]
MakeView = Callable[..., View]


def make_job(
    schedule: Sequence[tuple[int, int]],
    seconds: Sequence[float] = (10.0, 4.0),
    adaptation: Adaptation = Adaptation.GNS,
    model: str = "model",
    arrival: float = 0.0,
    gpus: int = 1,
    truth: Sequence[float] | None = None,
) -> TraceJob:
    """A job from (index of the configuration, epochs); ``truth`` are other true epoch times."""
    real = truth or seconds
    return TraceJob(
        JobSpec(
            id=f"{model}-{arrival}",
            arrival_seconds=arrival,
            gpus=gpus,
            epochs=sum(epochs for _, epochs in schedule),
            configurations=tuple(16 * 2**index for index in range(len(seconds))),
            epoch_seconds=tuple(seconds),
            adaptation=adaptation,
            model=model,
        ),
        tuple(Regime(16 * 2**index, epochs, real[index]) for index, epochs in schedule),
    )


def make_view(*states: tuple[TraceJob, float]) -> View:
    """The view of jobs after so many epochs each."""
    jobs = [job for job, _ in states]
    return view_of([Snapshot(job, done) for job, done in states], number_kinds(jobs))


@pytest.fixture
def job() -> MakeJob:
    return make_job


@pytest.fixture
def view() -> MakeView:
    return make_view
