"""The rule of every baseline on a few jobs, by hand or against brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.runs import Run, make_job
from tests.policies.views import chosen, decide, make_view

from shockwave.model.cluster import Cluster
from shockwave.model.view import View
from shockwave.plan.sharing import water_level
from shockwave.policies.allox import Allox
from shockwave.policies.base import Policy
from shockwave.policies.fifo import Fifo
from shockwave.policies.gandiva_fair import GandivaFair
from shockwave.policies.gavel import Gavel
from shockwave.policies.las import Las
from shockwave.policies.mst import Mst
from shockwave.policies.ossp import Ossp
from shockwave.policies.srtf import Srtf
from shockwave.policies.themis import Themis, fairest_shares
from shockwave.policies.tiresias import Tiresias
from shockwave.predict.base import Forecast
from shockwave.predict.reactive import Reactive


def shares(policy: Policy, view: View) -> list[float]:
    """The shares behind a decision: priority x received / elapsed, as ``run_by_share`` has it."""
    priority = decide(policy, view).priority
    assert priority is not None
    received = view.received_seconds + view.round_seconds / 2
    elapsed = view.elapsed + view.round_seconds
    return [float(x) for x in priority * received / elapsed]


def test_fifo_goes_by_arrival_and_backfills() -> None:
    view = make_view([2, 4, 1, 1], now=100.0, arrival=[30.0, 10.0, 40.0, 20.0])
    assert chosen(Fifo(), view) == [1]
    smaller = make_view([2, 3, 1, 1], now=100.0, arrival=[30.0, 10.0, 40.0, 20.0])
    assert chosen(Fifo(), smaller) == [1, 3]


def test_srtf_goes_by_remaining_time_whatever_the_gang() -> None:
    view = make_view(
        [1, 3, 2, 1], seconds=[60.0, 10.0, 90.0, 50.0], epochs=10.0, epochs_done=[5.0, 0.0, 9.0, 0]
    )  # 300, 100, 90, 500 s
    assert chosen(Srtf(), view) == [2, 0, 3]
    assert chosen(Srtf(), make_view([1, 1], gpus_total=1, seconds=[60.0, 59.0])) == [1]


def test_las_counts_gpu_seconds() -> None:
    view = make_view([1, 4, 2], received_seconds=[500.0, 120.0, 249.0], gpus_total=4)
    assert chosen(Las(), view) == [1]  # 500, 480 and 498 GPU-seconds
    assert chosen(Las(), make_view([1, 3, 2], received_seconds=[500, 170, 249])) == [2, 0]


def test_tiresias_demotes_and_keeps_order_within_a_queue() -> None:
    view = make_view(
        [2, 2, 2, 2],
        now=9000.0,
        arrival=[0.0, 10.0, 20.0, 30.0],
        received_seconds=[1800.0, 1799.0, 0.0, 5000.0],  # 3600, 3598, 0 and 10000 GPU-seconds
    )
    assert chosen(Tiresias(), view) == [1, 2]
    assert chosen(Tiresias(threshold_gpu_seconds=3599.0), view) == [1, 2]
    assert chosen(Tiresias(threshold_gpu_seconds=3598.0), view) == [2, 0]
    assert chosen(Tiresias(threshold_gpu_seconds=1e9), view) == [0, 1]


def test_allox_lets_running_jobs_finish_then_matches_the_shortest() -> None:
    view = make_view(
        [1, 1, 1, 1],
        gpus_total=2,
        now=500.0,
        arrival=[0.0, 100.0, 200.0, 300.0],
        seconds=[90.0, 80.0, 70.0, 60.0],
        running=[True, False, False, False],
    )
    assert chosen(Allox(alpha=1.0), view) == [0, 3]  # the shortest of all that wait
    assert chosen(Allox(alpha=0.5), view) == [0, 2]  # of the two that wait longest
    assert chosen(Allox(), view) == [0, 1]  # of the one that waits longest


def test_allox_backfills_in_order_of_arrival() -> None:
    view = make_view([4, 1, 1], gpus_total=3, arrival=[0.0, 2.0, 1.0], now=10.0)
    assert chosen(Allox(), view) == [2, 1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1.0, 1000.0), min_size=1, max_size=5), st.integers(1, 3))
def test_allox_matching_minimises_the_mean_completion_time(
    remaining: list[float], gpus: int
) -> None:
    """On identical GPUs list scheduling by the order chosen is as good as any order."""

    def total(order: list[int]) -> float:
        free, done = [0.0] * gpus, 0.0
        for job in order:
            gpu = free.index(min(free))
            free[gpu] += remaining[job]
            done += free[gpu]
        return done

    view = make_view([1] * len(remaining), gpus_total=gpus, seconds=[x / 10 for x in remaining])
    priority = decide(Allox(alpha=1.0), view).priority
    assert priority is not None
    order = np.argsort(-priority, kind="stable").tolist()
    best = min(total(list(other)) for other in itertools.permutations(range(len(remaining))))
    assert total(order) == pytest.approx(best)


def test_gavel_shares_gpu_time_equally_up_to_what_a_gang_can_use() -> None:
    # 6 GPUs: the single-GPU job is full at 1, the others get 2.5 GPUs each.
    view = make_view([1, 4, 4], gpus_total=6)
    assert shares(Gavel(), view) == pytest.approx([1.0, 2.5 / 4, 2.5 / 4])


def test_gavel_follows_weights() -> None:
    view = make_view([4, 4], gpus_total=3, weight=[1.0, 2.0])
    assert shares(Gavel(), view) == pytest.approx([1 / 4, 2 / 4])
    assert shares(Gavel(), make_view([1, 1], gpus_total=4, weight=[1.0, 9.0])) == [1.0, 1.0]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 8), st.floats(0.1, 10.0)), min_size=1, max_size=4),
    st.integers(1, 16),
)
def test_gavel_is_max_min_fair(jobs: list[tuple[int, float]], total: int) -> None:
    """No job's GPU time can grow but at the cost of one that has no more per weight."""
    gpus = np.array([g for g, _ in jobs], dtype=np.float64)
    weights = np.array([w for _, w in jobs])
    level = water_level(gpus, weights, total)
    time = np.minimum(gpus, weights * level)
    assert time.sum() <= total + 1e-9
    if time.sum() < total - 1e-9:
        np.testing.assert_allclose(time, gpus)
    below_cap = time < gpus - 1e-9
    for job in np.flatnonzero(below_cap):
        assert np.all(time[job] / weights[job] >= time / weights - 1e-9)


