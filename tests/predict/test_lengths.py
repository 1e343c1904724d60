"""How many epochs a job takes: its word, as far as such words have been good."""

from __future__ import annotations

import numpy as np
import pytest

from shockwave.model.view import Floats
from shockwave.predict.lengths import LengthLearner


def after(claims: list[float], truths: list[float]) -> LengthLearner:
    """Jobs of one model that claimed and did so much, one after the other."""
    learner = LengthLearner()
    for handle, (claim, truth) in enumerate(zip(claims, truths, strict=True)):
        columns = np.array([handle]), np.array([7]), np.array([claim])
        learner.learn(*columns, np.array([truth - 1.0]), np.array([2.0]))
    none = np.empty(0, dtype=np.int64)
    learner.learn(none, none, np.empty(0), np.empty(0), np.empty(0))
    return learner


def told(learner: LengthLearner, claim: float, done: float = 0.0, kind: int = 7) -> Floats:
    return learner.epochs(np.array([kind]), np.array([claim]), np.array([done]))


def test_a_claim_is_believed_while_nothing_speaks_against_it() -> None:
    assert told(LengthLearner(), 50.0) == pytest.approx(50.0)
    honest = after([10.0, 40.0, 160.0, 20.0], [10.0, 40.0, 160.0, 20.0])
    assert told(honest, 80.0) == pytest.approx(80.0, rel=0.05)


def test_where_claims_are_wrong_and_jobs_alike_what_was_usual_is_believed() -> None:
    rng = np.random.default_rng(3)
    claims = (100.0 * np.exp(0.5 * rng.standard_normal(20))).tolist()
    wrong = after(claims, [100.0] * 20)
    assert told(wrong, 220.0) == pytest.approx(100.0, rel=0.35)
    assert told(wrong, 220.0, kind=8) == pytest.approx(220.0)


def test_nobody_is_believed_to_have_done_more_than_all() -> None:
    alike = after([100.0] * 10, [100.0] * 10)
    assert told(alike, 100.0, done=130.0) > 130.0
