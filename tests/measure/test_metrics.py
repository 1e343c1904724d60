"""Every metric on a journal small enough to compute by hand, and the records made of them."""

from __future__ import annotations

import json
import math

import pytest

from shockwave.measure import (
    FAIRNESS,
    METRICS,
    RECORD_KEYS,
    aggregate,
    finish_time_fairness,
    fold_history,
    summarize,
)
from shockwave.measure.summary import student_t_975
from shockwave.model.errors import InputError
from shockwave.model.events import NodeOccupied
from shockwave.traces.window import Window

from .journals import hand_made, one_gpu, run_started, submitted, toy_history, toy_workload

BY_HAND = {
    "makespan_seconds": 350.0,
    "makespan_lower_bound_seconds": 230.0,  # A cannot end earlier
    "mean_jct_seconds": 255.0,  # 350 and 160
    "p50_jct_seconds": 255.0,
    "p90_jct_seconds": 160 + 0.90 * 190,
    "p99_jct_seconds": 160 + 0.99 * 190,
    "worst_ftf_static": 160 / 70,  # 3 jobs on 4 GPUs do not contend
    "unfair_static": 1.0,
    "worst_ftf_themis": 160 / 70,
    "unfair_themis": 1.0,
    "worst_ftf_egalitarian": 160 / 70,
    "worst_ftf_sia": None,  # of runs with options
    "unfair_sia": None,
    "unfair_egalitarian": 1.0,
    "utilization": (2 * 230 + 70 + 40) / (4 * 350),
    "occupancy": (2 * 250 + 80 + 50) / (4 * 350),
    "queueing_mean_seconds": (100 + 80 + 150) / 3,
    "queueing_max_seconds": 150.0,
    "restarts": 1,
    "restart_lost_gpu_seconds": 2 * 10 + 10 + 10 + 2 * 10,
    "envy_max": 130 / 50,
    "envy_mean": (1 + 210 / 130 + 130 / 50) / 3,
    "jain_index": (230 / 350 + 70 / 160) ** 2 / (2 * ((230 / 350) ** 2 + (70 / 160) ** 2)),
    "rounds": 4,
    "spanning_gangs": 1,
    "plan_seconds_mean": 0.4,  # the decision that took no time was not asked for
    "plan_seconds_p95": 0.4 + 0.9 * 0.2,
    "plan_seconds_max": 0.6,
    "plan_gap_max": 0.03,
    "finished_jobs": 2,
    "failed_jobs": 1,
    "cancelled_jobs": 0,
    "unfinished_jobs": 0,
}


def test_every_metric_is_computed_by_hand() -> None:
    assert set(BY_HAND) == set(METRICS)


@pytest.mark.parametrize("name", METRICS)
def test_metric(name: str) -> None:
    assert METRICS[name].compute(fold_history(hand_made())) == pytest.approx(BY_HAND[name])


def test_use_is_measured_against_what_was_there() -> None:
    events = hand_made()
    occupied = [*events[:1], NodeOccupied(100.0, "n1", 2), NodeOccupied(200.0, "n1", 0)]
    history = fold_history([*occupied, *events[1:]])
    there_were = 4 * 350 - 2 * 100
    assert METRICS["utilization"].compute(history) == pytest.approx((2 * 230 + 110) / there_were)
    assert METRICS["occupancy"].compute(history) == pytest.approx((2 * 250 + 130) / there_were)


def test_fairness_metrics_where_jobs_contend() -> None:
    summary = summarize(fold_history(one_gpu()))
    assert summary["worst_ftf_static"] == pytest.approx(350 / 300)
    assert summary["unfair_static"] == pytest.approx(1 / 3)
    assert summary["worst_ftf_themis"] == pytest.approx(2.1)
    assert summary["worst_ftf_egalitarian"] == pytest.approx(350 / 275)
    assert summary["makespan_lower_bound_seconds"] == pytest.approx(350.0)
    assert summary["plan_seconds_mean"] is None


def test_short_leases_lose_no_more_than_they_last() -> None:
    history = toy_history(toy_workload(5), "first-come")
    bound = float((history.leases.gpus * history.leases.seconds).sum())
    assert 0 < history.restart_lost_gpu_seconds <= bound


def test_a_run_in_which_nothing_finished_has_no_figures_but_counts() -> None:
    summary = summarize(fold_history([run_started(), submitted("A")]))
    for name in ("makespan_seconds", "mean_jct_seconds", "worst_ftf_themis", "unfair_static",
                 "utilization", "jain_index", "makespan_lower_bound_seconds"):  # fmt: skip
        assert summary[name] is None
    assert (summary["jobs"], summary["unfinished_jobs"], summary["restarts"]) == (1, 1, 0)


