"""Solving a window program: prices, a plan, its rounds, and how good it is at least."""

from __future__ import annotations

from typing import Literal

import numpy as np

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.milp import solve_rounds
from shockwave.plan.prices import PriceSearch
from shockwave.plan.program import OptionTable, Program
from shockwave.plan.rounding import Rounding
from shockwave.plan.window import WindowPlan, improve, realise

_SWAPS = 40
_PACKED = 3  # plans of the price search that are packed, best first
_GOOD_GAP = 1e-3  # up to here the best packed plan alone is improved, and only briefly
_SWEEPS_GOOD = 2
_SWEEPS = 20


def solve(
    program: Program,
    *,
    solver: Literal["prices", "milp"] = "prices",
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


def _search_horizons(
    program: Program, table: OptionTable, search: PriceSearch, target_gap: float, limit: int
) -> tuple[list[tuple[Ints, Floats]], float]:
    """Plans by falling welfare (option per job, price), and the upper bound."""
    jobs = np.arange(len(program))
    price = search.clearing_price(float(search.horizons[0]))
    assert price is not None  # the idle plan always fits
    upper = search.bounds(price)
    tried: set[int] = set()
    found: list[tuple[float, Ints, Floats]] = []
    for _ in range(limit):
        at = int(np.argmax(upper))
        if at in tried:
            break
        tried.add(at)
        horizon = float(search.horizons[at])
        price = search.clearing_price(horizon, start=price)
        if price is None:  # the needs of this horizon, and of all shorter ones, do not fit
            upper[at:] = -np.inf
            price = found[-1][2] if found else np.zeros(len(program.gpus_total))
            continue
        upper = np.minimum(upper, search.bounds(price))
        usable = np.isfinite(table.value)
        usable[:, search.restricted] = search.allowed(horizon)
        rounding = Rounding(table, program.capacity, search.choice(horizon, price), usable, price)
        if rounding.drop_to_fit():
            rounding.fill()
            option = table.option[rounding.row, jobs]
            excess = float(upper[at]) - program.welfare(option)
            tolerated = target_gap * abs(float(upper[at]))
            if excess > tolerated:
                rounding.swap(_SWAPS, enough=excess - tolerated / 2)
                option = table.option[rounding.row, jobs]
            found.append((program.welfare(option), option, price))
            found.sort(key=lambda plan: -plan[0])
            if float(upper.max()) - found[0][0] <= target_gap / 4 * abs(found[0][0]):
                break
    found.append((program.welfare(program.idle), program.idle, price))
    return [(option, cost) for _, option, cost in found], float(upper.max())
