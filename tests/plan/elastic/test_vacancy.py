"""GPUs that have been idle for long are taken to stay so, and a restart into them pays sooner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shockwave.plan.elastic.vacancy import Vacancy
from shockwave.plan.elastic.worth import Bidders, Shares, WorthSettings, worth

SHARES = Shares(
    type=np.array([0, 0, 0, 1, 1]), gpus=np.array([4, 8, 16, 1, 2]), capacity=np.array([16, 2])
)


def test_more_gpus_have_been_idle_for_as_long_as_so_many_were_without_a_break() -> None:
    vacancy = Vacancy()
    vacancy.see(0.0, np.array([0, 3]), SHARES)  # 12 GPUs of the first type are idle, and 1
    vacancy.see(100.0, np.array([1, 3]), SHARES)  # 8 and 1
    lasted = vacancy.see(300.0, np.array([0, 3]), SHARES)  # 12 and 1 again
    # Holding 4, 8 are 4 more: idle since 0; 16 are 12 more: idle since the third look.
    assert lasted[0].tolist() == [0.0, 300.0, 0.0, 300.0, 0.0]
    # Of the other type all GPUs of an option are more; of its own type one more.
    assert lasted[1].tolist() == [300.0, 300.0, 0.0, 0.0, 300.0]


def test_what_takes_no_more_gpus_or_more_than_are_idle_has_not_been_idle() -> None:
    vacancy = Vacancy()
    held = np.array([1, -1])
    vacancy.see(0.0, held, SHARES)
    lasted = vacancy.see(50.0, held, SHARES)
    assert lasted[0].tolist() == [0.0, 0.0, 50.0, 50.0, 50.0]
    assert lasted[1].tolist() == [50.0, 50.0, 0.0, 50.0, 50.0]


def test_a_type_that_comes_later_is_idle_from_then_on() -> None:
    vacancy = Vacancy()
    first = Shares(SHARES.type[:3], SHARES.gpus[:3], SHARES.capacity[:1])
    vacancy.see(0.0, np.array([0]), first)
    vacancy.see(60.0, np.array([0]), SHARES)
    assert vacancy.see(90.0, np.array([0]), SHARES)[0].tolist() == [0.0, 90.0, 90.0, 30.0, 30.0]


def test_a_job_with_a_long_start_grows_into_what_has_long_been_idle() -> None:
    seconds = np.array([[40.0, 30.0, 29.0, np.inf, np.inf]])  # a third faster with 8
    job = Bidders(
        seconds=seconds,
        rest=seconds * 500.0,
        whole=seconds * 500.0,
        held=np.array([0]),
        age=np.zeros(1),
        restart=np.full(1, 250.0),
        weight=np.ones(1),
        mean_active=np.ones(1),
    )

    def best(lasted: float) -> int:
        vacant = np.array([[0.0, lasted, 0.0, 0.0, 0.0]])
        prices, settings = np.zeros(2), WorthSettings(fair=0.0, end=0.0)
        worths = worth(replace(job, vacant=vacant), SHARES, prices, 1.0, 3600.0, settings)
        return int(worths.values[0].argmax())

    assert best(0.0) == 0
    assert best(1200.0) == 1


def test_no_job_counts_on_longer_than_its_rest() -> None:
    seconds = np.array([[40.0, 30.0, 25.0, np.inf, np.inf]])
    job = Bidders(
        seconds=seconds, rest=seconds * 10.0, whole=seconds * 10.0, held=np.array([0]),
        age=np.zeros(1), restart=np.full(1, 250.0), weight=np.ones(1), mean_active=np.ones(1),
        vacant=np.full((1, 5), 1e6),
    )  # fmt: skip
    worths = worth(job, SHARES, np.zeros(2), 1.0, 3600.0, WorthSettings())
    assert worths.kept[0, 1] == pytest.approx(300.0 / 550.0)