def test_a_run_without_jobs_can_be_summarized() -> None:
    assert summarize(fold_history([run_started()]))["jobs"] == 0


def test_the_record_begins_with_the_keys_that_others_rely_on() -> None:
    summary = summarize(fold_history(hand_made()), wall_seconds=1.5)
    assert tuple(summary)[: len(RECORD_KEYS)] == RECORD_KEYS
    assert (summary["policy"], summary["trace"], summary["gpus"]) == ("toy", "hand-made", 4)
    assert summary["wall_seconds"] == 1.5
    assert summary["restarts_by_reason"] == {"preempted": 1}
    renamed = summarize(fold_history(hand_made()), policy="x", trace="y")
    assert (renamed["policy"], renamed["trace"], renamed["wall_seconds"]) == ("x", "y", None)


def test_with_a_window_only_its_jobs_count_in_the_company_of_all_others() -> None:
    history = toy_history(toy_workload(), "round-robin")
    window = Window(0.3, 0.7)
    counted = window.counts(history.jobs.arrival)
    assert 0 < counted.sum() < len(counted)
    summary = summarize(history, window=window)
    assert (summary["window"], summary["counted_jobs"]) == ([0.3, 0.7], counted.sum())
    assert (summary["jobs"], summary["finished_jobs"]) == (len(counted), counted.sum())
    assert summary["makespan_seconds"] is None
    assert summary["makespan_lower_bound_seconds"] is None
    assert summary["mean_jct_seconds"] == pytest.approx(history.jobs.jct[counted].mean())
    assert summary["restarts"] == history.jobs.restarts[counted].sum()
    # A job's fairness is what it is among all jobs, not among those that count.
    for name in FAIRNESS:
        rho = finish_time_fairness(history, name)[counted]
        assert summary[f"worst_ftf_{name}"] == pytest.approx(rho.max())
        assert summary[f"unfair_{name}"] == pytest.approx((rho > 1.05).mean())


def test_losses_of_a_part_of_the_jobs_and_of_the_others_are_those_of_all() -> None:
    history = toy_history(toy_workload(), "round-robin")
    counted = Window(0.3, 0.7).counts(history.jobs.arrival)
    lost = METRICS["restart_lost_gpu_seconds"]
    parts = [lost.compute(history, mask) or 0.0 for mask in (counted, ~counted)]
    assert min(parts) > 0
    assert sum(parts) == pytest.approx(lost.compute(history))


def test_without_a_window_all_jobs_count() -> None:
    summary = summarize(fold_history(hand_made()))
    assert (summary["window"], summary["counted_jobs"]) == (None, 3)
    record = aggregate([summarize(toy_history(toy_workload(), "first-come"), window=Window(0, 1))])
    assert record["window"] == [0, 1]


def test_the_record_is_json_and_always_the_same() -> None:
    first, second = (
        json.dumps(summarize(toy_history(toy_workload(), "round-robin")), allow_nan=False)
        for _ in range(2)
    )
    assert first == second


def test_seeds_become_a_mean_and_a_confidence_interval() -> None:
    runs = [summarize(fold_history(hand_made())) for _ in range(3)]
    for run, makespan in zip(runs, (300.0, 330.0, 360.0), strict=True):
        run["makespan_seconds"] = makespan
    record = aggregate(runs)
    assert record["runs"] == 3
    # Standard deviation 30, t = 4.3027 with two degrees of freedom.
    assert record["makespan_seconds"]["mean"] == pytest.approx(330.0)
    assert record["makespan_seconds"]["ci95"] == pytest.approx(4.3027 * 30 / math.sqrt(3))
    assert record["restarts"] == {"mean": 1.0, "ci95": 0.0, "n": 3}
    assert record["wall_seconds"] is None
    assert "seed" not in record


def test_figures_that_some_runs_lack_are_aggregated_over_the_others() -> None:
    runs = [summarize(fold_history(hand_made()), wall_seconds=w) for w in (None, 2.0)]
    assert aggregate(runs)["wall_seconds"] == {"mean": 2.0, "ci95": None, "n": 1}


def test_only_runs_of_one_policy_can_be_aggregated() -> None:
    runs = [summarize(fold_history(hand_made()), policy=name) for name in ("a", "b")]
    with pytest.raises(InputError, match="one policy"):
        aggregate(runs)
    with pytest.raises(InputError, match="one policy"):
        aggregate([])


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.7062), (30, 2.0423), (31, 2.0395), (60, 2.0003), (1000, 1.9623)],
)
def test_student_t(degrees: int, quantile: float) -> None:
    assert student_t_975(degrees) == pytest.approx(quantile, abs=2e-4)
