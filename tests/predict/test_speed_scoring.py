"""Scores of predicted speeds: what they say of workloads whose scaling is known."""

from __future__ import annotations

import json

import pytest
from tests.conftest import SHARED

from shockwave.predict.speed_scoring import SpeedScore, score_speeds
from shockwave.traces import load


def by_name(scores: list[SpeedScore]) -> dict[tuple[str, str | None], SpeedScore]:
    return {(one.predictor, one.distance): one for one in scores}


def test_the_posterior_beats_the_rules() -> None:
    recipe = "generated:jobs=60,elastic=1,types=T4:1/A100:4,static=1,accordion=0,gns=0"
    found = by_name(score_speeds(load(recipe, seed=3)))
    for distance in ("1 doubling", "2 doublings", "another type", None):
        posterior = found["posterior", distance]
        assert posterior.error_relative < found["linear", distance].error_relative
        assert posterior.error_relative < found["alone", distance].error_relative
    measured = found["posterior", "measured"]
    assert measured.error_relative < posterior.error_relative
    assert measured.coverage_80 is not None
    assert found["linear", None].coverage_80 is None
    # Alone, nothing is known of a job that was not measured; a rule has nothing to say of it.
    assert found["alone", "newcomer"].error_relative > found["posterior", "newcomer"].error_relative
    assert ("linear", "newcomer") not in found


def test_every_option_of_every_job_is_a_case() -> None:
    jobs = load("generated:jobs=5,elastic=1,elastic_gpus=4,gpus=1:1", seed=1)
    scores = by_name(score_speeds(jobs))
    # Three options, asked about before the start and three times later.
    assert scores["posterior", None].cases == 5 * 3 * 4
    assert scores["posterior", "newcomer"].cases == 5 * 3
    assert scores["constant", None].cases == 5 * 3 * 3


def test_jobs_without_a_choice_have_no_score() -> None:
    assert score_speeds(load("generated:jobs=5", seed=1)) == []


def test_published_speeds_are_predicted_within_the_intervals() -> None:
    folder = SHARED / "elastic"
    if not folder.is_dir():
        pytest.skip("no published speeds beside this checkout")
    jobs = load(folder / "philly-1.jsonl", profiles=folder / "speeds.json")
    assert json.loads((folder / "speeds.json").read_text()).keys() == {j.spec.model for j in jobs}
    nodes = {"T4": 4, "2080Ti": 8, "A100": 8}
    found = by_name(score_speeds(jobs[:60], node_gpus=nodes))
    assert found["posterior", None].error_relative < 0.5 * found["linear", None].error_relative
    for distance in ("1 doubling", "2 doublings", "further", "another type", "newcomer"):
        coverage = found["posterior", distance].coverage_80
        assert coverage is not None
        assert coverage >= 0.75
