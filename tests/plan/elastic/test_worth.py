"""What an option is worth: shorter jobs more, longer ones later, late ones sooner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.plan.jobs import make_futures

from shockwave.plan.elastic.worth import (
    Bidders,
    Shares,
    WorthSettings,
    common_end,
    crowd_at_end,
    fair,
    pressure,
    price_at_end,
    worth,
)
from shockwave.plan.stance import STANCES, Index, IndexSettings

SHARES = Shares(
    type=np.array([0, 0, 0, 1, 1]), gpus=np.array([1, 2, 4, 1, 2]), capacity=np.array([12, 4])
)
SECONDS = np.array([40.0, 20.0, 10.0, 20.0, 10.0])


def bidders(epochs: list[float], held: list[int], age: list[float] | None = None) -> Bidders:
    """Jobs of one model with so many epochs to go."""
    jobs = len(epochs)
    seconds = np.tile(SECONDS, (jobs, 1))
    return Bidders(
        seconds=seconds,
        rest=seconds * np.array(epochs)[:, None],
        whole=seconds * np.array(epochs)[:, None],
        held=np.array(held),
        age=np.zeros(jobs) if age is None else np.array(age),
        restart=np.full(jobs, 30.0),
        weight=np.ones(jobs),
        mean_active=np.full(jobs, float(jobs)),
    )


def values(jobs: Bidders, prices: list[float], settings: WorthSettings) -> np.ndarray:
    return worth(jobs, SHARES, np.array(prices), float(len(jobs)), 3600.0, settings).values


def test_a_fair_share_averages_the_types_and_interpolates_the_gpus() -> None:
    rest = np.tile(SECONDS, (4, 1))
    times = SHARES.seconds(rest, np.array([1.0, 2.0, 1.5, 0.5]))
    # 12 of 16 GPUs are of the first type.
    assert times == pytest.approx([35.0, 17.5, 26.25, 70.0])


def test_a_rigid_job_shares_in_time_what_it_cannot_share_in_gpus() -> None:
    rest = np.full((1, 5), np.inf)
    rest[0, 2] = 100.0  # 4 GPUs of the first type, or nothing
    assert SHARES.seconds(rest, np.array([1.0])) == pytest.approx([400.0])
    assert SHARES.seconds(rest, np.array([8.0])) == pytest.approx([100.0])


def test_in_a_crowd_a_gpu_is_worth_more_to_a_short_job_than_to_a_long_one() -> None:
    jobs = bidders([20.0, 80.0, 320.0, 1280.0] * 8, [-1] * 32)
    worths = values(jobs, [2.0, 2.0], WorthSettings())[:4, 0]
    assert (np.diff(worths) < 0).all()


def test_without_prices_and_lateness_an_option_is_worth_its_speed_over_the_best() -> None:
    jobs = bidders([50.0], [-1])
    settings = WorthSettings(fair=0.0, end=0.0)
    worths = values(jobs, [0.0, 0.0], settings)[0]
    kept = 1.0 - 30.0 / (np.minimum(settings.hold_seconds, jobs.rest[0]) + 30.0)
    start = 1.0 + 30.0 / 500.0
    assert worths == pytest.approx(kept * start * 10.0 / SECONDS)


def test_changing_an_option_costs_what_a_restart_takes_of_the_rest() -> None:
    jobs = bidders([50.0, 1.0], [2, 2])
    worths = values(jobs, [0.0, 0.0], WorthSettings(fair=0.0, end=0.0))
    same_speed = 4  # two of the second type are as fast as four of the first
    assert worths[0, same_speed] < worths[0, 2]
    # Ten seconds before the end a restart of thirty is hardly worth anything.
    assert worths[1, same_speed] == pytest.approx(0.25 * worths[1, 2])


def test_a_gang_is_not_stopped_shortly_before_its_end() -> None:
    jobs = bidders([500.0, 0.5], [2, 2])
    worths = values(jobs, [0.0, 0.0], WorthSettings(fair=0.0, end=0.0))
    # Five seconds to go: whoever stops it has it start again for thirty.
    assert worths[1, 2] == pytest.approx(7.0)
    assert worths[0, 2] == pytest.approx(1.0, abs=0.01)


def test_who_waits_with_seconds_to_go_still_pays_for_all_that_it_takes_to_end() -> None:
    jobs = bidders([500.0, 0.5], [-1, -1])
    worths = values(jobs, [0.0, 0.0], WorthSettings(fair=0.0, end=0.0))
    assert worths[1, 2] == pytest.approx(1.0)  # a job is gone after the start and the rest


def test_prices_fall_until_a_long_job_ends_but_never_rise() -> None:
    rest = np.array([60.0, 600.0, 6_000.0, 60_000.0])
    fall = price_at_end(crowd_at_end(rest, 4.0, 600.0, WorthSettings()), WorthSettings())
    assert (np.diff(fall) < 0).all()
    assert fall.max() <= 1.0


def test_the_longer_a_job_waits_the_more_it_presses_and_no_more_than_so_much() -> None:
    settings = WorthSettings()
    waiting = bidders([40.0] * 4, [-1] * 4, age=[0.0, 40.0, 80.0, 10_000.0])
    owed = fair(waiting, SHARES, np.ones(4), settings)
    # A quarter of 16 GPUs: four of the first type, both of two of the second.
    assert owed.seconds == pytest.approx(np.full(4, 430.0))
    kappa = pressure(owed, settings)
    assert kappa[0] == pytest.approx(settings.fair * (1.0 - settings.easy_shares))  # no slack
    assert kappa[0] < kappa[1] < kappa[2] < kappa[3] == settings.fair * settings.most_shares


def test_who_will_see_the_crowd_leave_is_late_sooner() -> None:
    waiting = bidders([40.0] * 16, [-1] * 16, age=[40.0] * 16)
    at_end = np.array([1.0, 0.5, 0.1, 2.0] * 4)
    owed = fair(waiting, SHARES, at_end, WorthSettings())
    assert (np.diff(owed.seconds[:3]) < 0).all()
    assert (np.diff(owed.needed[:3]) > 0).all()
    assert owed.seconds[3] == pytest.approx(owed.seconds[0])  # crowds are not foretold to grow


def test_a_gang_that_is_wider_than_its_share_presses_for_all_of_it() -> None:
    settings = WorthSettings()
    jobs = bidders([40.0] * 16, [-1] * 16, age=[900.0] * 16)  # one GPU each
    jobs.seconds[0, [0, 1, 3, 4]] = jobs.rest[0, [0, 1, 3, 4]] = np.inf
    jobs.whole[0, [0, 1, 3, 4]] = np.inf
    owed = fair(jobs, SHARES, np.ones(len(jobs)), settings)
    assert owed.width[:2].tolist() == [4.0, 1.0]
    assert pressure(owed, settings)[0] > 2.5 * pressure(owed, settings)[1] > 0.0


def test_a_job_of_one_width_presses_before_it_is_late_as_it_cannot_catch_up() -> None:
    settings = WorthSettings()
    jobs = bidders([40.0, 40.0], [2, 2], age=[10.0, 10.0])
    for times in (jobs.seconds, jobs.rest, jobs.whole):
        times[0, [0, 1, 3, 4]] = np.inf  # four GPUs, as the other one takes, too
    few = Shares(SHARES.type, SHARES.gpus, np.array([8, 0]))
    owed = fair(jobs, few, np.ones(2), settings)
    assert owed.seconds[0] == pytest.approx(owed.seconds[1])  # neither is late
    assert pressure(owed, settings)[1] < 0.3 < pressure(owed, settings)[0]
    patient = fair(jobs, few, np.ones(2), replace(settings, rigid_early=1.0))
    assert pressure(patient, settings)[0] < 0.3


def test_who_gains_little_by_more_gpus_presses_sooner() -> None:
    settings = WorthSettings()
    late = bidders([20.0, 20.0], [-1, -1], age=[100.0, 100.0])
    late.rest[1] = late.whole[1] = 20.0 * 40.0 / SHARES.gpus**0.5
    narrow = Shares(SHARES.type, SHARES.gpus, np.array([2, 1]))
    assert (np.diff(fair(late, narrow, np.ones(len(late)), settings).needed) > 0).all()


def test_the_longest_jobs_press_for_the_common_end_and_short_ones_never() -> None:
    jobs = bidders([10.0] * 12 + [2000.0], [-1] * 13)
    end = common_end(jobs, SHARES, jobs.rest.min(axis=1), WorthSettings())
    assert (end[:12] == 0.0).all()
    assert end[12] > 0.0


def test_jobs_that_are_nearly_as_long_are_worth_nearly_the_same() -> None:
    """Else the last few would run one after the other, each on more GPUs than it makes use of."""
    jobs = bidders([1000.0, 1010.0, 1020.0], [-1] * 3)
    worths = values(jobs, [1.0, 1.0], WorthSettings())[:, 0]
    assert worths == pytest.approx(np.full(3, worths.mean()), rel=0.05)


def test_of_jobs_as_long_as_each_other_all_press_alike_for_the_common_end() -> None:
    jobs = bidders([300.0, 301.0, 302.0, 303.0], [-1] * 4)
    press = common_end(jobs, SHARES, SHARES.seconds(jobs.rest, np.full(4, 4.0)), WorthSettings())
    assert press.min() > 0.0
    assert press.max() < 1.05 * press.min()
    assert (np.diff(press) >= 0.0).all()


def test_a_crowd_that_is_gone_counts_for_as_long_as_it_was_there() -> None:
    """Two jobs waited for an hour among forty, and take another with the cluster for themselves."""
    jobs = bidders([360.0, 360.0], [2, 2], age=[3600.0, 3600.0])
    jobs = replace(jobs, mean_active=np.full(2, 40.0))
    owed = fair(jobs, SHARES, np.ones(2), WorthSettings())
    mean_crowd = (40.0 + 2.0) / 2.0
    alone = SHARES.seconds(jobs.whole, np.full(2, 16.0 / mean_crowd))
    assert owed.seconds == pytest.approx(alone + 30.0)


def test_with_one_option_each_jobs_of_one_width_are_in_the_order_of_the_index() -> None:
    """The order is the same, the values are not: here the price at a job's end takes its place."""
    seconds = [300.0, 600.0, 1200.0, 4800.0, 19_200.0]
    jobs = bidders([s / 10.0 for s in seconds], [2] * 5)
    one = np.arange(5) == 2
    jobs.seconds[:, ~one] = jobs.rest[:, ~one] = jobs.whole[:, ~one] = np.inf
    settings = WorthSettings(fair=0.0, end=0.0)
    prices = np.array([0.7, 0.2])
    market = worth(jobs, SHARES, prices, 5.0, 3600.0, settings).values[:, 2]
    alone = np.maximum(SHARES.seconds(jobs.rest, np.full(5, 3.2)), 60)
    fall = price_at_end(crowd_at_end(alone, 5.0, 3600.0, settings), settings)
    start = 1.0 + 30.0 / np.array(seconds)
    assert market / 4 == pytest.approx((1.0 / 4 + fall * 0.7) * start)
    futures = make_futures([seconds], gpus=[4.0] * 5, running=[True] * 5)
    index = Index(futures, STANCES[:1], IndexSettings())
    none = np.zeros((1, 1, 1), dtype=np.float32)
    bids = index.at(0.0, none, futures.running[None, None]).total[0, 0]
    assert np.argsort(-market).tolist() == np.argsort(-bids).tolist() == list(range(5))


def test_what_a_job_may_not_take_is_worth_nothing() -> None:
    jobs = bidders([10.0], [-1])
    jobs.seconds[0, 3:] = np.inf
    jobs.rest[0, 3:] = np.inf
    worths = values(jobs, [0.5, 0.5], WorthSettings())[0]
    assert np.isneginf(worths[3:]).all()
    assert (worths[:3] > 0).all()
