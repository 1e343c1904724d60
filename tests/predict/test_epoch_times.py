"""Epoch times are measured, corrected or estimated, and never unknown."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, nan
from typing import Any

import numpy as np
import pytest

from shockwave.model.job import Adaptation
from shockwave.predict.epoch_times import current_epoch_seconds, epoch_seconds


def test_a_measurement_counts_and_corrects_the_profile_of_the_others(job: Any, view: Any) -> None:
    # Twice as slow as declared over 3 epochs: the other configuration moves 3/4 of the way.
    seen = view((job([(0, 3), (1, 9)], (10.0, 4.0), truth=(20.0, 8.0)), 3.0))
    seen = replace(seen, configuration=np.array([0]))
    assert epoch_seconds(seen)[0].tolist() == pytest.approx([20.0, 4.0 * exp(0.75 * log(2.0))])


def test_the_configuration_a_job_is_in_decides_its_present_speed(job: Any, view: Any) -> None:
    seen = view((job([(0, 3), (1, 9)]), 5.0), (job([(0, 3), (1, 9)]), 1.0))
    assert current_epoch_seconds(seen).tolist() == [4.0, 10.0]


def test_an_unknown_time_follows_the_ratio_seen_in_jobs_of_the_kind(job: Any, view: Any) -> None:
    known = job([(0, 10)], (8.0, 2.0))
    unknown = job([(0, 10)], (20.0, nan))
    assert epoch_seconds(view((known, 0.0), (unknown, 0.0)))[1].tolist() == pytest.approx(
        [20.0, 5.0]
    )


def test_without_anything_known_of_the_job_its_kind_then_everybody_decide(
    job: Any, view: Any
) -> None:
    jobs = [
        (job([(0, 10)], (8.0, 8.0)), 0.0),
        (job([(0, 10)], (nan, nan)), 0.0),
        (job([(0, 10)], (2.0, 2.0), model="other"), 0.0),
        (job([(0, 10)], (nan, nan), model="third"), 0.0),
    ]
    seconds = epoch_seconds(view(*jobs))
    assert seconds[1].tolist() == pytest.approx([8.0, 8.0])
    assert seconds[3].tolist() == pytest.approx([4.0, 4.0])  # geometric mean of 8 and 2


def test_nothing_known_at_all_is_still_a_time(job: Any, view: Any) -> None:
    seen = view((job([(0, 10)], (nan, nan), Adaptation.CUSTOM), 0.0))
    assert np.isfinite(epoch_seconds(seen)).all()
    assert (epoch_seconds(seen) > 0).all()
