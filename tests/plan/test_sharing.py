"""The fair cluster that runs alongside: it must agree with the fluid computed at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies.views import make_view

from shockwave.model.view import Floats
from shockwave.plan.fluid import fluid_finish_seconds
from shockwave.plan.sharing import FairCluster, water_level

ROUND = 120.0

# (arrival, exclusive seconds, gang, weight)
Row = tuple[float, float, int, float]
some_jobs = st.lists(
    st.tuples(
        st.integers(0, 1500).map(float),
        st.integers(1, 2000).map(float),
        st.sampled_from([1, 2, 3, 8]),
        st.sampled_from([0.5, 1.0, 3.0]),
    ),
    min_size=1,
    max_size=10,
).map(sorted)


def at(jobs: list[Row], cluster: FairCluster, now: float, gpus: int, leave_out: int = -1) -> Floats:
    """What the cluster answers at ``now`` for all jobs that have arrived; nan for the others."""
    there = [row for row, job in enumerate(jobs) if job[0] <= now and row != leave_out]
    answer = np.full(len(jobs), np.nan)
    if there:
        arrival, work, gangs, weight = zip(*(jobs[row] for row in there), strict=True)
        view = make_view(
            gangs, gpus_total=gpus, now=now, handle=there, arrival=arrival, weight=weight
        )
        answer[there] = cluster.finish_times(view, np.array(work))
    return answer


def at_once(jobs: list[Row], gpus: int) -> Floats:
    arrival, work, gangs, weight = (np.array(column) for column in zip(*jobs, strict=True))
    return fluid_finish_seconds(arrival, work, gangs, gpus, weight)


@settings(max_examples=40, deadline=None)
@given(some_jobs, st.integers(1, 16))
def test_equals_the_fluid_where_predictions_never_change(jobs: list[Row], gpus: int) -> None:
    """From the last arrival on the answer is the fluid's, in whatever round it is asked."""
    cluster, expected = FairCluster(), at_once(jobs, gpus)
    for now in np.arange(0.0, 6000.0, ROUND).tolist():
        answer = at(jobs, cluster, now, gpus)
        if now >= jobs[-1][0]:
            assert answer == pytest.approx(expected, rel=1e-6, abs=1e-3)


@settings(max_examples=25, deadline=None)
@given(some_jobs, st.integers(1, 16), st.integers(0, 9), st.integers(0, 30), st.integers(1, 20))
def test_a_job_that_backs_off_is_remembered(
    jobs: list[Row], gpus: int, who: int, first: int, rounds: int
) -> None:
    """A view without the job (it crashed and waits) changes nothing once it is back."""
    cluster, expected = FairCluster(), at_once(jobs, gpus)
    for number in range(60):
        away = who if first <= number < first + rounds else -1
        at(jobs, cluster, number * ROUND, gpus, leave_out=away)
        late = who < len(jobs) and jobs[who][0] > (first - 1) * ROUND
        if away < 0 and number * ROUND >= jobs[-1][0] and not late:
            answer = at(jobs, cluster, number * ROUND, gpus)
            assert answer == pytest.approx(expected, rel=1e-6, abs=1e-3)


def test_two_jobs_share_one_gpu_by_weight() -> None:
    jobs = [(0.0, 60.0, 1, 2.0), (0.0, 60.0, 1, 1.0)]
    assert at(jobs, FairCluster(), 0.0, gpus=1).tolist() == pytest.approx([90.0, 120.0])


def test_a_corrected_prediction_moves_the_finish() -> None:
    """At 120 s both have had 60 s; the second then turns out to need 100 s instead of 600 s."""
    cluster = FairCluster()
    before = cluster.finish_times(make_view([1, 1], gpus_total=1), np.array([600.0, 600.0]))
    assert before.tolist() == pytest.approx([1200.0, 1200.0])
    view = make_view([1, 1], gpus_total=1, now=120.0)
    after = cluster.finish_times(view, np.array([600.0, 100.0]))
    assert after.tolist() == pytest.approx([700.0, 200.0])


def test_whoever_finished_here_stays_finished() -> None:
    cluster = FairCluster()
    cluster.finish_times(make_view([1, 1], gpus_total=1), np.array([10.0, 600.0]))
    for now, predicted in ((120.0, 10.0), (240.0, 900.0), (360.0, 5.0)):
        view = make_view([1, 1], gpus_total=1, now=now)
        answer = cluster.finish_times(view, np.array([predicted, 600.0]))
        assert answer[0] == pytest.approx(20.0)


def test_jobs_that_really_finished_still_take_their_fair_share() -> None:
    cluster = FairCluster()
    cluster.finish_times(make_view([1, 1], gpus_total=1), np.array([300.0, 300.0]))
    alone = make_view([1], gpus_total=1, now=120.0, handle=[1])
    assert cluster.finish_times(alone, np.array([300.0])).tolist() == pytest.approx([600.0])


def test_a_cluster_that_starts_late_takes_jobs_from_their_arrival() -> None:
    """After a recovery the policy is new, the jobs are not, and one that backed off is later."""
    cluster = FairCluster()
    late = make_view([1], gpus_total=1, now=240.0, handle=[5], arrival=120.0)
    assert cluster.finish_times(late, np.array([100.0])).tolist() == pytest.approx([220.0])
    both = make_view([1, 1], gpus_total=1, now=360.0, handle=[3, 5], arrival=[60.0, 120.0])
    answer = cluster.finish_times(both, np.array([100.0, 100.0]))
    assert answer.tolist() == pytest.approx([340.0, 220.0])


@given(
    st.lists(
        st.tuples(st.integers(1, 16), st.sampled_from([0.5, 1.0, 3.0])), min_size=1, max_size=12
    ),
    st.integers(1, 40),
)
def test_the_water_level_uses_the_capacity_exactly(
    jobs: list[tuple[int, float]], capacity: int
) -> None:
    caps, weights = (np.array(column, dtype=float) for column in zip(*jobs, strict=True))
    level = water_level(caps, weights, capacity)
    assert np.minimum(caps, weights * level).sum() == pytest.approx(min(caps.sum(), capacity))


@settings(max_examples=40, deadline=None)
@given(some_jobs, some_jobs, st.integers(1, 16), st.integers(1, 3))
def test_those_who_come_delay_as_in_the_fluid_of_all(
    jobs: list[Row], others: list[Row], gpus: int, copies: int
) -> None:
    here = [(0.0, work, gang, 1.0) for _, work, gang, _ in jobs]
    come = [(after, work, gang, 1.0) for after, work, gang, _ in others]
    handles = range(len(here))
    work, gangs = (np.array([job[column] for job in here]) for column in (1, 2))
    view = make_view(gangs.tolist(), gpus_total=gpus, now=0.0, handle=handles)
    cluster = FairCluster()
    alone = cluster.finish_times(view, work)
    after = np.array([[job[0] for job in come], [np.inf] * len(come)])
    longer, wide = (np.array([[float(job[n]) for job in come]] * 2) for n in (1, 2))
    delays = cluster.delays(view, after, longer, wide, np.full(after.shape, float(copies)))
    assert not delays[1].any()
    expected = at_once([*here, *come * copies], gpus)[: len(here)]
    assert alone + delays[0] == pytest.approx(expected, rel=1e-6, abs=1e-3)
