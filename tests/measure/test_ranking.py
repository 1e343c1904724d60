"""Ranks by regret: who is first, by how much, and how sure that is."""

from __future__ import annotations

from typing import Any

import pytest

from shockwave.measure.ranking import ranking
from shockwave.measure.regret import MEASURES


def run(family: str, policy: str, jct: float, unfair: float = 0.0, **more: Any) -> dict[str, Any]:
    return {
        "family": family, "policy": policy, "seed": 1, "clairvoyant": policy == "oracle",
        "mean_jct_seconds": jct, "unfair_themis": unfair, "plan_seconds_mean": 0.001, **more,
    }  # fmt: skip


RUNS = [
    run("one", "a", 100.0), run("one", "b", 150.0, 0.3), run("one", "oracle", 90.0),
    run("two", "a", 120.0), run("two", "b", 100.0, 0.1), run("two", "oracle", 80.0),
]  # fmt: skip


def test_policies_are_ordered_by_their_mean_rank() -> None:
    ranked = ranking(RUNS, ["b", "a", "oracle"])
    assert [row.policy for row in ranked] == ["a", "oracle", "b"]
    assert [row.clairvoyant for row in ranked] == [False, True, False]
    assert ranked[0].plan_seconds == 0.001


def test_regret_is_against_the_best_that_does_not_know_the_future() -> None:
    places = {row.policy: row.places["mean_jct_seconds"] for row in ranking(RUNS, ["a", "b"])}
    assert (places["a"].rank, places["b"].rank) == (1, 2)
    assert places["a"].mean == pytest.approx(1.1)
    assert (places["b"].worst, places["b"].worst_family) == (1.5, "one")


def test_the_interval_is_over_workloads() -> None:
    place = ranking(RUNS, ["a", "b"])[0].places["mean_jct_seconds"]
    # Regrets 1.0 and 1.2: s = 0.1414, t of one degree of freedom 12.7062.
    assert place.half_width == pytest.approx(12.7062 * 0.1, rel=1e-6)
    assert place.told(MEASURES[0]) == "1.10 ± 1.27"
    alone = ranking(RUNS[:2], ["a", "b"])[0].places["mean_jct_seconds"]
    assert alone.half_width is None
    assert alone.told(MEASURES[0]) == "1.00"


def test_a_measure_that_does_not_apply_has_no_place() -> None:
    assert set(ranking(RUNS, ["a"])[0].places) == {"mean_jct_seconds", "unfair_themis"}
