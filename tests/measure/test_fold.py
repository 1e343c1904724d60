"""Journals become columns, and contradictions are named."""

from __future__ import annotations

import numpy as np
import pytest

from shockwave.measure import LeaseEnd, fold_history
from shockwave.model.cluster import Node
from shockwave.model.errors import JournalError
from shockwave.model.event_records import from_record, to_record
from shockwave.model.events import (
    Event,
    JobCancelled,
    JobFinished,
    NodeDown,
    NodeOccupied,
    NodeUp,
    StopReason,
)
from shockwave.model.job import JobState

from .journals import hand_made, run_started, started, stopped, submitted, toy_events, toy_workload


def test_columns_of_jobs() -> None:
    jobs = fold_history(hand_made()).jobs
    assert jobs.id == ("A", "B", "C")
    assert jobs.arrival.tolist() == [0.0, 20.0, 50.0]
    np.testing.assert_array_equal(jobs.finish, [350.0, 180.0, np.nan])
    np.testing.assert_array_equal(jobs.exclusive_seconds, [230.0, 70.0, np.nan])
    assert jobs.end.tolist() == [350.0, 180.0, 250.0]
    assert jobs.state.tolist() == [JobState.FINISHED, JobState.FINISHED, JobState.FAILED]
    assert jobs.first_start.tolist() == [0.0, 100.0, 200.0]
    assert jobs.starts.tolist() == [2, 1, 1]
    assert jobs.restarts.tolist() == [1, 0, 0]
    assert jobs.held_seconds.tolist() == [250.0, 80.0, 50.0]
    assert jobs.gpu_seconds.tolist() == [500.0, 80.0, 50.0]
    assert jobs.productive_seconds.tolist() == [230.0, 70.0, 40.0]
    assert jobs.waited_seconds.tolist() == [100.0, 80.0, 150.0]


def test_columns_of_leases_and_their_slots() -> None:
    history = fold_history(hand_made())
    leases = history.leases
    assert leases.job.tolist() == [0, 1, 2, 0]
    assert leases.start.tolist() == [0.0, 100.0, 200.0, 300.0]
    assert leases.stop.tolist() == [200.0, 180.0, 250.0, 350.0]
    assert leases.gpus.tolist() == [2, 1, 1, 2]
    assert leases.end.tolist() == [
        LeaseEnd.PREEMPTED, LeaseEnd.FINISHED, LeaseEnd.FAILED, LeaseEnd.FINISHED,
    ]  # fmt: skip
    assert [history.held_slots(lease) for lease in range(4)] == [[0, 1], [2], [3], [2, 3]]


def test_settings_and_decisions() -> None:
    history = fold_history(hand_made())
    assert (history.gpus, history.rounds, history.complete) == (4, 4, True)
    assert history.decisions.round.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(history.decisions.gap, [0.01, np.nan, 0.03, np.nan])


def test_restarts_are_counted_by_what_ended_the_lease_before() -> None:
    events: list[Event] = [
        run_started(),
        submitted("A"),
        started(0.0, "A", 1),
        stopped(100.0, "A", StopReason.CRASHED),
        started(200.0, "A", 2),
        stopped(300.0, "A"),
        started(400.0, "A", 3),
        started(500.0, "A", 4, ("n1", 0)),  # moved without a stop
    ]
    history = fold_history(events)
    assert history.restart_reasons == {"crashed": 1, "moved": 1, "preempted": 1}
    assert history.leases.stop.tolist() == [100.0, 300.0, 500.0, 500.0]


def test_a_journal_that_breaks_off_counts_up_to_its_last_moment() -> None:
    history = fold_history(
        [run_started(), submitted("A"), started(10.0, "A"), submitted("B", 60.0)]
    )
    assert not history.complete
    assert history.jobs.state.tolist() == [JobState.RUNNING, JobState.WAITING]
    assert history.jobs.held_seconds.tolist() == [50.0, 0.0]
    assert history.jobs.end.tolist() == [60.0, 60.0]
    assert np.isnan(history.jobs.first_start[1])
    assert history.leases.end.tolist() == [LeaseEnd.OPEN]


def test_a_job_cancelled_while_it_waits_holds_nothing() -> None:
    history = fold_history([run_started(), submitted("A"), JobCancelled(30.0, "A")])
    assert history.jobs.state.tolist() == [JobState.CANCELLED]
    assert history.jobs.held_seconds.tolist() == [0.0]
    assert len(history.leases) == 0


def test_capacity_follows_the_nodes() -> None:
    history = fold_history(
        [
            run_started(),
            NodeDown(50.0, "n1"),
            NodeUp(80.0, Node("n2", 8)),
            NodeUp(90.0, Node("n1", 2)),
        ]
    )
    assert history.capacity_time.tolist() == [0.0, 50.0, 80.0, 90.0]
    assert history.capacity_gpus.tolist() == [4, 2, 10, 12]
    assert history.gpus == 4
    assert [node.id for node in history.nodes] == ["n0", "n1", "n2"]


def test_what_others_hold_is_not_there() -> None:
    history = fold_history(
        [
            run_started(),
            NodeOccupied(50.0, "n1", 2),
            NodeOccupied(60.0, "gone", 2),
            NodeOccupied(70.0, "n1", 1),
            NodeDown(80.0, "n1"),
            NodeUp(90.0, Node("n1", 2)),
        ]
    )
    assert history.capacity_time.tolist() == [0.0, 50.0, 70.0, 80.0, 90.0]
    assert history.capacity_gpus.tolist() == [4, 2, 3, 2, 4]
    assert history.gpus == 4
    assert history.available_gpu_seconds(60.0) == 50 * 4 + 10 * 2
    assert history.available_gpu_seconds(100.0) == 50 * 4 + 20 * 2 + 10 * 3 + 10 * 2 + 10 * 4


def test_a_cluster_that_starts_empty_counts_its_peak() -> None:
    history = fold_history([run_started([]), NodeUp(1.0, Node("a", 4)), NodeDown(2.0, "a")])
    assert history.gpus == 4


def test_the_same_columns_come_from_a_journal_that_was_written_and_read() -> None:
    events = toy_events(toy_workload(12), "round-robin")
    again = fold_history(from_record(to_record(event)) for event in events)
    first = fold_history(events)
    np.testing.assert_array_equal(first.jobs.finish, again.jobs.finish)
    np.testing.assert_array_equal(first.leases.stop, again.leases.stop)


def test_no_slot_is_held_twice_in_the_toy_journals() -> None:
    """Guards the tests' own journals: charts drawn from them must make sense."""
    history = fold_history(toy_events(toy_workload(), "round-robin"))
    held_until: dict[int, float] = {}
    for lease in range(len(history.leases)):
        for slot in history.held_slots(lease):
            assert held_until.get(slot, 0.0) <= history.leases.start[lease]
            held_until[slot] = float(history.leases.stop[lease])


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([submitted("A")], "begins with a run-started"),
        ([run_started(), run_started()], "starts a second"),
        ([run_started(), started(0.0, "A")], "'A' has events but was never submitted"),
        ([run_started(), JobFinished(0.0, "A", 1.0)], "'A' has events but was never submitted"),
        ([run_started(), submitted("A"), submitted("A")], "'A' was submitted twice"),
    ],
)
def test_contradictions_are_named(events: list[JobFinished], message: str) -> None:
    with pytest.raises(JournalError, match=message):
        fold_history(events)


def test_an_unknown_node_is_named() -> None:
    history = fold_history([run_started(), submitted("A"), started(0.0, "A", 1, ("x", 0))])
    with pytest.raises(JournalError, match="node 'x'"):
        history.held_slots(0)
