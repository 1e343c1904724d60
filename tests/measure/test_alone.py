"""Fairness where jobs have a share of every type of GPU."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shockwave.measure import fold_history, summarize
from shockwave.measure.alone import Alone, isolated_seconds, mean_active, request_seconds
from shockwave.measure.fairness import finish_time_fairness
from shockwave.model.cluster import Node
from shockwave.model.events import (
    Event,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    RunEnded,
    RunStarted,
    StopReason,
)
from shockwave.model.job import JobSpec
from shockwave.model.options import Option

NODES = (Node("t", 6, "T4"), Node("a", 2, "A100"))
TIMES = (
    ("T4", 1, 400.0),
    ("T4", 2, 200.0),
    ("T4", 4, 160.0),
    ("A100", 1, 100.0),
    ("A100", 2, 50.0),
)


def events() -> list[Event]:
    """``a`` alone for 100 s, then with ``b`` for 100 s; ``a`` grows at 100 s."""
    spec = JobSpec("a", 0.0, 2, 10, (32,), (math.nan,), gpu_counts=(1, 2, 4))
    other = JobSpec("b", 100.0, 2, 10, (32,), (50.0,))
    t4, a100 = Option("T4", 2), Option("A100", 2)
    return [
        RunStarted(0.0, "p", "reactive", "", NODES, 60.0, 20.0, 0, "1"),
        JobSubmitted(0.0, spec),
        JobStarted(0.0, "a", (("t", (0, 1)),), 1, t4),
        JobSubmitted(100.0, other),
        JobStopped(100.0, "a", 4.0, StopReason.RESIZED),
        JobStarted(100.0, "a", (("a", (0, 1)),), 2, a100),
        JobStarted(100.0, "b", (("t", (0, 1)),), 1, t4),
        JobFinished(200.0, "a", 160.0, TIMES),
        JobFinished(300.0, "b", 180.0),
        RunEnded(300.0, 5),
    ]


def test_a_share_between_two_numbers_is_interpolated_and_never_slower_than_fewer() -> None:
    alone = Alone.of((*TIMES, ("T4", 6, 500.0)))
    assert alone.seconds("T4", 0.5) == pytest.approx(800)
    assert alone.seconds("T4", math.sqrt(2)) == pytest.approx(math.sqrt(400 * 200))
    assert alone.seconds("T4", 5) == 160
    assert alone.seconds("A100", 64) == 50


def test_a_fair_share_is_one_of_every_type() -> None:
    history = fold_history(events())
    assert mean_active(history).tolist() == pytest.approx([1.5, 1.5])
    # Its request, 2 GPUs, for 6/8 of the time on T4 and for 2/8 on A100.
    request = 1 / (0.75 / 200 + 0.25 / 50)
    assert request_seconds(history).tolist() == pytest.approx([request, 180])
    assert finish_time_fairness(history, "static")[0] == pytest.approx(200 / request)
    # 8 / 1.5 GPUs: 4 of T4, and both of A100, after a start of 20 s as it had two of.
    isolated = 0.75 * 180 + 0.25 * 70
    assert isolated_seconds(history)[0] == pytest.approx(isolated)
    sia = finish_time_fairness(history, "sia")
    assert sia[0] == pytest.approx(200 / isolated)
    assert np.isnan(sia[1])


def test_isolated_jobs_hold_whole_gpus_that_they_can_use() -> None:
    alone = Alone.of((*TIMES, ("T4", 3, 170.0)), choices=(1, 2, 4))
    assert alone.isolated_seconds("T4", 6, 0.5, 20) == pytest.approx(2 * 420)
    assert alone.isolated_seconds("T4", 6, 1.5, 20) == pytest.approx((420 + 220) / 2)
    assert alone.isolated_seconds("T4", 6, 3.5, 20) == pytest.approx((220 + 180) / 2)
    assert alone.isolated_seconds("T4", 6, 60, 20) == pytest.approx(180)
    assert math.isinf(Alone.of(TIMES, choices=(4,)).isolated_seconds("A100", 2, 8, 20))


def test_figures_of_a_run_with_types_are_by_what_was_held() -> None:
    figures = summarize(fold_history(events()))
    assert figures["gpu_types"] == {"T4": 6, "A100": 2}
    assert figures["makespan_lower_bound_seconds"] is None
    assert figures["unfair_sia"] == 1.0
    assert figures["utilization"] == pytest.approx((2 * 160 + 2 * 180) / (8 * 300))
    assert figures["restart_lost_gpu_seconds"] == pytest.approx(2 * 40 + 2 * 20)
    assert figures["restarts_by_reason"] == {"resized": 1}
