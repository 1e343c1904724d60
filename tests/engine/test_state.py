"""The scheduler's state is the fold of its journal, at any moment of any run."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engine.runs import Learning, RandomPolicy, Run

from shockwave.engine.retry import Retries
from shockwave.engine.state import Rounds, SchedulerState
from shockwave.engine.table import JobTable
from shockwave.executors.faults import Fault, JobCrash, NodeFailure, NodeRecovery
from shockwave.model.cluster import Cluster, Node
from shockwave.model.events import from_record, to_record
from shockwave.predict.base import FinishedJob
from shockwave.testing.workloads import random_jobs

FAULTS: tuple[Fault, ...] = (
    JobCrash(1500.0, "job-1"),
    JobCrash(1700.0, "job-2"),
    NodeFailure(2000.0, "n1"),
    JobCrash(3333.0, "job-5"),
    NodeRecovery(4000.0, Node("n1", 4)),
)
CLUSTER = Cluster.uniform(8)
RETRIES = Retries(first_back_off_seconds=500.0)


def columns(table: JobTable) -> dict[str, list[object]]:
    size = len(table)
    arrays = {name: value for name, value in vars(table).items() if isinstance(value, np.ndarray)}
    arrays.pop("active")
    return {name: value[:size].tolist() for name, value in arrays.items()}


@pytest.mark.parametrize("seed", range(3))
def test_folding_the_journal_gives_the_state_that_wrote_it(seed: int) -> None:
    learning = Learning()
    run = Run(
        random_jobs(seed), cluster=CLUSTER, policy=RandomPolicy(seed), predictor=learning,
        rounds=Rounds(), faults=FAULTS, retries=RETRIES,
    )  # fmt: skip
    run.loop.intake.journal_progress = True
    learned: list[FinishedJob] = []
    folded = SchedulerState(CLUSTER.nodes, RETRIES, learned.append)
    position, steps = 0, 0
    while run.loop.step():
        for event in run.events[position:]:
            folded.apply(from_record(to_record(event)))
        position = len(run.events)
        steps += 1
        state = run.loop.state
        assert folded.table.active.tolist() == state.table.active.tolist()
        assert folded.running().tolist() == state.running().tolist()
        assert folded.placer.gpus == state.placer.gpus
        for handle in state.running().tolist():
            assert folded.placer.placement(handle) == state.placer.placement(handle)
        np.testing.assert_equal(columns(folded.table), columns(state.table))
    assert steps > 20
    for event in run.events[position:]:
        folded.apply(event)
    assert learned == learning.learned
    assert len(learned) == len(run.finishes) == 12
