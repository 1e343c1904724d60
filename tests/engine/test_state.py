"""The scheduler's state is the fold of its journal, at any moment of any run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.runs import Learning, RandomPolicy, Run

from shockwave.engine import snapshot, table
from shockwave.engine.retry import Retries
from shockwave.engine.rounds import Rounds
from shockwave.engine.state import SchedulerState
from shockwave.executors.faults import (
    Fault,
    JobCrash,
    JobFailure,
    NodeFailure,
    NodeOccupation,
    NodeRecovery,
)
from shockwave.model.cluster import Cluster, Node
from shockwave.model.errors import StuckError
from shockwave.model.event_records import from_record, to_record
from shockwave.model.events import (
    CancelRequested,
    Event,
    JobChanged,
    JobHeld,
    JobReleased,
    NodeDrained,
    NodeResumed,
    Request,
    RequeueRequested,
    Starts,
)
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


def assert_same(one: SchedulerState, other: SchedulerState) -> None:
    (mine, my_arrays), (theirs, their_arrays) = map(snapshot.to_document, (one, other))
    assert mine == theirs
    np.testing.assert_equal(my_arrays, their_arrays)


def fold(events: Sequence[Event], state: SchedulerState | None = None) -> SchedulerState:
    """Through records, as a journal on disk holds them."""
    state = state or SchedulerState()
    for event in events:
        state.apply(from_record(to_record(event)))
    return state


@pytest.mark.parametrize("starts", Starts)
@pytest.mark.parametrize("seed", range(3))
def test_folding_the_journal_gives_the_state_that_wrote_it(seed: int, starts: Starts) -> None:
    learning = Learning()
    run = Run(
        random_jobs(seed), cluster=CLUSTER, policy=RandomPolicy(seed), predictor=learning,
        rounds=Rounds(), starts=starts, faults=FAULTS, retries=RETRIES,
    )  # fmt: skip
    folded, position, steps = SchedulerState(), 0, 0
    while run.loop.step():
        fold(run.events[position:], folded)
        position = len(run.events)
        steps += 1
        assert_same(folded, run.loop.state)
    assert steps > 20
    fold(run.events[position:], folded)
    assert list(folded.experience) == learning.learned
    assert len(learning.learned) == len(run.finishes) == 12


JOBS = 10
times = st.floats(0.0, 8_000.0).map(lambda seconds: round(seconds, 1))
names = st.integers(0, JOBS - 1).map("job-{}".format)
node_names = st.sampled_from(["n0", "n1"])
faults = st.one_of(
    st.builds(JobCrash, times, names),
    st.builds(JobFailure, times, names, st.just("out of memory")),
    st.builds(NodeFailure, times, node_names),
    st.builds(NodeRecovery, times, st.builds(Node, node_names, st.integers(2, 4))),
    st.builds(NodeOccupation, times, node_names, st.integers(0, 2)),
)
wishes = st.one_of(
    st.builds(CancelRequested, times, names),
    st.builds(RequeueRequested, times, names),
    st.builds(JobHeld, times, names),
    st.builds(JobReleased, times, names),
    st.builds(NodeDrained, times, node_names),
    st.builds(NodeResumed, times, node_names),
    st.tuples(times, names, st.integers(1, 4)),  # another number of GPUs
)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 99),
    starts=st.sampled_from(Starts),
    faults=st.lists(faults, max_size=8),
    wishes=st.lists(wishes, max_size=8),
    few=st.integers(0, 3),
    every=st.integers(1, 25),
)
def test_a_snapshot_and_what_came_after_it_are_the_whole_journal(
    seed: int,
    starts: Starts,
    faults: list[Fault],
    wishes: list[Request | tuple[float, str, int]],
    few: int,
    every: int,
) -> None:
    """Whatever happens and is asked for, and while jobs that have ended leave the table."""
    jobs = random_jobs(seed, count=JOBS)
    specs = {job.spec.id: job.spec for job in jobs}
    asked = [
        JobChanged(wish[0], replace(specs[wish[1]], gpus=wish[2]))
        if isinstance(wish, tuple)
        else wish
        for wish in wishes
    ]
    run = Run(
        jobs, cluster=CLUSTER, policy=RandomPolicy(seed), rounds=Rounds(), starts=starts,
        faults=faults, asked=asked, retries=replace(RETRIES, most_crashes=3),
    )  # fmt: skip
    with patch.object(table, "_FEW_ENDED", few):
        with suppress(StuckError):  # held or drained for ever
            run.go()
        run.log.flush()
        folded, restored = SchedulerState(), SchedulerState()
        for first in range(0, len(run.events), every):
            some = run.events[first : first + every]
            fold(some, folded)
            restored = fold(some, snapshot.load(snapshot.dump(restored))[0])
            assert_same(restored, folded)
        assert_same(folded, run.loop.state)
