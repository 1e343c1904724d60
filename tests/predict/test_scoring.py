"""Scores must reward what they claim to reward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shockwave.measure.calibration import calibration_svg
from shockwave.model.job import Adaptation, TraceJob
from shockwave.model.view import View
from shockwave.predict.base import Forecast, Predictor, Trajectories
from shockwave.predict.bayesian import Bayesian
from shockwave.predict.forecasts import ViewForecast
from shockwave.predict.reactive import Reactive
from shockwave.predict.restatement import Restatement
from shockwave.predict.scoring import crps, score
from shockwave.predict.shares import EqualShares
from shockwave.traces import native
from shockwave.traces.generator import generate
from shockwave.traces.mix import Mix


class _UniformForecast(ViewForecast):
    """The whole rest in either of two configurations or a uniform mixture of them."""

    @property
    def dimensions(self) -> int:
        return 1

    @property
    def remaining_seconds(self) -> Any:
        return self._view.epochs_left * self._view.epoch_seconds.mean(axis=1)

    def trajectories(self, uniforms: Any) -> Trajectories:
        share = np.broadcast_to(uniforms[:, :, 0], (len(uniforms), self.jobs))
        shares = np.stack([share, 1.0 - share], axis=2)
        return Trajectories(
            epochs=shares * self._view.epochs_left[:, None],
            seconds=np.broadcast_to(self._view.epoch_seconds, shares.shape),
        )


class _Uniform(Predictor):
    name = "uniform"

    def forecast(self, view: View) -> Forecast:
        return _UniformForecast(view)


def test_mean_absolute_error_by_hand(job: Any) -> None:
    # Reactive expects 10 s an epoch to the end. The truth: 40 epochs, 10 at 10 s, 30 at 4 s.
    early, middle, late, overall = score([job([(0, 10), (1, 30)])], [Reactive])
    assert (early.progress, middle.progress, late.progress) == (0.25, 0.5, 0.75)
    assert [case.mae_seconds for case in (early, middle, late)] == [0.0, 0.0, 0.0]
    early, *_ = score([job([(0, 20), (1, 20)])], [Reactive])
    assert early.mae_seconds == pytest.approx(300.0 - (100.0 + 80.0))
    assert early.mae_relative == pytest.approx(120.0 / 280.0)
    assert early.crps_seconds == early.mae_seconds  # a point forecast
    assert overall.cases == 3


def test_a_calibrated_forecast_covers_what_it_says(job: Any) -> None:
    """The point of change is spread evenly over the rest, and so is the forecast."""
    firsts = (251 + 3 * number for number in range(250))
    jobs = [job([(0, first), (1, 1001 - first)], arrival=float(first)) for first in firsts]
    early = score(jobs, [_Uniform])[0]
    assert early.coverage_80 == pytest.approx(0.8, abs=0.06)
    for nominal, empirical in early.calibration:
        assert empirical == pytest.approx(nominal, abs=0.06)


def test_certain_and_right_counts_as_calibrated_and_certain_and_wrong_as_missed(job: Any) -> None:
    right = score([job([(0, 100)])], [Reactive])[-1]
    assert right.coverage_80 == pytest.approx(0.8)
    assert right.closed_coverage_80 == 1.0
    wrong = score([job([(0, 90), (1, 10)])], [Reactive])[-1]
    assert (wrong.coverage_80, wrong.closed_coverage_80) == (0.0, 0.0)


def test_jobs_without_a_choice_are_left_out(job: Any) -> None:
    alone = job([(0, 10)], (5.0,), Adaptation.STATIC)
    assert [entry.cases for entry in score([alone], [Reactive])] == [0, 0, 0, 0]


def test_crps_prefers_the_sharper_of_two_honest_forecasts() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=400)
    sharp, blunt = rng.normal(size=(100, 400)), rng.normal(scale=3.0, size=(100, 400))
    assert crps(sharp, truth).mean() < crps(blunt, truth).mean()
    assert crps(np.full((5, 1), 7.0), np.array([4.0])).tolist() == [3.0]


def test_only_jobs_that_finished_earlier_are_learned_from(job: Any) -> None:
    """The last job to finish cannot have been learned from by anybody's forecast."""
    taught: list[str] = []

    class Spy(Reactive):
        def learn(self, finished: Any) -> None:
            taught.extend(entry.spec.id for entry in finished)

    jobs = [job([(0, 10), (1, 10)], arrival=100.0 * number) for number in range(5)]
    score(jobs, [Spy])
    assert taught == [entry.spec.id for entry in jobs[:4]]


@pytest.mark.parametrize(
    "mix",
    [
        Mix(jobs=150, seed=102, static=0.0, accordion=0.0, gns=1.0),
        Mix(jobs=150, seed=103, static=0.0, accordion=1.0, gns=0.0),
        Mix(jobs=150, seed=104, static=0.0, accordion=0.0, gns=0.0, pruning=1.0),
    ],
    ids=["gns", "accordion", "pruning"],
)
def test_restatement_beats_the_baselines_on_generated_workloads(mix: Mix) -> None:
    _beats_the_baselines(generate(mix))


def test_restatement_beats_the_baselines_on_the_paper_workload(shared_traces: Path) -> None:
    _beats_the_baselines(native.read(shared_traces / "paper-128gpu-460jobs.jsonl"))


def test_restatement_on_the_short_paper_workload(shared_traces: Path) -> None:
    """Too short to have learned much: better as a distribution, not yet as a point."""
    jobs = native.read(shared_traces / "paper-32gpu-120jobs.jsonl")
    learned, equal, bayesian, reactive = _at_half(jobs)
    assert learned.mae_seconds < min(equal.mae_seconds, bayesian.mae_seconds)
    assert learned.crps_seconds < reactive.crps_seconds


def _at_half(jobs: list[TraceJob]) -> list[Any]:
    predictors = (Restatement, EqualShares, Bayesian, Reactive)
    return [entry for entry in score(jobs, predictors) if entry.progress == 0.5]


def _beats_the_baselines(jobs: list[TraceJob]) -> None:
    learned, equal, bayesian, reactive = _at_half(jobs)
    for other in (equal, bayesian, reactive):
        assert learned.mae_seconds < other.mae_seconds
        assert learned.crps_seconds < other.crps_seconds
    assert 0.7 <= learned.coverage_80 <= 0.85


def test_the_calibration_plot_names_every_predictor(job: Any) -> None:
    scores = score([job([(0, 10), (1, 30)])], [Reactive, EqualShares])
    svg = calibration_svg(scores)
    assert svg.startswith("<svg")
    assert svg.count('<path class="line p') == 4  # the curve and its key
    assert "reactive" in svg
    assert "equal-shares" in svg
