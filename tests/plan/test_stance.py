"""The index: steady, and each part there for what it is there for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.plan.jobs import make_futures

from shockwave.plan.futures import Futures
from shockwave.plan.newcomers import Newcomers
from shockwave.plan.stance import STANCES, Index, IndexSettings, Worth

ALL = STANCES[-1:]
NONE = STANCES[:1]
NOTHING = np.zeros((1, 1, 1), dtype=np.float32)


def worth(futures: Futures, stances: tuple = ALL) -> Worth:  # type: ignore[type-arg]
    return Index(futures, stances, IndexSettings()).at(0.0, NOTHING, futures.running[None, None])


def test_short_work_is_worth_more_and_wide_gangs_less() -> None:
    total = worth(make_futures([[600.0, 1200.0, 600.0]], gpus=[1.0, 1.0, 4.0]), NONE).total[0, 0]
    assert total[0] == pytest.approx(2 * total[1])
    assert total[0] == pytest.approx(2 * total[2])


def test_a_running_job_is_preferred_and_one_that_ends_in_the_round_most() -> None:
    jobs = [[600.0, 600.0, 60.0, 60.0]]
    total = worth(make_futures(jobs, running=[True, False, True, False]), NONE).total[0, 0]
    assert total[0] > total[1]
    assert total[2] > 2 * total[3]


@pytest.mark.parametrize("part", ["fairness", "end"])
def test_no_second_more_or_less_turns_the_order_round(part: str) -> None:
    """Along a fine grid of slack each part moves in small steps only."""
    slack = np.arange(-3600.0, 7200.0, 10.0)
    remaining = 3600.0
    if part == "fairness":
        futures = make_futures(
            [[remaining] * len(slack)], fair_stretch=3.0, elapsed=2.0 * remaining - slack
        )
        values = worth(futures).fairness[0, 0]
    else:
        values = np.array(
            [
                worth(make_futures([[remaining]], horizon=remaining + own)).end[0, 0, 0]
                for own in slack
            ]
        )
    assert values.max() > 1.0
    assert np.abs(np.diff(values)).max() < 0.1 * values.max()


def test_fairness_presses_while_it_can_be_met_and_lets_go_after() -> None:
    far, near, gone = (
        float(worth(make_futures([[3600.0]], fair_stretch=3.0, elapsed=at)).fairness[0, 0, 0])
        for at in (0.0, 7200.0, 20_000.0)
    )
    assert near > far
    assert near > gone


def test_the_common_end_does_not_let_go() -> None:
    near, late = (
        float(worth(make_futures([[3600.0]], horizon=horizon)).end[0, 0, 0])
        for horizon in (3700.0, 1000.0)
    )
    assert late > near > 0.0


def test_who_broke_their_word_has_no_claim_to_more_than_progress() -> None:
    parts = worth(make_futures([[3600.0]], fair_stretch=1.0, horizon=100.0, claim=0.0))
    assert parts.fairness[0, 0, 0] == parts.end[0, 0, 0] == 0.0
    assert parts.progress[0, 0, 0] > 0.0


def test_the_dearer_it_is_to_stop_a_job_the_more_is_needed_to_take_its_gpus() -> None:
    jobs = [[3600.0, 3600.0, 3600.0, 600.0]]
    futures = make_futures(jobs, running=[True, True, True, False], stop=[3.0, 120.0, 3900.0, 20.0])
    cheap, dear, lost, short = worth(futures, NONE).total[0, 0].tolist()
    assert cheap < short < dear < lost


def test_a_gang_that_stays_comes_before_a_reservation_and_before_short_jobs() -> None:
    futures = make_futures(
        [[7200.0, 3600.0, 60.0]], running=[True, False, False],
        stays=[True, False, False], reserved=[np.inf, 0.0, np.inf],
    )  # fmt: skip
    for stances in (ALL, NONE):
        assert worth(futures, stances).total[0, 0].argsort().tolist() == [2, 1, 0]


def test_a_reservation_that_is_due_goes_before_everything() -> None:
    jobs = [[60.0, 7200.0, 3600.0]]
    futures = make_futures(
        jobs, running=[True, False, False], reserved=[np.inf, 0.0, np.inf], horizon=100.0
    )
    assert worth(futures).total[0, 0].argmax() == 1


def test_who_starves_presses_again_the_more_the_later() -> None:
    """Whatever the stance: the short job goes before a long one that decides the common end."""
    at = [3600.0, 7200.0, 14_400.0]
    jobs = make_futures(
        [[600.0, 600.0, 600.0, 36_000.0]], elapsed=[*at, 0.0], fair_jct=[3600.0] * 3 + [1e6],
        running=[False] * 3 + [True], horizon=30_000.0,
    )  # fmt: skip
    for stances in (ALL, NONE):
        early, late, later, _ = worth(jobs, stances).fairness[0, 0].tolist()
        assert early < late < later
    assert worth(jobs).total[0, 0].argmax() == 2


def test_a_job_as_short_as_a_round_presses_before_it_has_lost_one() -> None:
    """It is on time if it runs now, and starves if it is passed over: after that it is too late."""
    rest, fair_jct = 120.0, 125.0
    short, long = (
        worth(make_futures([[own]], elapsed=0.0, fair_jct=allowed), NONE).fairness[0, 0, 0]
        for own, allowed in ((rest, fair_jct), (60 * rest, 60 * fair_jct))
    )
    assert rest < IndexSettings().starving * fair_jct < rest + 120.0
    assert short > 0.0
    assert long == 0.0


def test_of_two_who_starve_none_is_stopped_before_the_other_is_twice_as_late() -> None:
    def first(lateness_of_other: float) -> int:
        excess = np.array([1.0, lateness_of_other])
        age = 3600.0 * (IndexSettings().starving + excess) - 1200.0
        futures = make_futures([[1200.0] * 2], elapsed=age, fair_jct=3600.0, running=[True, False])
        return int(worth(futures, NONE).total[0, 0].argmax())

    assert first(1.5) == 0
    assert first(2.5) == 1


def test_a_reservation_yields_to_those_who_starve_until_its_gang_runs() -> None:
    def first(*, runs: bool) -> int:
        futures = make_futures(
            [[7200.0, 600.0]], reserved=[0.0, np.inf], running=[runs, False],
            elapsed=[0.0, 36_000.0], fair_jct=[np.inf, 3600.0],
        )  # fmt: skip
        return int(worth(futures).total[0, 0].argmax())

    assert first(runs=False) == 1
    assert first(runs=True) == 0


def test_who_comes_moves_what_is_fair_and_the_end_when_they_are_there() -> None:
    """One sample without anybody, and one with three jobs for each GPU in an hour."""
    newcomers = Newcomers(
        after=np.array([[np.inf], [3600.0]]),
        jobs=np.array([[1.0], [12.0]]),
        work=np.array([[0.0], [7200.0]]),
        seen=4,
        expected=0.0,
        gpus_total=4,
        fair_stretch=np.array([1.0]),
    )
    futures = make_futures([[3600.0], [3600.0]], horizon=7200.0, fair_stretch=100.0)
    index = Index(replace(futures, newcomers=newcomers), ALL, IndexSettings())
    waits = np.zeros((1, 2, 1), dtype=np.bool_)
    executed = np.zeros((1, 2, 1), dtype=np.float32)
    before, then = (index.at(seconds, executed, waits) for seconds in (3500.0, 3700.0))
    for part in ("fairness", "end"):
        assert getattr(before, part)[0, 0, 0] == getattr(before, part)[0, 1, 0] > 0.0
        assert getattr(then, part)[0, 0, 0] > 2.0 * getattr(then, part)[0, 1, 0]