def test_ossp_ends_everybody_together() -> None:
    # 600, 300 and 300 s on 1, 2 and 1 GPUs: work 600 + 600 + 300 = 1500 on 2 GPUs.
    view = make_view([1, 2, 1], gpus_total=2, seconds=[60.0, 30.0, 30.0])
    assert shares(Ossp(), view) == pytest.approx([600 / 750, 300 / 750, 300 / 750])
    # The longest job decides when there are GPUs enough.
    roomy = make_view([1, 2, 1], gpus_total=8, seconds=[60.0, 30.0, 30.0])
    assert shares(Ossp(), roomy) == pytest.approx([1.0, 0.5, 0.5])


def test_mst_fills_a_knapsack_by_epochs_per_second_and_gpu() -> None:
    # Per GPU: 1/60, 1/40 (20 s on 2 GPUs), 1/80 (20 s on 4), 1/30.
    view = make_view([1, 2, 4, 1], gpus_total=5, seconds=[60.0, 20.0, 20.0, 30.0])
    assert shares(Mst(), view) == pytest.approx([1.0, 1.0, 1 / 4, 1.0])
    assert shares(Mst(), make_view([2, 2], gpus_total=2, seconds=[9.0, 8.0])) == [0.0, 1.0]


job_states = st.tuples(
    st.integers(1, 6),  # GPUs
    st.floats(1.0, 5000.0),  # remaining seconds
    st.floats(0.0, 9000.0),  # elapsed
    st.floats(0.0, 5000.0),  # fair seconds so far
)


