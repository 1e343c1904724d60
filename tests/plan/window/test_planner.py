"""The planner against the exact optimum, and on programs at the edge."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from bench.instances import Instance, random_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from shockwave.model.errors import InputError
from shockwave.plan.window.market import PiecewiseLog
from shockwave.plan.window.milp import solve_options, solve_original, solve_rounds
from shockwave.plan.window.planner import solve
from shockwave.plan.window.program import Program
from shockwave.plan.window.schedule import WindowPlan

AWKWARD_GANGS = ((1, 2, 3, 4, 5), (0.4, 0.2, 0.2, 0.1, 0.1))


def assert_valid(program: Program, plan: WindowPlan) -> None:
    """Every round fits, and the plan is worth what it says."""
    gangs = np.where(plan.offer >= 0, program.gpus[plan.offer], 0)
    kinds = np.where(plan.offer >= 0, program.gpu_type[plan.offer], 0)
    for gpu_type, total in enumerate(program.gpus_total):
        used = (gangs * (kinds == gpu_type)) @ plan.schedule
        assert (used <= total).all()
    assert plan.schedule.shape == (len(program), program.window)
    assert (plan.rounds == plan.schedule.sum(axis=1)).all()
    assert (program.rounds[plan.option] <= plan.rounds).all()
    assert plan.welfare == pytest.approx(program.welfare(plan.option))
    assert plan.welfare <= plan.upper_bound + 1e-9 * abs(plan.upper_bound)


@st.composite
def small_instances(draw: st.DrawFn) -> tuple[Instance, float]:
    jobs = draw(st.integers(1, 8))
    gpus = draw(st.integers(1, 9))
    window = draw(st.integers(1, 6))
    seed = draw(st.integers(0, 10**6))
    makespan_weight = draw(st.sampled_from([0.0, 1e-5, 1e-4, 1e-3, 1e-2]))
    instance = random_instance(
        jobs, gpus, np.random.default_rng(seed), window=window, gangs=AWKWARD_GANGS
    )
    return instance, makespan_weight


@settings(max_examples=60, deadline=None)
@given(small_instances())
def test_optimum_lies_between_plan_and_bound(case: tuple[Instance, float]) -> None:
    instance, makespan_weight = case
    program = instance.program(makespan_weight=makespan_weight)
    plan = solve(program, running=instance.running)
    optimum = solve_rounds(program).welfare
    slack = 1e-6 * max(abs(optimum), 1e-6)
    assert_valid(program, plan)
    assert plan.welfare <= optimum + slack
    assert optimum <= plan.upper_bound + slack
    # Within a few percent of what can be gained, whatever the bound could prove.
    assert optimum - plan.welfare <= 0.03 * max(optimum - plan.idle_welfare, 0.0) + slack


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 1e-4, 1e-3]))
def test_jobs_of_one_gpu_lose_nothing_in_packing(seed: int, makespan_weight: float) -> None:
    # Without gangs every count finds its rounds: only the search for the counts can lose.
    instance = random_instance(12, 4, np.random.default_rng(seed), window=5, gangs=((1,), (1.0,)))
    program = instance.program(makespan_weight=makespan_weight)
    plan = solve(program, running=instance.running)
    optimum = solve_options(program)
    assert not plan.missing.any()
    assert optimum.objective <= plan.upper_bound + 1e-6 * abs(optimum.objective)
    gain = optimum.objective - plan.idle_welfare
    assert optimum.objective - plan.welfare <= 0.01 * gain + 1e-6


@pytest.mark.parametrize(("jobs", "gpus"), [(120, 32), (460, 128)])
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"exponent": 12.0, "makespan_weight": 1e-3, "log": PiecewiseLog.nsdi23()},
        {"makespan_weight": 0.0},
    ],
)
def test_gap_is_certified_small_on_realistic_windows(
    jobs: int, gpus: int, values: dict[str, float]
) -> None:
    for seed in range(3):
        instance = random_instance(jobs, gpus, np.random.default_rng(seed))
        program = instance.program(**values)  # type: ignore[arg-type]
        plan = solve(program, running=instance.running)
        assert_valid(program, plan)
        assert plan.gap <= 1e-3
        assert plan.gain_gap <= 1e-3


def test_equal_inputs_give_equal_plans() -> None:
    plans = []
    for _ in range(2):
        instance = random_instance(60, 16, np.random.default_rng(7))
        plans.append(solve(instance.program(), running=instance.running))
    first, second = plans
    assert (first.schedule == second.schedule).all()
    assert (first.welfare, first.upper_bound) == (second.welfare, second.upper_bound)
    assert (first.price == second.price).all()


def test_huge_weights_do_not_drown_the_others() -> None:
    # One job outbids everybody by 1e12; the rest must still be planned as if it were not there.
    instance = random_instance(40, 8, np.random.default_rng(3), gangs=((1,), (1.0,)))
    program = instance.program(makespan_weight=0.0)
    values = program.value.reshape(40, -1).copy()
    values[0] *= 1e12
    plan = solve(Program.from_values(values, instance.gpus, 8))
    alone = solve(Program.from_values(values[1:], instance.gpus[1:], 7))
    assert plan.rounds[0] == 20
    assert values[np.arange(1, 40), plan.rounds[1:]].sum() == pytest.approx(alone.welfare, rel=1e-3)


def test_no_jobs() -> None:
    plan = solve(Program.from_values(np.zeros((0, 21)), np.zeros(0, dtype=np.int64), 8))
    assert plan.schedule.shape == (0, 20)
    assert (plan.welfare, plan.gap) == (0.0, 0.0)


def test_one_job_runs_in_every_round() -> None:
    program = Program.from_values(np.log(np.arange(1.0, 6.0))[None], np.array([2]), 4)
    plan = solve(program)
    assert plan.rounds.tolist() == [4]
    assert plan.gap == 0.0
    assert plan.price.tolist() == [0.0]


def test_jobs_without_marginal_value_fill_idle_gpus() -> None:
    program = Program.from_values(np.zeros((3, 5)), np.array([1, 1, 1]), 2)
    plan = solve(program)
    assert plan.schedule.sum(axis=0).tolist() == [2, 2, 2, 2]
    assert plan.gap == 0.0


def test_gangs_as_large_as_the_cluster_take_turns() -> None:
    values = np.log(np.arange(0.5, 5.0))[None].repeat(4, axis=0)
    plan = solve(Program.from_values(values, np.full(4, 8), 8))
    assert plan.rounds.tolist() == [1, 1, 1, 1]
    assert plan.gap <= 1e-9


def test_gang_that_never_fits_stays_idle() -> None:
    values = np.log(np.arange(1.0, 6.0))[None].repeat(2, axis=0)
    plan = solve(Program.from_values(values, np.array([9, 1]), 8))
    assert plan.rounds.tolist() == [0, 4]
    assert plan.gap == 0.0


def test_fewer_jobs_than_gpus_all_run() -> None:
    instance = random_instance(5, 64, np.random.default_rng(0))
    plan = solve(instance.program(), running=instance.running)
    assert plan.schedule.all()
    assert plan.gap <= 1e-12


def test_makespan_weight_makes_the_longest_job_run() -> None:
    # Ten short jobs would be worth more; a heavy makespan term reserves rounds for the long one.
    values = np.log1p(np.arange(6.0))[None].repeat(11, axis=0)
    values[0] *= 1e-6
    remaining = np.array([5000.0] + [100.0] * 10)
    gangs = np.ones(11, dtype=np.int64)
    plans = [
        solve(
            Program.from_values(
                values, gangs, 1, remaining_seconds=remaining, makespan_weight=weight
            )
        )
        for weight in (0.0, 1.0)
    ]
    assert [int(plan.rounds[0]) for plan in plans] == [0, 5]
    assert plans[1].horizon_seconds == 5000.0 - 5 * 120.0


def test_equal_jobs_share_equally_when_most_horizons_are_out_of_reach() -> None:
    values = np.log(0.05 + np.arange(21.0) / 40)[None].repeat(60, axis=0)
    program = Program.from_values(
        values,
        np.ones(60, dtype=np.int64),
        21,
        remaining_seconds=np.full(60, 9000.0),
        makespan_weight=1e-3,
    )
    plan = solve(program)
    assert plan.rounds.tolist() == [7] * 60
    assert plan.horizon_seconds == 9000.0 - 7 * 120.0
    assert plan.gap <= 1e-9


def test_work_bound_switches_the_makespan_term_off() -> None:
    values = np.log1p(np.arange(6.0))[None].repeat(11, axis=0)
    values[0] *= 1e-6
    program = Program.from_values(
        values,
        np.ones(11, dtype=np.int64),
        1,
        remaining_seconds=np.array([5000.0] + [100.0] * 10),
        makespan_weight=1.0,
        horizon_floor_seconds=9000.0,
    )
    assert solve(program).rounds[0] == 0


def heterogeneous(seed: int) -> Program:
    """Jobs that may run on one fast or on up to two slow GPUs."""
    rng = np.random.default_rng(seed)
    window, jobs = 4, 6
    value, rounds, gpus, gpu_type, leftover = [], [], [], [], []
    for _ in range(jobs):
        speed = rng.uniform(0.5, 2.0)
        left = rng.uniform(500, 3000)
        for kind, gang, factor in ((0, 1, 1.0), (1, 1, 0.5), (1, 2, 0.9)):
            for count in range(0 if kind == 0 else 1, window + 1):
                value.append(np.log(0.2 + speed * factor * count))
                rounds.append(count)
                gpus.append(gang)
                gpu_type.append(kind)
                leftover.append(left - 120 * factor * count)
    width = len(value) // jobs
    return Program(
        offsets=np.arange(jobs + 1) * width,
        value=np.array(value),
        rounds=np.array(rounds),
        gpus=np.array(gpus),
        gpu_type=np.array(gpu_type),
        leftover_seconds=np.array(leftover),
        gpus_total=np.array([2, 3]),
        window=window,
        makespan_weight=float(rng.choice([0.0, 1e-3])),
    )


@pytest.mark.parametrize("seed", range(8))
def test_several_gpu_types_and_gang_sizes(seed: int) -> None:
    program = heterogeneous(seed)
    plan = solve(program)
    optimum = solve_rounds(program).welfare
    assert_valid(program, plan)
    assert plan.welfare <= optimum + 1e-6
    assert optimum <= plan.upper_bound + 1e-6
    assert optimum - plan.welfare <= 0.05 * (optimum - plan.idle_welfare)
    assert (plan.price >= 0).all()


def test_dense_and_ragged_options_give_the_same_plan() -> None:
    dense = random_instance(12, 4, np.random.default_rng(5), window=6).program()
    ragged = dataclasses.replace(dense, _uniform=False)
    one, other = solve(dense), solve(ragged)
    assert (one.schedule == other.schedule).all()
    assert other.upper_bound == pytest.approx(one.upper_bound)


def test_milp_is_selected_by_name() -> None:
    instance = random_instance(6, 4, np.random.default_rng(1), window=4)
    program = instance.program()
    exact = solve(program, solver="milp", target_gap=1e-6)
    assert_valid(program, exact)
    assert exact.welfare >= solve(program).welfare - 1e-6 * abs(exact.welfare)


def test_original_formulation_agrees() -> None:
    # The per-round binaries and the piecewise log describe the same program as the options.
    instance = random_instance(8, 4, np.random.default_rng(2), window=4)
    log = PiecewiseLog.nsdi23()
    progress = instance.epochs_done / instance.epochs
    step = np.full(8, 0.05)
    fractions = np.minimum(progress[:, None] + step[:, None] * np.arange(5), 1.0)
    program = instance.program(log=log, fractions=fractions, exponent=0.0)
    result = solve_original(
        program,
        bid=np.ones(8),
        progress=progress,
        progress_per_round=step,
        log=log,
        relative_gap=1e-7,
    )
    assert result.objective == pytest.approx(solve_rounds(program).welfare, rel=1e-5)
    assert result.optimal


def test_missing_highs_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "highspy", None)
    program = Program.from_values(np.zeros((1, 3)), np.array([1]), 1)
    with pytest.raises(InputError, match=r"shockwave-scheduler\[milp\]"):
        solve(program, solver="milp")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": np.array([0.0])}, "must have 2 options"),
        ({"value": np.array([0.0, np.nan])}, "must be finite"),
        ({"rounds": np.array([0, 9])}, r"must lie in 0\.\.2"),
        ({"rounds": np.array([1, 2])}, "job 0: has no option of zero rounds"),
        ({"gpu_type": np.array([0, 1])}, "position in gpus_total"),
        ({"makespan_weight": -1.0}, "not negative"),
    ],
)
def test_bad_programs_are_refused(change: dict[str, object], message: str) -> None:
    good = Program(
        offsets=np.array([0, 2]),
        value=np.array([0.0, 1.0]),
        rounds=np.array([0, 1]),
        gpus=np.array([1, 1]),
        gpu_type=np.array([0, 0]),
        leftover_seconds=np.array([10.0, 0.0]),
        gpus_total=np.array([1]),
        window=2,
    )
    with pytest.raises(InputError, match=message):
        dataclasses.replace(good, **change)  # type: ignore[arg-type]
