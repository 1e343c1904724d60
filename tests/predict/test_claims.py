"""Declared epochs are believed by habit, and checked as the job goes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.policies.views import make_view

from shockwave.model.job import JobSpec
from shockwave.predict.base import FinishedJob
from shockwave.predict.claims import Claims, broken


def ended(ratio: float, tenant: int = 0, kind: int = 0) -> FinishedJob:
    spec = JobSpec("x", 0.0, 1, 100, (32,), (60.0,))
    return FinishedJob(spec, kind, ((0, 100 * ratio),), tenant)


def taught(*ratios: float, tenant: int = 0) -> Claims:
    claims = Claims()
    for ratio in ratios:
        claims.learn(ended(ratio, tenant))
    return claims


def test_while_all_keep_their_word_nothing_changes() -> None:
    view = make_view([1, 1], epochs_done=[0.0, 9.5])
    assert taught(1.0, 1.0, 1.001).checked(view) is view


def test_a_habit_scales_the_claims_of_its_tenant_alone() -> None:
    checked = taught(*[3.0] * 6).checked(make_view([1, 1], tenant=[0, 1]))
    assert checked.epochs.tolist() == [30.0, 10.0]


def test_some_liars_do_not_make_a_habit() -> None:
    checked = taught(1.0, 1.0, 10.0, 1.0, 10.0, 1.0).checked(make_view([1]))
    assert checked.epochs.tolist() == [10.0]


@pytest.mark.parametrize("done", [10.5, 15.0, 40.0, 200.0])
def test_a_broken_claim_is_taken_for_far_too_small(done: float) -> None:
    view = make_view([1], epochs_done=done)
    assert broken(view).all()
    left = Claims().checked(view).epochs[0] - done
    assert left >= done  # it is never taken to be nearly done
    if done <= 100.0:
        assert left >= 100.0 - done  # nor shorter than an honest one ten times as long


def test_a_job_that_has_done_just_what_it_declared_is_ending() -> None:
    assert not broken(make_view([1], epochs_done=10.0)).any()


def test_how_claims_were_broken_before_says_how_far_this_one_is_off() -> None:
    usual = taught(*[2.0] * 6, *[1.0] * 30).checked(make_view([1], epochs_done=11.0))
    unknown = Claims().checked(make_view([1], epochs_done=11.0))
    assert np.all(usual.epochs < unknown.epochs)
    assert usual.epochs[0] > 20.0  # and it costs: more than those took
