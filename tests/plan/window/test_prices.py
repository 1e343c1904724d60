"""The price search: envelopes, clearing prices and bounds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from bench.instances import random_instance
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from shockwave.plan.window.envelope import concave_segments
from shockwave.plan.window.planner import clearing_price
from shockwave.plan.window.prices import PriceSearch
from shockwave.plan.window.program import OptionTable, Program, largest_sum

tables = arrays(np.float64, (7, 3), elements=st.floats(-5, 5, width=16))


@given(tables)
def test_envelope_covers_every_option(value: np.ndarray) -> None:
    usage = np.arange(7.0)[:, None] * np.array([1.0, 2.0, 5.0])
    segments = concave_segments(value, usage)
    assert (np.diff(segments.slope) <= 0).all()
    for job in range(3):
        mine = segments.job == job
        row = np.concatenate([[0], segments.row[mine]])
        assert (np.diff(row) > 0).all(), "segments of a job come in the order of its options"
        # Slope times usage adds up along the chain, and no option lies above it.
        height = value[0, job] + np.concatenate(
            [[0.0], np.cumsum(segments.slope[mine] * segments.usage[mine])]
        )
        assert height == pytest.approx(value[row, job], abs=1e-6)
        over = np.interp(usage[:, job], usage[row, job], height)
        assert (value[:, job] <= over + 1e-6).all()


def search(program: Program) -> PriceSearch:
    return PriceSearch(program, OptionTable.of(program))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_price_falls_as_capacity_grows(seed: int) -> None:
    instance = random_instance(30, 4, np.random.default_rng(seed), window=8)
    values = instance.program(makespan_weight=0.0).value.reshape(30, 9)
    prices = []
    for gpus in (2, 4, 8, 16, 32, 64, 500):
        program = Program.from_values(values, instance.gpus, gpus)
        price = search(program).clearing_price(0.0)
        assert price is not None
        prices.append(float(price[0]))
    assert (np.diff(prices) <= 1e-12).all()
    assert prices[-1] == 0.0, "what is plentiful costs nothing"


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.0, 1.0))
def test_any_price_bounds_every_plan_at_its_horizon(seed: int, price: float) -> None:
    rng = np.random.default_rng(seed)
    program = random_instance(6, 3, rng, window=4).program(makespan_weight=1e-3)
    prices = search(program)
    bounds = prices.bounds(np.array([price]))
    for _ in range(30):
        rounds = rng.integers(0, 5, 6)
        option = program.offsets[:-1] + rounds
        if (program.usage[option].sum(axis=0) > program.capacity).any():
            continue
        horizon = program.horizon(option)
        # A horizon that no job can beat stands for all shorter ones.
        at = int(np.flatnonzero(prices.horizons >= horizon - 1e-9)[-1])
        assert program.welfare(option) <= bounds[at] + 1e-9


def test_clearing_price_is_the_best_of_all_prices() -> None:
    program = random_instance(50, 8, np.random.default_rng(4)).program(makespan_weight=0.0)
    prices = search(program)
    clearing = prices.clearing_price(float(prices.horizons[0]))
    assert clearing is not None
    best = prices.bounds(clearing)[0]
    for factor in (0.0, 0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
        assert best <= prices.bounds(clearing * factor)[0] + 1e-12


def test_the_price_of_progress_grows_with_what_progress_is_worth_and_ignores_the_makespan() -> None:
    program = random_instance(30, 8, np.random.default_rng(3)).program()
    price = clearing_price(program)
    assert price[0] > 0
    dearer = dataclasses.replace(program, value=1000 * program.value, makespan_weight=1e9)
    assert clearing_price(dearer) == pytest.approx(1000 * price)


def test_needs_beyond_capacity_have_no_price() -> None:
    program = Program.from_values(
        np.zeros((3, 3)),
        np.ones(3, dtype=np.int64),
        1,
        remaining_seconds=np.full(3, 300.0),
        makespan_weight=1.0,
    )
    prices = search(program)
    assert prices.horizons.tolist() == [300.0, 180.0, 60.0]
    assert prices.clearing_price(300.0) is not None
    assert prices.clearing_price(60.0) is None


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), max_size=4), st.integers(0, 40))
def test_largest_sum_by_enumeration(gangs: list[tuple[int, int]], limit: int) -> None:
    reachable = {0}
    for size, count in gangs:
        for _ in range(count):
            reachable |= {total + size for total in reachable}
    assert largest_sum(gangs, limit) == max(total for total in reachable if total <= limit)
