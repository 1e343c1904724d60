"""When wide gangs may claim the cluster, and how long they keep it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.policies.views import make_view

from shockwave.plan.outlook import Outlook, OutlookSettings
from shockwave.plan.reservation import ReservationRules, reserve
from shockwave.predict.reactive import Reactive

RULES = ReservationRules()
HOUR = 3600.0
USUAL = HOUR  # how long jobs take


def test_only_gangs_of_more_than_half_the_cluster_are_wide() -> None:
    view = make_view([1, 4, 5, 8], gpus_total=8, now=HOUR)
    reserved = reserve(view, np.full(4, HOUR), np.full(4, 5 * HOUR), USUAL, RULES)
    assert reserved.wide.tolist() == [False, False, True, True]
    assert np.isinf(reserved.start[:2]).all()
    assert np.isfinite(reserved.start[2:]).all()


def test_the_start_comes_closer_as_time_passes_and_is_due_in_the_end() -> None:
    fair_jct, remaining = np.array([10 * HOUR]), np.array([HOUR])

    def start(now: float) -> float:
        view = make_view([8], gpus_total=8, now=now)
        return float(reserve(view, remaining, fair_jct, USUAL, RULES).start[0])

    starts = [start(at) for at in (0.0, 4 * HOUR, 12 * HOUR, 20 * HOUR)]
    assert starts[0] == pytest.approx(RULES.wait_limit * 9 * HOUR)
    assert starts[0] > starts[1] > starts[2] > starts[3] == 0.0


def test_nobody_waits_for_a_gang_longer_than_it_has_waited() -> None:
    """However small its fair wait, it has to let others pass first."""
    view = make_view([8], gpus_total=8, now=HOUR)
    reserved = reserve(view, np.array([2 * HOUR]), np.array([2 * HOUR]), USUAL, RULES)
    assert reserved.start[0] >= 2 * HOUR / RULES.kept_share - HOUR
    assert not reserved.may_start[0]


def test_once_it_runs_it_is_left_alone_for_as_long_as_it_has_earned() -> None:
    def kept(received: float, remaining: float) -> bool:
        view = make_view(
            [8], gpus_total=8, now=6 * HOUR + received, running=True, received_seconds=received,
            productive_seconds=received,
        )  # fmt: skip
        reserved = reserve(view, np.array([remaining]), np.array([9 * HOUR]), USUAL, RULES)
        return bool(reserved.start[0] == 0.0)

    assert kept(0.5 * HOUR, HOUR)
    assert kept(1.9 * HOUR, 0.1 * HOUR)
    assert not kept(2.5 * HOUR, 0.1 * HOUR)
    assert not kept(0.5 * HOUR, 8 * HOUR), "it is stopped later anyway"


def test_the_longer_beyond_the_usual_the_longer_it_lets_others_pass() -> None:
    view = make_view([8], gpus_total=8, now=0.0)

    def start(hours: float, usual: float) -> float:
        reserved = reserve(view, np.array([hours * HOUR]), np.array([HOUR]), usual, RULES)
        return float(reserved.start[0])

    assert start(1.0, HOUR) == start(1.0, 4 * HOUR), "a third of its wait is the limit"
    assert start(8.0, HOUR) > 2.5 * start(8.0, 4 * HOUR)


def test_a_wide_gang_has_its_promised_start_instead_of_a_deadline_by_the_number_of_jobs() -> None:
    view = make_view([1] * 15 + [8], gpus_total=8, now=HOUR)
    futures = Outlook(OutlookSettings(), RULES).futures(view, Reactive().forecast(view), 2)
    narrow, wide = futures.fair_stretch[[0, 15]]
    assert narrow <= 16 / 8
    assert wide > 16 / 8
    assert np.isfinite(futures.reserved[15])


def test_it_waits_where_the_others_do_not_keep_up() -> None:
    """Each of the others has an hour to go: 16 of them are two hours for 8 GPUs, 24 are three."""

    def start(others: int) -> float:
        view = make_view([1] * others + [8], gpus_total=8, now=10 * HOUR)
        hours = np.full(others + 1, HOUR)
        return float(reserve(view, hours, 5 * hours, USUAL, RULES).start[-1])

    assert start(16) == 0.0
    assert start(24) == pytest.approx(HOUR), "until two hours are left"


def test_whoever_comes_while_a_gang_runs_does_not_take_back_what_it_was_promised() -> None:
    def kept(came: float) -> bool:
        view = make_view(
            [8] + [1] * 40, gpus_total=8, now=10 * HOUR, running=[True] + [False] * 40,
            received_seconds=[HOUR] + [0.0] * 40, productive_seconds=[HOUR] + [0.0] * 40,
            arrival=[0.0] + [came] * 40,
        )  # fmt: skip
        hours = np.full(41, HOUR)
        return bool(reserve(view, hours, 9 * hours, USUAL, RULES).start[0] == 0.0)

    assert kept(9.5 * HOUR)
    assert not kept(8.5 * HOUR)


def test_people_are_told_of_a_later_start_beside_a_stream_that_goes_on() -> None:
    """Every 86 s a job of ten minutes for one of 8 GPUs: seven of them are busy for good."""
    outlook = Outlook(OutlookSettings(), RULES)
    gang_came = 6000.0
    for now in np.arange(86.0, 6100.0, 86.0).tolist():
        small = [(row, 86.0 * row) for row in range(72) if now - 600.0 < 86.0 * row <= now]
        there = [(72, gang_came)] if now >= gang_came else []
        handles, arrivals = zip(*small, *there, strict=True)
        view = make_view(
            [1] * len(small) + [8] * len(there), gpus_total=8, now=now, handle=handles,
            arrival=arrivals, running=[True] * len(small) + [False] * len(there),
        )  # fmt: skip
        forecast = Reactive().forecast(view)
        futures = outlook.futures(view, forecast, 2)
    told = outlook.varied(view, forecast, futures, 4)
    gang = len(view) - 1
    assert 0.0 < futures.reserved[gang] < told.reserved[gang] < np.inf
