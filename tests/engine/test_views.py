"""What a policy sees, column by column, computed by hand."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from tests.engine.runs import RandomPolicy, Run, Scripted, make_job

from shockwave.engine.rounds import Rounds
from shockwave.model.cluster import Cluster
from shockwave.model.job import Adaptation
from shockwave.model.view import View
from shockwave.policies.base import Decision
from shockwave.predict.base import Forecast
from shockwave.testing.workloads import alter_future, random_jobs

COLUMNS = [field.name for field in dataclasses.fields(View)]


@pytest.fixture(scope="module")
def run() -> Run:
    """a runs in rounds 0 and 1, b in 2 (four GPUs, a needs 4, b 2); c arrives in round 2."""
    a = make_job("a", (32, 3, 30.0), (64, 9, 50.0), (32, 2, 30.0), gpus=4, model="LM", weight=2.0)
    b = make_job("b", (16, 8, 25.0), gpus=2, model="LM", profile={16: math.nan})
    c = make_job("c", (16, 1, 25.0), arrival=150.0, gpus=1, model="LM")
    script = {0: [0], 1: [0], 2: [1], 3: [0], 4: [1, 2]}
    return Run([a, b, c], policy=Scripted(script)).go()


def test_before_anything_ran(run: Run) -> None:
    view = run.views[0]
    assert (view.now, view.round, view.gpus_total, view.jobs_seen) == (0.0, 0, 4, 2)
    assert (view.round_seconds, view.restart_seconds, view.changed) == (100.0, 10.0, True)
    assert view.handle.tolist() == [0, 1]
    assert view.gpus.tolist() == [4, 2]
    assert view.epochs.tolist() == [14.0, 8.0]
    assert view.weight.tolist() == [2.0, 1.0]
    assert view.configurations.tolist() == [2, 1]
    assert view.adaptation.tolist() == [Adaptation.CUSTOM.code, Adaptation.STATIC.code]
    assert view.kind[0] != view.kind[1]  # same model, other adaptation
    np.testing.assert_array_equal(view.profile, [[30.0, 50.0], [np.nan, np.nan]])
    np.testing.assert_array_equal(view.measured_seconds, np.full((2, 2), np.nan))
    for column in ("epochs_done", "productive_seconds", "received_seconds", "fair_seconds",
                   "active_integral", "rounds_active", "restarts", "regime_epochs"):  # fmt: skip
        assert getattr(view, column).tolist() == [0, 0]
    assert view.running.tolist() == [False, False]


def test_after_one_round_in_its_first_regime(run: Run) -> None:
    view = run.views[1]  # a: 10 s restart, 90 s = exactly 3 epochs of 30 s, then a change
    assert (view.now, view.changed) == (100.0, True)
    assert view.running.tolist() == [True, False]
    assert view.epochs_done.tolist() == [pytest.approx(3.0), 0.0]
    assert view.configuration.tolist() == [1, 0]
    assert view.regime_epochs.tolist() == [pytest.approx(0.0), 0.0]
    np.testing.assert_allclose(view.configuration_epochs, [[3.0, 0.0], [0.0, 0.0]], atol=1e-9)
    assert view.received_seconds.tolist() == [100.0, 0.0]
    assert view.productive_seconds.tolist() == [pytest.approx(90.0), 0.0]
    # Fair share of a on 4 GPUs with two active jobs: 4 / (2 * 4) = 1/2.
    assert view.fair_seconds.tolist() == [pytest.approx(180.0), 0.0]
    assert view.active_integral.tolist() == [2.0, 2.0]
    assert view.rounds_active.tolist() == [1, 1]


def test_after_two_rounds_a_newcomer_has_a_clean_record(run: Run) -> None:
    view = run.views[2]  # a: 100 s more = 2 epochs of 50 s
    assert view.jobs_seen == 3
    assert view.arrival.tolist() == [0.0, 0.0, 150.0]
    assert view.elapsed.tolist() == [200.0, 200.0, 50.0]
    assert view.epochs_done.tolist() == [pytest.approx(5.0), 0.0, 0.0]
    assert view.regime_epochs.tolist() == [pytest.approx(2.0), 0.0, 0.0]
    np.testing.assert_allclose(view.configuration_epochs[0], [3.0, 2.0])
    assert view.measured_seconds[0, 1] == 50.0
    assert view.fair_seconds[0] == pytest.approx(380.0)
    assert view.active_integral.tolist() == [4.0, 4.0, 0.0]
    assert view.rounds_active.tolist() == [2, 2, 0]
    assert view.kind[1] == view.kind[2]  # same model and adaptation


def test_a_job_that_was_stopped_keeps_its_record(run: Run) -> None:
    view = run.views[3]  # b ran: 90 s = 3.6 epochs of 25 s
    assert view.running.tolist() == [False, True, False]
    assert view.epochs_done.tolist() == [pytest.approx(5.0), pytest.approx(3.6), 0.0]
    assert view.epochs_left.tolist() == [pytest.approx(9.0), pytest.approx(4.4), 1.0]
    assert view.received_seconds.tolist() == [200.0, 100.0, 0.0]
    # Three jobs on 4 GPUs: the fair share of b is min(1, 4 / (3 * 2)) = 2/3.
    assert view.fair_seconds[1] == pytest.approx(90 / (2 / 3))
    assert view.measured_seconds[1, 0] == 25.0
    assert view.epoch_seconds[1, 0] == 25.0  # measured where nothing was declared
    assert view.active_integral.tolist() == [7.0, 7.0, 3.0]
    assert view.restarts.tolist() == [0, 0, 0]


def test_restarts_count_starts_after_the_first(run: Run) -> None:
    assert run.views[4].restarts.tolist() == [1, 0, 0]
    assert run.views[5].restarts.tolist()[:2] == [1, 1]


def test_views_are_copies() -> None:
    """A policy that writes into its view harms nobody else."""

    class Vandal(RandomPolicy):
        def decide(self, view: View, forecast: Forecast) -> Decision:
            decision = super().decide(view, forecast)
            chosen = decision.run.copy()
            for column in COLUMNS:
                value = getattr(view, column)
                if isinstance(value, np.ndarray) and column not in ("handle", "gpus"):
                    value[...] = 1
            return Decision(chosen)

    jobs = random_jobs(4)
    clean, harmed = (
        Run(jobs, cluster=Cluster.uniform(8), policy=policy).go()
        for policy in (RandomPolicy(1), Vandal(1))
    )
    assert harmed.finishes == clean.finishes
    np.testing.assert_array_equal(harmed.loop.state.table.profile, clean.loop.state.table.profile)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_in_a_view_depends_on_the_future(seed: int) -> None:
    jobs = sorted(random_jobs(seed, count=10), key=lambda job: job.spec.arrival_seconds)
    rng = np.random.default_rng(seed)

    def simulate(workload: list) -> list[View]:  # type: ignore[type-arg]
        return Run(
            workload, cluster=Cluster.uniform(8), policy=RandomPolicy(seed), rounds=Rounds(),
            skip=False,
        ).go().views  # fmt: skip

    original = simulate(jobs)
    cut = original[int(rng.integers(1, len(original)))]
    known = np.full(len(jobs), -1)
    begun = cut.received_seconds > 0
    known[cut.handle] = np.where(begun, np.floor(cut.epochs_done + 1e-6) + 1, 0)
    altered = simulate([
        alter_future(job, int(known[handle]), rng) if known[handle] >= 0 else job
        for handle, job in enumerate(jobs)
    ])  # fmt: skip
    compared = 0
    for mine, theirs in zip(original, altered, strict=False):
        if mine.round > cut.round:
            break
        for column in COLUMNS:
            np.testing.assert_array_equal(
                getattr(mine, column), getattr(theirs, column), err_msg=f"{mine.round} {column}"
            )
        compared += 1
    assert compared == original.index(cut) + 1
