"""What tenants may have of a round."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shockwave.model.tenants import Tenant
from shockwave.plan.counter import Counter, Offer, Purse
from shockwave.plan.endowments import (
    Balance,
    Share,
    effective_weights,
    settled,
    shares_of,
    water_fill,
)

ROUND = 120.0
amounts = st.floats(0.0, 50.0)


@given(
    st.lists(st.tuples(st.floats(0.1, 10.0), amounts, amounts), min_size=1, max_size=8),
    st.floats(0.5, 100.0),
)
def test_water_is_filled_to_one_level(rows: list[tuple[float, float, float]], total: float) -> None:
    weight = np.array([row[0] for row in rows])
    floor = np.array([min(row[1:]) for row in rows])
    ceiling = np.array([max(row[1:]) for row in rows])
    filled = water_fill(total, weight, floor, ceiling)
    assert filled.sum() == pytest.approx(min(total, ceiling.sum()))
    if floor.sum() > total:
        return
    assert (filled >= floor - 1e-9).all()
    assert (filled <= ceiling + 1e-9).all()
    free = (filled > floor + 1e-6) & (filled < ceiling - 1e-6)
    levels = filled[free] / weight[free]
    assert np.ptp(levels) < 1e-6 if len(levels) else True


def due(*rows: tuple[Tenant, float], gpus: int = 16, carried: float = 0.0) -> list[float]:
    balances = [Balance(carried), *(Balance() for _ in rows[1:])]
    tenants, wanted = [row[0] for row in rows], [row[1] for row in rows]
    return [round(share.due, 6) for share in shares_of(tenants, wanted, balances, gpus, ROUND)]


def test_what_one_does_not_want_is_lent_by_weight() -> None:
    one, three, idle = Tenant("a"), Tenant("b", weight=3.0), Tenant("c", weight=4.0)
    assert due((one, 99), (three, 99), (idle, 99)) == [2.0, 6.0, 8.0]
    assert due((one, 99), (three, 99), (idle, 0)) == [4.0, 12.0, 0.0]
    assert due((one, 99), (three, 5), (idle, 0)) == [11.0, 5.0, 0.0]


def test_guarantees_come_before_weights_and_limits_hold() -> None:
    small = Tenant("a", weight=0.1, guaranteed=6)
    limited = Tenant("b", weight=9.0, most=4)
    assert due((small, 99), (limited, 99), (Tenant("c"), 99)) == [6.0, 4.0, 6.0]
    assert due((small, 2), (limited, 99), (Tenant("c"), 99)) == [2.0, 4.0, 10.0]
    assert due((small, 99), (limited, 99)) == [12.0, 4.0]  # what nobody else may have


def test_carry_over_is_spent_at_half_a_share_more() -> None:
    a, b = Tenant("a"), Tenant("b")
    assert due((a, 99), (b, 99), gpus=10, carried=1e6) == [6.0, 4.0]
    little = 0.1 * 0.5 * 5 * ROUND  # a tenth of what a round may take
    assert due((a, 99), (b, 99), gpus=10, carried=little) == [
        pytest.approx(10 * 1.05 / 2.05, abs=1e-5),
        pytest.approx(10 / 2.05, abs=1e-5),
    ]


def test_a_balance_grows_when_idle_up_to_a_cap_decays_and_pays_for_what_is_beyond() -> None:
    tenant = Tenant("a", carry_over_hours=2.0, half_life_hours=10.0)
    hour, idle = 3600.0, Share(entitled=4.0, plain=0.0, due=0.0)
    earned = settled(Balance(), idle, tenant, 0.0, hour)
    assert earned == Balance(4.0 * hour, 0.0)
    assert settled(Balance(8.0 * hour), idle, tenant, 0.0, hour).carry_over == 8.0 * hour
    busy = Share(entitled=4.0, plain=4.0, due=4.0)
    later = settled(earned, busy, tenant, 4.0 * 10 * hour, 10 * hour)
    assert later.carry_over == pytest.approx(2.0 * hour)
    assert later.lag == pytest.approx(0.0)
    spending = Share(entitled=4.0, plain=4.0, due=5.0)
    slow = Tenant("a", half_life_hours=1e9)
    spent = settled(earned, spending, slow, 4.0 * hour, hour)
    assert spent.carry_over == pytest.approx(3.0 * hour)
    assert spent.lag == pytest.approx(1.0 * hour), "one GPU was due and not given"
    shorted = Share(entitled=4.0, plain=4.0, due=3.0)  # somebody else spends
    assert settled(Balance(), shorted, slow, 3.0 * hour, hour) == Balance(0.0, 0.0)


def test_the_weight_of_a_tenant_is_spread_over_its_jobs() -> None:
    weight = np.array([1.0, 1.0, 1.0, 2.0])
    tenant = np.array([0, 1, 1, 1])
    found = effective_weights(weight, tenant, {0: 4.0, 1: 4.0})
    assert found.mean() == pytest.approx(weight.mean())
    assert found[0] == pytest.approx(found[1:].sum())
    assert found[3] == pytest.approx(2 * found[2])


def hand_out(
    gpus: list[int], tenant: list[int], purses: dict[int, Purse], running: list[int] | None = None,
    room: int = 8, first: list[int] | None = None, person: list[int] | None = None,
) -> tuple[list[int], list[int], list[int]]:  # fmt: skip
    def offer(position: int) -> Offer:
        return Offer(gpus[position], holds=position in (running or []))

    counter = Counter(
        tenant=np.array(tenant),
        person=np.array(person or [0] * len(gpus)),
        purses=[purses],
        together=purses,
        room=[room],
    )
    handed = counter.hand_out(
        np.arange(len(gpus)), {p: offer(p) for p in first or []}, lambda p: (offer(p),)
    )
    return handed.run.tolist(), sorted(handed.at_most), np.flatnonzero(handed.at_share).tolist()


def test_every_tenant_gets_its_part_in_the_order_of_the_policy() -> None:
    tenants = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1]
    run, _, at_share = hand_out([1] * 11, tenants, {0: Purse(6.0), 1: Purse(2.0)})
    assert sorted(run) == [0, 1, 2, 3, 4, 5, 8, 9]
    assert at_share == [6, 7, 10]


def test_a_gang_beyond_the_part_may_overdraw_it_once() -> None:
    run, _, _ = hand_out([4, 4, 4], [0, 1, 1], {0: Purse(1.0), 1: Purse(7.0)})
    assert sorted(run) == [0, 1] or sorted(run) == [1, 2]
    run, _, _ = hand_out([4, 4, 4], [0, 1, 1], {0: Purse(5.0), 1: Purse(3.0)})
    assert sorted(run) == [0, 1]


def test_a_running_job_is_let_go_only_when_all_of_it_is_overdrawn() -> None:
    purses = {0: Purse(1.5), 1: Purse(2.5)}
    run, _, _ = hand_out([2, 2, 2], [0, 0, 1], purses, running=[0, 1], room=4)
    assert sorted(run) == [0, 2]
    run, _, _ = hand_out([2, 2], [0, 1], {0: Purse(0.5), 1: Purse(1.5)}, running=[0], room=2)
    assert run == [0]


def test_guaranteed_gpus_are_taken_back_and_limits_are_told() -> None:
    purses = {0: Purse(8.0, most=5.0), 1: Purse(0.0, guaranteed=2)}
    run, at_most, _ = hand_out([1] * 10, [0] * 7 + [1] * 3, purses, running=list(range(7)))
    assert sorted(run) == [0, 1, 2, 3, 4, 7, 8, 9]
    assert at_most == [5, 6]
    run, at_most, _ = hand_out([3, 3], [0, 0], {0: Purse(8.0, most=5.0)}, first=[1])
    assert (run, at_most) == ([1], [0])


def test_people_of_one_tenant_share_what_it_has() -> None:
    purse = Purse(4.0, people={0: 2.0, 1: 2.0})
    run, _, _ = hand_out([1] * 6, [0] * 6, {0: purse}, room=4, person=[0, 0, 0, 0, 1, 1])
    assert sorted(run) == [0, 1, 4, 5]
    assert math.isinf(purse.most)
