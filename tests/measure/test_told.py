"""What was told is held against what happened."""

from __future__ import annotations

import numpy as np
import pytest
from tests.policies.views import make_view

from shockwave.measure.told import WhatIsTold
from shockwave.model.events import Event, JobFinished, JobStarted, JobSubmitted
from shockwave.model.job import Adaptation, JobSpec
from shockwave.plan.explain import Explanation
from shockwave.policies.base import Decision
from shockwave.predict.reactive import Reactive


def words(now: float) -> Explanation:
    """One job runs until 1,000 s, one waits until 1,000 s and ends at 2,000 s, give or take 100."""
    end = np.array([1000.0, 2000.0])
    start = np.array([now, 1000.0])
    none = np.zeros(2)
    return Explanation(
        price=0.0, bid=none, expected_start=start, finish_low=end - 100.0, finish=end,
        finish_high=end + 100.0, fair_finish=none, start_low=start - 100.0,
        start_high=start + 100.0,
    )  # fmt: skip


def happened(start: float, finish: float) -> list[Event]:
    """The first job ends as told, the second starts and finishes at these times."""
    specs = [
        JobSpec(name, 0.0, 1, 10, (32,), (60.0,), Adaptation.STATIC, model="m") for name in "ab"
    ]
    return [
        *(JobSubmitted(0.0, spec) for spec in specs),
        JobStarted(0.0, "a", (), 1),
        JobFinished(1000.0, "a", 1000.0),
        JobStarted(start, "b", (), 1),
        JobFinished(finish, "b", 1000.0),
    ]


def test_coverage_of_starts_and_finishes() -> None:
    told = WhatIsTold(every=1)
    for now in (120.0, 240.0):
        view = make_view([1, 1], gpus_total=1, now=now)
        decision = Decision(np.array([0]), explain=lambda now=now: words(now))  # type: ignore[misc]
        told(view, Reactive().forecast(view), decision)
    found = told.coverage(happened(start=1050.0, finish=2150.0))
    assert {kind: came_out.cases for kind, came_out in found.items()} == {
        "start": 2, "finish_waiting": 2, "finish_running": 2,
    }  # fmt: skip
    assert [found[kind].inside for kind in found] == [1.0, 0.0, 1.0]
    assert found["start"].median_error_seconds == pytest.approx(50.0)
    assert found["start"].median_truth_seconds == pytest.approx(870.0)
    assert found["finish_waiting"].mean_width_seconds == pytest.approx(200.0)


def test_a_policy_that_tells_nothing_has_no_figures() -> None:
    told = WhatIsTold(every=1)
    view = make_view([1])
    told(view, Reactive().forecast(view), Decision(np.array([0])))
    assert told.figures(happened(1.0, 2.0)) == {}
