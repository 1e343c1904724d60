"""What every predictor promises, by hand and by property."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob
from shockwave.predict.base import FinishedJob, Predictor
from shockwave.predict.bayesian import Bayesian
from shockwave.predict.oracle import Oracle
from shockwave.predict.reactive import Reactive
from shockwave.predict.restatement import Restatement
from shockwave.predict.shares import EqualShares
from shockwave.predict.snapshots import Snapshot, finished, number_kinds, view_of

HONEST = (Restatement, EqualShares, Bayesian, Reactive)


class _Lives:
    def __init__(self, *jobs: TraceJob) -> None:
        self._jobs = jobs

    def regimes(self, handle: int) -> tuple[Regime, ...]:
        return self._jobs[handle].regimes


@pytest.fixture
def two_jobs(job: Any) -> list[TraceJob]:
    """10 s then 4 s an epoch, and 9, 6, 3 s."""
    return [job([(0, 6), (1, 14)]), job([(0, 4), (1, 4), (2, 4)], (9.0, 6.0, 3.0), model="b")]


class TestByHand:
    """After 10 of 20 epochs (10 left at 4 s) and 2 of 12 (10 left, 9 s now)."""

    @pytest.fixture
    def seen(self, view: Any, two_jobs: list[TraceJob]) -> Any:
        return view((two_jobs[0], 10.0), (two_jobs[1], 2.0))

    def test_reactive(self, seen: Any) -> None:
        assert Reactive().forecast(seen).remaining_seconds.tolist() == [40.0, 90.0]

    def test_oracle(self, seen: Any, two_jobs: list[TraceJob]) -> None:
        oracle = Oracle(_Lives(*two_jobs))
        assert oracle.forecast(seen).remaining_seconds.tolist() == [40.0, 2 * 9.0 + 24.0 + 12.0]
        futures = oracle.forecast(seen).sample(2, np.random.default_rng(0))
        assert futures.epochs[1, 1].tolist() == [2.0, 4.0, 4.0]

    def test_equal_shares(self, seen: Any) -> None:
        # The first is in its last configuration; the second has three to share 10 epochs.
        assert EqualShares().forecast(seen).remaining_seconds.tolist() == pytest.approx(
            [40.0, 60.0]
        )

    def test_bayesian(self, seen: Any) -> None:
        # Priors of 10 and 4 epochs; seen 6 and 4, and 2.
        first = 10 * (16 * 10.0 + 14 * 4.0) / 30
        second = 10 * (6 * 9.0 + 4 * 6.0 + 4 * 3.0) / 14
        assert Bayesian().forecast(seen).remaining_seconds.tolist() == pytest.approx(
            [first, second]
        )

    def test_restatement_before_anything_was_learned(self, seen: Any) -> None:
        # Staying (90 s) against an equal split (60 s), which would have changed within
        # 2 of 12 epochs with probability 1 - (10/12)^2.
        survival = (10 / 12) ** 2
        expected = (90.0 + survival * 60.0) / (1.0 + survival)
        mean = Restatement().forecast(seen).remaining_seconds
        assert mean.tolist() == pytest.approx([40.0, expected])


def test_a_job_in_its_last_configuration_is_known_exactly(job: Any, view: Any) -> None:
    seen = view((job([(0, 6), (1, 14)]), 8.0), (job([(0, 9)], (7.0,), Adaptation.STATIC), 3.0))
    for predictor in (Restatement(), EqualShares(), Reactive()):
        forecast = predictor.forecast(seen)
        for seconds in (forecast.remaining_seconds, forecast.quantile(0.01), forecast.quantile(1)):
            assert seconds.tolist() == pytest.approx([48.0, 42.0])


def test_an_empty_view_has_an_empty_forecast(view: Any) -> None:
    for predictor in (*(make() for make in HONEST), Oracle(_Lives())):
        assert predictor.forecast(view()).remaining_seconds.shape == (0,)


def test_the_oracle_meets_longer_lives_later(job: Any, view: Any) -> None:
    short, long = job([(0, 10)]), job([(0, 2), (1, 2), (0, 3), (1, 3)])
    oracle = Oracle(_Lives(short, long))
    seen = view((short, 4.0), (long, 3.0))
    first = replace(seen, **{name: getattr(seen, name)[:1] for name in _columns(seen)})
    assert oracle.forecast(first).remaining_seconds.tolist() == [60.0]
    assert oracle.forecast(seen).remaining_seconds.tolist() == [60.0, 4.0 + 30.0 + 12.0]


def _columns(view: Any) -> list[str]:
    return [name for name, value in vars(view).items() if isinstance(value, np.ndarray)]


# Jobs that do whatever they like: any path through their configurations, any adaptation.
@st.composite
def lives(draw: st.DrawFn) -> TraceJob:
    seconds = draw(st.lists(st.floats(0.5, 100.0), min_size=1, max_size=4))
    schedule = draw(
        st.lists(
            st.tuples(st.integers(0, len(seconds) - 1), st.integers(1, 30)), min_size=1, max_size=10
        )
    )
    spec = JobSpec(
        id="job",
        arrival_seconds=0.0,
        gpus=draw(st.sampled_from([1, 4])),
        epochs=sum(epochs for _, epochs in schedule),
        configurations=tuple(range(len(seconds))),
        epoch_seconds=tuple(seconds),
        adaptation=draw(st.sampled_from(list(Adaptation))),
        model=draw(st.sampled_from(["a", "b"])),
    )
    return TraceJob(spec, tuple(Regime(index, count, seconds[index]) for index, count in schedule))


def _taught(make: type[Predictor], past: list[TraceJob], kinds: Any) -> Predictor:
    predictor = make()
    predictor.learn([finished(life, kinds) for life in past])
    return predictor


@settings(max_examples=25, deadline=None)
@given(
    past=st.lists(lives(), max_size=6),
    active=st.lists(st.tuples(lives(), st.floats(0.0, 1.0)), min_size=1, max_size=5),
)
@pytest.mark.parametrize("make", HONEST)
def test_forecasts_stay_within_what_is_possible(
    make: type[Predictor], past: list[TraceJob], active: list[tuple[TraceJob, float]]
) -> None:
    kinds = number_kinds([*past, *(life for life, _ in active)])
    snapshots = [Snapshot(life, share * life.spec.epochs) for life, share in active]
    seen = view_of(snapshots, kinds)
    forecast = _taught(make, past, kinds).forecast(seen)
    best = np.nanmin(seen.epoch_seconds, axis=1) * seen.epochs_left - 1e-6
    worst = np.nanmax(seen.epoch_seconds, axis=1) * seen.epochs_left + 1e-6
    quantiles = [forecast.quantile(q) for q in (0.0, 0.1, 0.5, 0.9, 1.0)]
    for seconds in (forecast.remaining_seconds, *quantiles):
        assert ((best <= seconds) & (seconds <= worst)).all()
    assert (np.diff(quantiles, axis=0) >= 0).all()
    futures = forecast.sample(20, np.random.default_rng(1))
    assert (futures.epochs >= 0).all()
    np.testing.assert_allclose(
        futures.epochs.sum(axis=2), np.broadcast_to(seen.epochs_left, (20, len(seen))), atol=1e-6
    )
    assert (futures.remaining_seconds >= best).all()
    assert (futures.remaining_seconds <= worst).all()


@settings(max_examples=15, deadline=None)
@given(life=lives(), other=lives(), share=st.floats(0.0, 1.0))
@pytest.mark.parametrize("make", HONEST)
def test_the_future_does_not_leak_into_the_forecast(
    make: type[Predictor], life: TraceJob, other: TraceJob, share: float
) -> None:
    first = life.regimes[0]
    done = share * first.epochs * 0.999
    rest = life.spec.epochs - first.epochs
    altered = replace(life, regimes=(replace(first, epochs=first.epochs + rest),))
    kinds = number_kinds([life, other])
    forecasts = [
        _taught(make, [other], kinds).forecast(view_of([Snapshot(version, done)], kinds))
        for version in (life, altered)
    ]
    assert forecasts[0].remaining_seconds == forecasts[1].remaining_seconds
    assert forecasts[0].quantile(0.9) == forecasts[1].quantile(0.9)


def test_samples_agree_with_the_mean_and_the_quantiles(job: Any, view: Any) -> None:
    life = job([(0, 30), (1, 40), (2, 30)], (9.0, 6.0, 3.0))
    kinds = number_kinds([life])
    past = [job([(0, 20 + 3 * n), (1, 30), (2, 50 - 3 * n)], (9.0, 6.0, 3.0)) for n in range(10)]
    for make in HONEST:
        forecast = _taught(make, past, kinds).forecast(view((life, 10.0)))
        seconds = forecast.sample(4000, np.random.default_rng(2)).remaining_seconds[:, 0]
        assert seconds.mean() == pytest.approx(forecast.remaining_seconds[0], rel=0.03)
        for q in (0.1, 0.5, 0.9):
            assert np.quantile(seconds, q) == pytest.approx(forecast.quantile(q)[0], rel=0.06)


def test_experience_of_the_same_kind_sharpens_the_forecast(job: Any, view: Any) -> None:
    """Jobs of this kind switch after 30 % of their epochs; so will the next one."""
    life = job([(0, 60), (1, 140)])
    kinds = number_kinds([life])
    seen = view((life, 20.0))
    truth = 40 * 10.0 + 140 * 4.0
    errors, widths = [], []
    for count in (0, 3, 12):
        past = [job([(0, 3 * (n + 3)), (1, 7 * (n + 3))]) for n in range(count)]
        forecast = _taught(Restatement, past, kinds).forecast(seen)
        errors.append(abs(float(forecast.remaining_seconds[0]) - truth))
        widths.append(float((forecast.quantile(0.9) - forecast.quantile(0.1))[0]))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.1 * truth
    assert widths[2] < widths[0]


def test_a_kind_that_never_adapts_is_learned(job: Any, view: Any) -> None:
    life = job([(0, 100)])
    kinds = number_kinds([life])
    predictor = _taught(Restatement, [job([(0, 80 + n)]) for n in range(15)], kinds)
    assert predictor.forecast(view((life, 25.0))).remaining_seconds[0] == pytest.approx(
        750, rel=0.1
    )
    assert EqualShares().forecast(view((life, 25.0))).remaining_seconds[0] == pytest.approx(525.0)


def test_a_habit_of_breaking_the_rules_is_learned_too(job: Any, view: Any) -> None:
    """Back to the first configuration for the last epoch, against the rule of its kind."""
    life = job([(0, 10), (1, 49), (0, 1)])
    kinds = number_kinds([life])
    past = [job([(0, 10), (1, 29 + n), (0, 1)]) for n in range(15)]
    forecast = _taught(Restatement, past, kinds).forecast(view((life, 30.0)))
    assert forecast.quantile(0.5)[0] == pytest.approx(29 * 4.0 + 10.0, abs=0.5)


def test_waiting_jobs_hear_of_new_experience_and_of_new_measurements(job: Any, view: Any) -> None:
    life = job([(0, 60), (1, 140)])
    kinds = number_kinds([life])
    predictor = Restatement()
    seen = view((life, 20.0))
    before = predictor.forecast(seen).remaining_seconds
    assert predictor.forecast(seen).remaining_seconds == before
    predictor.learn([finished(job([(0, 30), (1, 70)]), kinds)])
    after = predictor.forecast(seen).remaining_seconds
    assert after != before
    slower = replace(seen, measured_seconds=seen.measured_seconds * 2)
    assert predictor.forecast(slower).remaining_seconds > after * 1.5


def test_histories_that_say_nothing_are_ignored(job: Any, view: Any) -> None:
    life = job([(0, 6), (1, 14)])
    predictor = Restatement()
    predictor.learn([FinishedJob(life.spec, 0, ()), FinishedJob(life.spec, 0, ((0, 0.0),))])
    unprofiled = replace(life.spec, epoch_seconds=(np.nan, np.nan))
    predictor.learn([FinishedJob(unprofiled, 0, ((0, 6.0), (1, 14.0)))])
    assert np.isfinite(predictor.forecast(view((life, 3.0))).remaining_seconds).all()


@pytest.mark.parametrize("q", [-0.1, 1.1, float("nan")])
def test_a_quantile_beyond_probability_is_refused(job: Any, view: Any, q: float) -> None:
    for make in HONEST:
        with pytest.raises(ValueError, match="between 0 and 1"):
            make().forecast(view((job([(0, 6), (1, 14)]), 3.0))).quantile(q)
