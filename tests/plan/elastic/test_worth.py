"""What an option is worth: shorter jobs more, longer ones later, late ones sooner."""

from __future__ import annotations

import numpy as np
import pytest

from shockwave.plan.elastic.worth import (
    Bidders,
    Shares,
    WorthSettings,
    pressure,
    price_at_end,
    worth,
)

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
        held=np.array(held),
        age=np.zeros(jobs) if age is None else np.array(age),
        left=np.ones(jobs),
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
    settings = WorthSettings(fair=0.0)
    worths = values(jobs, [0.0, 0.0], settings)[0]
    kept = 1.0 - 30.0 / (np.minimum(settings.hold_seconds, jobs.rest[0]) + 30.0)
    assert worths == pytest.approx(kept * 10.0 / SECONDS)


def test_changing_an_option_costs_what_a_restart_takes_of_the_rest() -> None:
    jobs = bidders([50.0, 1.0], [2, 2])
    worths = values(jobs, [0.0, 0.0], WorthSettings(fair=0.0))
    same_speed = 4  # two of the second type are as fast as four of the first
    assert worths[0, same_speed] < worths[0, 2]
    # Ten seconds before the end a restart of thirty is hardly worth anything.
    assert worths[1, same_speed] == pytest.approx(0.25 * worths[1, 2])


def test_prices_fall_until_a_long_job_ends_but_never_rise() -> None:
    rest = np.array([60.0, 600.0, 6_000.0, 60_000.0])
    fall = price_at_end(rest, 4.0, 600.0, WorthSettings())
    assert (np.diff(fall) < 0).all()
    assert fall.max() <= 1.0


def test_the_longer_a_job_waits_the_more_it_presses_and_no_more_than_so_much() -> None:
    settings = WorthSettings()
    waiting = bidders([10.0] * 4, [-1] * 4, age=[0.0, 200.0, 250.0, 10_000.0])
    kappa = pressure(waiting, np.full(4, 400.0), settings)
    assert kappa[0] == 0.0
    assert kappa[0] < kappa[1] < kappa[2] < kappa[3] == settings.fair * settings.most_boost


def test_what_a_job_may_not_take_is_worth_nothing() -> None:
    jobs = bidders([10.0], [-1])
    jobs.seconds[0, 3:] = np.inf
    jobs.rest[0, 3:] = np.inf
    worths = values(jobs, [0.5, 0.5], WorthSettings())[0]
    assert np.isneginf(worths[3:]).all()
    assert (worths[:3] > 0).all()
