"""The techniques decide as their definitions say, on numbers with a known answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from shockwave.model.errors import InputError
from shockwave.train.adapt import Accordion, GradientNoiseScale, LotteryTicket
from shockwave.train.adapt.noise_scale import NoiseScaleEstimator, unbiased_parts
from shockwave.train.adapt.pruning import neuron_scores, prune_dense, strongest


class TestAccordion:
    def test_follows_scripted_norms(self) -> None:
        accordion = Accordion(32, 256, threshold=0.5)
        norms = [10.0, 4.0, 2.1, 1.9, 1.0, 0.6, 1.2, 1.0]
        #        first -60%  -48%  -10%  -47% -40% +100% -17%
        chosen = [accordion.at_epoch_end(norm, 0.1) for norm in norms]
        assert chosen == [32, 32, 256, 256, 256, 256, 32, 256]

    def test_exactly_the_threshold_is_critical(self) -> None:
        accordion = Accordion(32, 256, threshold=0.5)
        accordion.at_epoch_end(2.0, 0.1)
        assert accordion.at_epoch_end(1.0, 0.1) == 32

    def test_a_new_learning_rate_is_critical(self) -> None:
        accordion = Accordion(32, 256)
        chosen = [accordion.at_epoch_end(1.0, rate) for rate in (0.1, 0.1, 0.01, 0.01)]
        assert chosen == [32, 256, 32, 256]

    def test_its_own_scaling_is_not_a_new_learning_rate(self) -> None:
        accordion = Accordion(32, 256)
        for _ in range(3):
            accordion.at_epoch_end(1.0, learning_rate=0.1)
        assert accordion.batch_size == 256
        assert accordion.learning_rate_scale == 8.0

    def test_it_compares_checks_not_epochs(self) -> None:
        accordion = Accordion(32, 256, every_epochs=3)
        norms = [9.0, 9.0, 4.0, 1.0, 1.0, 3.9]
        assert [accordion.at_epoch_end(norm, 0.1) for norm in norms] == [32] * 5 + [256]

    @pytest.mark.parametrize("norm", [math.nan, math.inf])
    def test_a_broken_norm_is_critical_and_forgotten(self, norm: float) -> None:
        accordion = Accordion(32, 256)
        chosen = [accordion.at_epoch_end(value, 0.1) for value in (1.0, 1.0, norm, 1.0, 1.0)]
        assert chosen == [32, 256, 32, 32, 256]

    @given(st.lists(st.floats(0.0, 100.0), max_size=20), st.integers(0, 20))
    def test_a_preempted_one_decides_the_same(self, norms: list[float], cut: int) -> None:
        whole = Accordion(32, 256, every_epochs=2)
        expected = [whole.at_epoch_end(norm, 0.1) for norm in norms]
        first = Accordion(32, 256, every_epochs=2)
        chosen = [first.at_epoch_end(norm, 0.1) for norm in norms[:cut]]
        second = Accordion(32, 256, every_epochs=2)
        second.load_state_dict(first.state_dict())
        assert chosen + [second.at_epoch_end(norm, 0.1) for norm in norms[cut:]] == expected

    def test_a_state_of_other_sizes_is_refused(self) -> None:
        with pytest.raises(InputError, match="other batch sizes"):
            Accordion(16, 64).load_state_dict(Accordion(32, 256).state_dict())


class TestNoiseScale:
    """Gaussian gradients: mean G, covariance Sigma, so that everything is known."""

    gradient = np.array([0.5, -1.0, 0.25, 0.0])
    deviations = np.array([2.0, 1.0, 3.0, 0.5])
    true_signal = float(np.sum(gradient**2))  # 1.3125
    true_trace = float(np.sum(deviations**2))  # 14.25

    def step(self, rng: np.random.Generator, count: int, batch: int) -> np.ndarray:
        samples = rng.normal(self.gradient, self.deviations, size=(count, batch, 4))
        means: np.ndarray = samples.mean(axis=1)
        return means

    def test_both_parts_are_unbiased(self) -> None:
        """The mean of single-step estimates is within four standard errors of the truth."""
        rng = np.random.default_rng(7)
        estimates = []
        for _ in range(4000):
            micro = self.step(rng, 4, 8)
            small = float(np.mean(np.sum(micro**2, axis=1)))
            large = float(np.sum(micro.mean(axis=0) ** 2))
            estimates.append(unbiased_parts(8, small, 32, large))
        values = np.array(estimates)
        errors = values.std(axis=0, ddof=1) / math.sqrt(len(values))
        truth = np.array([self.true_signal, self.true_trace])
        assert np.all(np.abs(values.mean(axis=0) - truth) < 4 * errors)
        assert np.all(errors < 0.02 * truth), "the test could not tell a bias of 8 %"

    def test_the_smoothed_ratio_converges(self) -> None:
        rng = np.random.default_rng(3)
        estimator = NoiseScaleEstimator(memory_steps=2000)
        for _ in range(6000):
            estimator.observe_micro_batches(self.step(rng, 2, 16), 16)
        assert estimator.squared_gradient == pytest.approx(self.true_signal, rel=0.05)
        assert estimator.trace == pytest.approx(self.true_trace, rel=0.05)
        expected = self.true_trace / self.true_signal
        assert estimator.noise_scale == pytest.approx(expected, rel=0.05)

    def test_expected_norms_give_the_truth_exactly(self) -> None:
        signal, trace = unbiased_parts(
            4, self.true_signal + self.true_trace / 4, 64, self.true_signal + self.true_trace / 64
        )
        assert signal == pytest.approx(self.true_signal)
        assert trace == pytest.approx(self.true_trace)

    def test_one_step_is_not_dragged_to_zero(self) -> None:
        estimator = NoiseScaleEstimator(memory_steps=100)
        estimator.observe(8, 2.0, 16, 1.5)
        assert (estimator.squared_gradient, estimator.trace) == pytest.approx((1.0, 8.0))
        assert estimator.noise_scale == pytest.approx(8.0)

    def test_before_and_beyond_what_can_be_measured(self) -> None:
        estimator = NoiseScaleEstimator()
        assert math.isnan(estimator.noise_scale)
        estimator.observe(8, math.nan, 16, 1.0)
        assert math.isnan(estimator.noise_scale)
        estimator.observe(8, 2.0, 16, 0.5)
        assert estimator.noise_scale == math.inf
        with pytest.raises(InputError, match="grow"):
            estimator.observe(16, 1.0, 16, 1.0)

    def test_the_batch_doubles_up_to_the_maximum_and_never_shrinks(self) -> None:
        schedule = GradientNoiseScale(32, 100, factor=2.0, memory_steps=1)
        assert schedule.configurations == (32, 64, 100)
        sizes = []
        for noise in (10.0, 65.0, 100.0, 300.0, 1e9, 1.0):
            # |G|^2 = 1, so the trace is the noise scale.
            schedule.estimator.observe(8, 1.0 + noise / 8, 16, 1.0 + noise / 16)
            sizes.append(schedule.at_epoch_end())
        assert sizes == [32, 64, 64, 100, 100, 100]
        assert schedule.learning_rate_scale == pytest.approx(100 / 32)

    def test_a_preempted_one_decides_the_same(self) -> None:
        rng = np.random.default_rng(5)
        steps = [self.step(rng, 2, 8) for _ in range(40)]

        def run(schedule: GradientNoiseScale, part: list[np.ndarray]) -> list[int]:
            sizes = []
            for gradients in part:
                schedule.estimator.observe_micro_batches(gradients, 8)
                sizes.append(schedule.at_epoch_end())
            return sizes

        expected = run(GradientNoiseScale(2, 64), steps)
        assert len(set(expected)) > 2, "nothing adapted"
        first, second = GradientNoiseScale(2, 64), GradientNoiseScale(2, 64)
        before = run(first, steps[:3])
        second.load_state_dict(first.state_dict())
        assert before + run(second, steps[3:]) == expected


class TestPruning:
    @given(
        arrays.arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 10)),
        st.data(),
    )
    def test_nothing_removed_is_stronger_than_what_stays(
        self, scores: np.ndarray, data: st.DataObject
    ) -> None:
        keep = data.draw(st.integers(1, len(scores)))
        kept = strongest(scores, keep)
        removed = np.setdiff1d(np.arange(len(scores)), kept)
        assert len(kept) == keep
        assert np.all(np.diff(kept) > 0)
        assert not len(removed) or scores[removed].max() <= scores[kept].min()

    def test_the_neurons_that_stay_compute_exactly_what_they_did(self) -> None:
        rng = np.random.default_rng(0)
        incoming, bias, outgoing = (
            rng.normal(size=(6, 4)),
            rng.normal(size=6),
            rng.normal(size=(3, 6)),
        )
        keep = np.array([0, 2, 5])
        small_in, small_bias, small_out = prune_dense(incoming, bias, outgoing, keep)
        inputs = rng.normal(size=(10, 4))
        hidden = np.maximum(inputs @ incoming.T + bias, 0.0)
        small_hidden = np.maximum(inputs @ small_in.T + small_bias, 0.0)
        np.testing.assert_array_equal(small_hidden, hidden[:, keep])
        np.testing.assert_allclose(
            small_hidden @ small_out.T, hidden[:, keep] @ outgoing[:, keep].T
        )

    def test_scores_ignore_a_scale_that_changes_nothing(self) -> None:
        rng = np.random.default_rng(1)
        incoming, outgoing = rng.normal(size=(5, 4)), rng.normal(size=(3, 5))
        scales = np.array([1.0, 10.0, 0.1, 3.0, 7.0])
        np.testing.assert_allclose(
            neuron_scores(incoming * scales[:, None], outgoing / scales),
            neuron_scores(incoming, outgoing),
        )

    def test_the_ticket_survives_a_preemption(self) -> None:
        whole = LotteryTicket((100, 50, 25), every_epochs=3)
        expected = [whole.at_epoch_end() for _ in range(9)]
        assert expected == [None, None, 50, None, None, 25, None, None, None]
        for cut in range(10):
            first = LotteryTicket((100, 50, 25), every_epochs=3)
            chosen = [first.at_epoch_end() for _ in range(cut)]
            second = LotteryTicket((100, 50, 25), every_epochs=3)
            second.load_state_dict(first.state_dict())
            chosen += [second.at_epoch_end() for _ in range(9 - cut)]
            assert chosen == expected
            assert second.percent == 25

    def test_width_is_never_zero(self) -> None:
        ticket = LotteryTicket((100, 1), every_epochs=1)
        assert ticket.width(64) == 64
        ticket.at_epoch_end()
        assert ticket.width(64) == 1

    @pytest.mark.parametrize("percents", [(), (50, 25), (100, 100), (100, 0)])
    def test_sizes_must_shrink(self, percents: tuple[int, ...]) -> None:
        with pytest.raises(InputError, match="percents"):
            LotteryTicket(percents, every_epochs=1)