def themis_view(jobs: list[tuple[int, float, float, float]], total: int) -> View:
    now = 10_000.0
    return make_view(
        [g for g, _, _, _ in jobs],
        gpus_total=total,
        now=now,
        seconds=[r / 10 for _, r, _, _ in jobs],
        arrival=[now - e for _, _, e, _ in jobs],
        fair_seconds=[f for _, _, _, f in jobs],
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(job_states, min_size=1, max_size=5), st.integers(1, 8))
def test_themis_minimises_the_largest_projected_unfairness(
    jobs: list[tuple[int, float, float, float]], total: int
) -> None:
    view = themis_view(jobs, total)
    remaining = Reactive().forecast(view).remaining_seconds
    fair_share = np.minimum(1.0, total / (len(jobs) * view.gpus))
    fair = view.fair_seconds + remaining / fair_share
    x = fairest_shares(remaining, fair, view)
    assert np.all(x > 0)
    assert np.all(x <= 1)
    assert (view.gpus * x).sum() <= total * (1 + 1e-6)
    rho = float(((view.elapsed + remaining / x) / fair).max())

    # At anything noticeably smaller the shares that everybody needs do not fit.
    smaller = rho * 0.999
    time_left = smaller * fair - view.elapsed
    impossible = bool(
        np.any(time_left < remaining * (1 - 1e-12))
    )  # even a share of 1 is too little
    needed = np.where(time_left > 0, remaining / np.maximum(time_left, 1e-12), np.inf)
    assert impossible or (view.gpus * needed).sum() > total
    assert shares(Themis(), view) == pytest.approx(x.tolist())


def test_themis_against_a_fine_grid() -> None:
    # Two single-GPU jobs on one GPU: one waited long, the other has just come.
    view = themis_view([(1, 600.0, 1200.0, 0.0), (1, 600.0, 0.0, 0.0)], total=1)
    x = shares(Themis(), view)
    grid = np.linspace(1e-4, 1 - 1e-4, 9999)
    worst = np.maximum((1200 + 600 / grid) / 1200, (600 / (1 - grid)) / 1200)
    best = int(worst.argmin())
    assert x[0] == pytest.approx(grid[best], abs=2e-4)
    assert x[0] + x[1] == pytest.approx(1.0)
    assert chosen(Themis(), view) == [0]


def test_themis_copes_with_jobs_that_have_nothing_left() -> None:
    view = make_view([3, 3, 3], epochs_done=[10.0, 10.0, 0.0], now=600.0)
    assert len(chosen(Themis(), view)) == 1
    assert sum(g * x for g, x in zip([3, 3, 3], shares(Themis(), view), strict=True)) <= 4 + 1e-6


def test_gandiva_fair_gives_time_by_weight() -> None:
    """Tickets 1 : 2 get time 1 : 2, whatever the size of the gang."""
    jobs = [
        make_job("light", (32, 10_000, 60.0), gpus=1, weight=1.0),
        make_job("heavy", (32, 10_000, 60.0), gpus=2, weight=2.0),
    ]
    run = Run(jobs, cluster=Cluster.uniform(2), policy=GandivaFair())
    run.go(until=lambda: run.loop.round >= 300)
    light, heavy = run.loop.state.table.received_seconds[:2]
    assert light + heavy == pytest.approx(299 * 100.0)
    assert heavy / light == pytest.approx(2.0, rel=0.02)


def test_gandiva_fair_lets_newcomers_neither_catch_up_nor_queue() -> None:
    policy = GandivaFair()
    decide(policy, make_view([1, 1], gpus_total=1))
    used: dict[str, Any] = {"received_seconds": [600.0, 720.0, 0.0], "arrival": [0.0, 0.0, 1320.0]}
    view = make_view([1, 1, 1], gpus_total=3, now=1320.0, **used)
    first = decide(policy, view).priority
    assert first is not None
    assert first.tolist() == [-600.0, -720.0, -600.0]  # level with the one served least
    used["received_seconds"] = [600.0, 720.0, 120.0]
    again = decide(policy, make_view([1, 1, 1], gpus_total=3, now=1440.0, **used)).priority
    assert again is not None
    assert again.tolist() == [-600.0, -720.0, -720.0]


class Silent(Forecast):
    """A forecast that may not be asked."""

    @property
    def remaining_seconds(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        raise AssertionError("asked for the future")

    def quantile(self, q: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        raise AssertionError("asked for the future")

    def sample(self, count: int, rng: np.random.Generator) -> None:  # type: ignore[override]
        raise AssertionError("asked for the future")


@pytest.mark.parametrize("policy", [Fifo(), Las(), Tiresias(), Gavel(), GandivaFair()])
def test_policies_that_need_no_forecast_ask_for_none(policy: Policy) -> None:
    assert len(policy.decide(make_view([1, 2, 3]), Silent()).run) > 0
