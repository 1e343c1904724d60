"""The workload of a busy period, and the end that no schedule can beat."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policies.views import make_view

from shockwave.plan.targets import Workload
from shockwave.traces.bounds import makespan_lower_bound


def seen(workload: Workload) -> list[tuple[int, float]]:
    """(handle, latest X) of every job in the period."""
    return list(zip(workload.handle.tolist(), workload.total_seconds.tolist(), strict=True))


def test_jobs_stay_when_they_finish_and_predictions_follow() -> None:
    workload = Workload()
    workload.update(make_view([1, 2]), np.array([100.0, 200.0]))
    workload.update(make_view([2, 1], handle=[1, 2], arrival=[0.0, 60.0]), np.array([250.0, 50.0]))
    assert seen(workload) == [(0, 100.0), (1, 250.0), (2, 50.0)]
    assert workload.arrival.tolist() == [0.0, 0.0, 60.0]
    assert workload.gpus.tolist() == [1, 2, 1]


def test_an_idle_cluster_starts_a_new_period() -> None:
    workload = Workload()
    workload.update(make_view([1, 1]), np.array([100.0, 200.0]))
    workload.update(make_view([4], handle=[2], arrival=900.0, now=960.0), np.array([30.0]))
    assert seen(workload) == [(2, 30.0)]
    assert workload.makespan_bound(gpus_total=4) == pytest.approx(930.0)


def test_a_job_that_backed_off_while_a_new_period_began_comes_back() -> None:
    """It is not in views meanwhile, and its handle is smaller than those that are."""
    workload = Workload()
    workload.update(make_view([1]), np.array([100.0]))
    workload.update(make_view([2], handle=[1], arrival=300.0), np.array([70.0]))
    workload.update(make_view([1, 2], handle=[0, 1], arrival=[0.0, 300.0]), np.array([90.0, 80.0]))
    assert seen(workload) == [(0, 90.0), (1, 80.0)]
    assert workload.arrival.tolist() == [0.0, 300.0]
    assert workload.gpus.tolist() == [1, 2]


def test_the_bound_by_hand() -> None:
    """Three jobs of 100 s on two GPUs: 150 s of work, and 10 s later if one is 160 s long."""
    workload = Workload()
    workload.update(make_view([1, 1, 1]), np.array([100.0, 100.0, 100.0]))
    assert workload.makespan_bound(gpus_total=2) == pytest.approx(150.0)
    workload.update(make_view([1, 1, 1]), np.array([100.0, 40.0, 160.0]))
    assert workload.makespan_bound(gpus_total=2) == pytest.approx(160.0)


@given(
    st.lists(
        st.tuples(st.integers(0, 900), st.integers(1, 500), st.integers(1, 4)),
        min_size=1,
        max_size=8,
    ).map(sorted)
)
def test_the_bound_is_that_of_the_whole_trace_once_all_have_arrived(
    jobs: list[tuple[int, int, int]],
) -> None:
    """However the jobs came in, as long as one of the earlier ones was still there."""
    arrival, work, gangs = (np.array(column, dtype=float) for column in zip(*jobs, strict=True))
    workload = Workload()
    for count in range(1, len(jobs) + 1):
        view = make_view(gangs[:count].astype(int).tolist(), arrival=arrival[:count])
        workload.update(view, work[:count])
    expected = makespan_lower_bound(arrival, work, gangs.astype(np.int64), 4)
    assert workload.makespan_bound(gpus_total=4) == pytest.approx(expected)


def test_a_cluster_that_never_runs_empty_forgets_its_oldest_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shockwave.plan.targets._REMEMBERED", 10)
    workload = Workload()
    for first in range(40):  # two at a time, one of which stays for the next round
        view = make_view([1, 1], handle=[first, first + 1], arrival=[60.0 * first, 60.0 * first])
        workload.update(view, np.array([50.0, 50.0]))
    assert workload.jobs == 41
    assert len(workload.handle) <= 10 + 2 + 1
    assert workload.handle[-2:].tolist() == [39, 40], "who is there is never forgotten"
