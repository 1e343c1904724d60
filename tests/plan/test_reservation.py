"""When wide gangs may claim the cluster, and how long they keep it."""

from __future__ import annotations

import numpy as np
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
    assert starts[0] == RULES.wait_limit * 9 * HOUR
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
    view = make_view([1] * 31 + [8], gpus_total=8, now=HOUR)
    futures = Outlook(OutlookSettings(), RULES).futures(view, Reactive().forecast(view), 2)
    narrow, wide = futures.fair_stretch[[0, 31]]
    assert narrow <= 32 / 8
    assert wide > 32 / 8
    assert np.isfinite(futures.reserved[31])
