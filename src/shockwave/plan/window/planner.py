"""Solving a window program: prices, a plan, its rounds, and how good it is at least."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.window.milp import solve_rounds
from shockwave.plan.window.prices import PriceSearch
from shockwave.plan.window.program import OptionTable, Program
from shockwave.plan.window.rounding import Rounding
from shockwave.plan.window.schedule import WindowPlan, improve, realise

Solver = Literal["prices", "milp"]
_SWAPS = 40
_PACKED = 3  # plans of the price search that are packed, best first
_GOOD_GAP = 1e-3  # up to here the best packed plan alone is improved, and only briefly
_SWEEPS_GOOD = 2
_SWEEPS = 20


def solve(
    program: Program,
    *,
    solver: Solver = "prices",
    running: Bools | None = None,
    weight: Floats | None = None,
    target_gap: float = 1e-5,
    horizons: int = 12,
    time_limit_seconds: float = 60.0,
) -> WindowPlan:
    """Plans one window.

    Args:
        solver: ``prices`` (milliseconds, with a certified gap) or ``milp`` (exact, HiGHS).
        running: [job] runs in the round before the window.
        weight: [job] who goes first within the window where counts leave the choice, and
            who gets GPUs that would idle; default: value of the last round per GPU.
        target_gap: stop improving at this relative gap.
        horizons: how many horizons ``H`` to look at at most.
        time_limit_seconds: for ``milp``.

    Raises:
        InputError: for ``milp`` where highspy is not installed.
    """
    running = np.zeros(len(program), dtype=np.bool_) if running is None else running
    if solver == "milp":
        return solve_rounds(program, relative_gap=target_gap, time_limit_seconds=time_limit_seconds)
    table = OptionTable.of(program)
    search = PriceSearch(program, table)
    candidates, upper_bound = _search_horizons(program, table, search, target_gap, horizons)
    packed: list[WindowPlan] = []
    for option, price in candidates[:_PACKED]:
        for large_gangs_first in (False, True):
            plan = realise(
                program,
                option,
                price,
                running=running,
                weight=weight,
                large_gangs_first=large_gangs_first,
                upper_bound=upper_bound,
            )
            if plan.gap <= target_gap:
                return plan
            packed.append(plan)
            if not plan.missing.any():
                break
    packed.sort(key=lambda plan: -plan.welfare)
    if packed[0].gap <= _GOOD_GAP:
        return improve(program, packed[0], target_gap, _SWEEPS_GOOD)
    for position, plan in enumerate(packed[:_PACKED]):
        packed[position] = improve(program, plan, target_gap, _SWEEPS)
        if packed[position].gap <= _GOOD_GAP:
            return packed[position]
    return max(packed, key=lambda plan: plan.welfare)


def clearing_price(program: Program) -> Floats:
    """[type] what a GPU-round costs if only progress counts and the makespan does not."""
    free = replace(program, makespan_weight=0.0)
    search = PriceSearch(free, OptionTable.of(free))
    price = search.clearing_price(float(search.horizons[0]))
    assert price is not None  # this horizon restricts nobody
    return price


def _search_horizons(
    program: Program, table: OptionTable, search: PriceSearch, target_gap: float, limit: int
) -> tuple[list[tuple[Ints, Floats]], float]:
    """Plans by falling welfare (option per job, price), and the upper bound."""
    found: list[tuple[float, Ints, Floats]] = []
    price = np.zeros(len(program.gpus_total))
    upper = search.bounds(price)
    upper[search.feasible_horizons() :] = -np.inf
    tried: set[int] = set()
    at = 0  # the longest horizon restricts nobody: there is always a plan and a price
    while at not in tried and len(tried) < limit:
        tried.add(at)
        cleared = search.clearing_price(float(search.horizons[at]), start=price)
        if cleared is None:
            upper[at:] = -np.inf
        else:
            price = cleared
            upper = np.minimum(upper, search.bounds(price))
            option = _rounded(program, table, search, at, price, float(upper[at]), target_gap)
            if option is not None:
                found.append((program.welfare(option), option, price))
                found.sort(key=lambda plan: -plan[0])
                if float(upper.max()) - found[0][0] <= target_gap / 4 * abs(found[0][0]):
                    break
        at = int(np.argmax(upper))
    found.append((program.welfare(program.idle), program.idle, price))
    return [(option, cost) for _, option, cost in found], float(upper.max())


def _rounded(
    program: Program,
    table: OptionTable,
    search: PriceSearch,
    at: int,
    price: Floats,
    bound: float,
    target_gap: float,
) -> Ints | None:
    """[job] the options of a plan that ends by the horizon, ``None`` where none was found."""
    horizon = float(search.horizons[at])
    usable = np.isfinite(table.value)
    usable[:, search.restricted] = search.allowed(horizon)
    rounding = Rounding(table, program.capacity, search.choice(horizon, price), usable, price)
    if not rounding.drop_to_fit():
        return None
    rounding.fill()
    jobs = np.arange(len(program))
    excess = bound - program.welfare(table.option[rounding.row, jobs])
    tolerated = target_gap * abs(bound)
    if excess > tolerated and rounding.is_small:
        rounding.solve()
    elif excess > tolerated:
        rounding.swap(_SWAPS, enough=excess - tolerated / 2)
    return np.asarray(table.option[rounding.row, jobs])
