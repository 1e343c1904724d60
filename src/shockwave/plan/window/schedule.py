"""A plan of one window: counts made into rounds, and what the outcome is worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.window.improvement import ScheduleSearch
from shockwave.plan.window.packing import pack
from shockwave.plan.window.program import Program


@dataclass(frozen=True)
class WindowPlan:
    """A plan of one window and its certificate.

    ``welfare`` is that of the schedule itself, after packing, rounds that were filled in
    included; no schedule at all can have more than ``upper_bound``.
    """

    option: Ints  # [job] flat position in the program; what the schedule realises
    rounds: Ints  # [job] rounds in which it runs
    offer: Ints  # [job] an option of the gang and type it runs with, -1 where there is none
    schedule: Bools  # [job, round]
    welfare: float
    upper_bound: float
    idle_welfare: float  # of the plan in which nobody runs
    price: Floats  # [type] welfare per GPU-round
    horizon_seconds: float
    missing: Ints  # [job] rounds of the unpacked plan that found no place

    @property
    def gap(self) -> float:
        """``(upper_bound - welfare) / |welfare|``, as solvers report it.

        Where welfare is close to zero (all jobs nearly done) the scale is one hundredth of
        all that could be gained over doing nothing, so that the gap stays meaningful.
        """
        return self._relative(max(abs(self.welfare), 0.01 * (self.upper_bound - self.idle_welfare)))

    @property
    def gain_gap(self) -> float:
        """``(upper_bound - welfare) / (upper_bound - idle_welfare)``.

        The share of what scheduling can gain at all that may be lost; does not change when
        a constant is added to the values.
        """
        return self._relative(self.upper_bound - self.idle_welfare)

    def _relative(self, scale: float) -> float:
        excess = max(self.upper_bound - self.welfare, 0.0)
        return excess / scale if scale > 0.0 else 0.0


def realise(
    program: Program,
    option: Ints,
    price: Floats,
    *,
    running: Bools,
    weight: Floats | None,
    large_gangs_first: bool,
    upper_bound: float,
) -> WindowPlan:
    """Packs the counts of a plan, type by type, and values what came out."""
    jobs = len(program)
    schedule = np.zeros((jobs, program.window), dtype=np.bool_)
    missing = np.zeros(jobs, dtype=np.int64)
    offer = np.full(jobs, -1, dtype=np.int64)
    if weight is None:
        weight = last_round_value(program, option)
    for gpu_type, total in enumerate(program.gpus_total):
        offered = _offers(program, option, gpu_type, taken=np.asarray(schedule.any(axis=1)))
        members = np.flatnonzero(offered >= 0)
        packing = pack(
            program.rounds[option[members]],
            program.gpus[offered[members]],
            int(total),
            program.window,
            running=running[members],
            weight=weight[members],
            limit=program.rounds[count_options(program, offered[members])[:, -1]],
            large_gangs_first=large_gangs_first,
        )
        schedule[members] = packing.schedule
        missing[members] = packing.missing
        placed = members[packing.schedule.any(axis=1)]
        offer[placed] = offered[placed]
    return _valued(program, schedule, offer, price, upper_bound, missing)


def improve(program: Program, plan: WindowPlan, target_gap: float, sweeps: int) -> WindowPlan:
    """Moves gangs within rounds until the gap is reached or nothing improves."""
    schedule, offer = plan.schedule.copy(), plan.offer.copy()
    target = plan.upper_bound - target_gap * abs(plan.upper_bound)
    leftover = program.leftover_seconds[plan.option]
    for gpu_type, total in enumerate(program.gpus_total):
        offered = _offers(program, plan.option, gpu_type, taken=np.asarray(schedule.any(axis=1)))
        members = np.flatnonzero(offered >= 0)
        others = np.delete(leftover, members)
        options = count_options(program, offered[members])
        search = ScheduleSearch(
            schedule[members],
            program.gpus[offered[members]],
            int(total),
            program.value[options],
            program.leftover_seconds[options],
            makespan_weight=program.makespan_weight,
            horizon_floor_seconds=float(others.max(initial=program.horizon_floor_seconds)),
        )
        elsewhere = float(np.delete(program.value[plan.option], members).sum())
        search.improve(target - elsewhere, sweeps)
        schedule[members] = search.schedule
        placed = search.schedule.any(axis=1)
        offer[members] = np.where(placed, offered[members], -1)
        plan = _valued(program, schedule, offer, plan.price, plan.upper_bound, plan.missing)
        leftover = program.leftover_seconds[plan.option]
    return plan


def _valued(
    program: Program,
    schedule: Bools,
    offer: Ints,
    price: Floats,
    upper_bound: float,
    missing: Ints,
) -> WindowPlan:
    rounds = schedule.sum(axis=1, dtype=np.int64)
    option = program.idle.copy()
    runs = np.flatnonzero(offer >= 0)
    option[runs] = count_options(program, offer[runs])[np.arange(len(runs)), rounds[runs]]
    return WindowPlan(
        option=option,
        rounds=rounds,
        offer=offer,
        schedule=schedule,
        welfare=program.welfare(option),
        upper_bound=upper_bound,
        idle_welfare=program.welfare(program.idle),
        price=price,
        horizon_seconds=program.horizon(option),
        missing=missing,
    )


def last_round_value(program: Program, option: Ints) -> Floats:
    """[job] welfare per GPU-round of an option over the one before it; for idle jobs of the next.

    Jobs that decide the horizon carry the makespan term as well.
    """
    before = np.maximum(option - 1, program.offsets[:-1])
    before = np.where(program.rounds[option] > 0, before, option)
    after = np.minimum(before + 1, program.offsets[1:] - 1)
    gain = program.value[after] - program.value[before]
    horizon = program.horizon(option)
    late = np.maximum(program.leftover_seconds[before] - horizon, 0.0)
    gain = gain + program.makespan_weight * late
    return np.asarray(gain / np.maximum(program.gpus[after], 1))


def _offers(program: Program, option: Ints, gpu_type: int, taken: Bools) -> Ints:
    """[job] an option that shows the gang the job would run on this type, -1 for none."""
    active = program.rounds[option] > 0
    if program.uniform:
        return np.where(active, option, option + 1)
    offer = np.full(len(program), -1, dtype=np.int64)
    possible = np.flatnonzero((program.gpu_type == gpu_type) & (program.rounds > 0))
    smallest = possible[np.lexsort((program.gpus[possible], program.job[possible]))]
    owner, first = np.unique(program.job[smallest], return_index=True)
    offer[owner] = smallest[first]
    offer[active | taken] = -1
    mine = active & (program.gpu_type[option] == gpu_type)
    offer[mine] = option[mine]
    return offer


def count_options(program: Program, offer: Ints) -> Ints:
    """[offer, window + 1] the option that so many rounds with the offer's gang realise.

    Where there is none of exactly that count, the next smaller one.
    """
    width = program.window + 1
    if program.uniform:
        return np.asarray((offer - program.rounds[offer])[:, None] + np.arange(width))
    job = program.job[offer]
    member = np.full(len(program), -1, dtype=np.int64)
    member[job] = np.arange(len(offer))
    row = member[program.job]  # [option]
    same = row >= 0
    same[same] = (program.gpus[same] == program.gpus[offer[row[same]]]) & (
        program.gpu_type[same] == program.gpu_type[offer[row[same]]]
    )
    same &= program.rounds > 0
    options = np.full((len(offer), width), -1, dtype=np.int64)
    options[:, 0] = program.idle[job]
    options[row[same], program.rounds[same]] = np.flatnonzero(same)
    known = np.maximum.accumulate(np.where(options >= 0, np.arange(width), 0), axis=1)
    return np.take_along_axis(options, known, axis=1)
