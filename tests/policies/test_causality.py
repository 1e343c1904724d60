"""The information barrier: no decision depends on what has not happened yet."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies import quick

from shockwave.executors.simulation import TraceTruth
from shockwave.model.job import TraceJob
from shockwave.policies import registry
from shockwave.policies.base import Policy
from shockwave.predict import registry as predictors
from shockwave.predict.base import Predictor
from shockwave.predict.oracle import Oracle
from shockwave.testing import PolicyContract


def is_clairvoyant(policy: str) -> bool:
    name = registry.create(policy).predictor
    return predictors.create(name, truth=TraceTruth([])).clairvoyant


SCHEDULERS = [name for name in registry.names() if not is_clairvoyant(name)]


def test_only_the_oracle_is_clairvoyant() -> None:
    assert set(registry.names()) - set(SCHEDULERS) == {"srtf-oracle"}


@pytest.mark.parametrize("name", SCHEDULERS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**31), cut_share=st.floats(0.0, 1.0))
def test_altered_futures_change_no_decision_before_them(
    name: str, seed: int, cut_share: float
) -> None:
    class Contract(PolicyContract):
        def make(self) -> Policy:
            return quick.create(name)

    Contract().check_causality(seed, cut_share)


class HiddenOracle(Oracle):
    """Knows the future and does not say so."""

    name = "hidden-oracle"
    clairvoyant = False


def test_the_check_catches_a_policy_that_knows_the_future() -> None:
    class Cheat(PolicyContract):
        def make(self) -> Policy:
            return registry.create("srtf")

        def predictor(self, jobs: list[TraceJob]) -> Predictor:
            return HiddenOracle(TraceTruth(jobs))

    def search() -> None:
        for seed in range(20):
            Cheat().check_causality(seed, 0.3)

    with pytest.raises(AssertionError):
        search()
