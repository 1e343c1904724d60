"""What may start when: groups, dependencies and time limits, in the loop that all runs share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.verbs.simulated import failed, finished, job, most_at_once, of, run, started

from shockwave.engine.snapshot import dump, load, to_document
from shockwave.engine.state import SchedulerState
from shockwave.executors.faults import JobFailure
from shockwave.model.event_records import from_record, to_record
from shockwave.model.events import (
    CancelRequested,
    Event,
    JobCancelled,
    JobStarted,
    JobStopped,
    JobSubmitted,
    Starts,
)
from shockwave.model.job import OnHang, Preemptible
from shockwave.policies.las import Las


@pytest.mark.parametrize("starts", Starts)
def test_a_group_never_runs_more_jobs_at_once_than_it_may(starts: Starts) -> None:
    sweep = [job(f"s{i}", 500, group="g", group_parallel=2) for i in range(6)]
    other = [job("other", 500)]
    events = run([*sweep, *other], gpus=4, starts=starts)
    assert set(finished(events)) == {*(f"s{i}" for i in range(6)), "other"}
    assert most_at_once(events, {f"s{i}" for i in range(6)}) == 2
    assert started(events)["other"] == 0.0  # the GPUs that the group leaves are for others
    assert [event.job for event in of(events, JobStarted)][:2] == ["s0", "s1"]


def test_a_preempting_policy_keeps_to_the_limit_of_a_group() -> None:
    sweep = [job(f"s{i}", 800, arrival=60.0 * i, group="g", group_parallel=2) for i in range(5)]
    others = [job(f"o{i}", 600, arrival=45.0 * i) for i in range(5)]
    events = run([*sweep, *others], gpus=3, policy=Las())
    assert of(events, JobStopped)  # somebody was preempted, or this would show nothing
    assert most_at_once(events, {f"s{i}" for i in range(5)}) == 2
    assert len(finished(events)) == 10


def test_two_groups_do_not_count_against_each_other() -> None:
    jobs = [job(f"{g}{i}", 300, group=g, group_parallel=1) for i in range(3) for g in "ab"]
    events = run(jobs, gpus=8)
    for group in "ab":
        assert most_at_once(events, {f"{group}{i}" for i in range(3)}) == 1
    assert started(events)["a0"] == started(events)["b0"] == 0.0


def test_a_job_starts_when_those_it_needs_have_finished() -> None:
    jobs = [job("a", 300), job("b", 500), job("c", 100, after=("a", "b"))]
    events = run(jobs)
    assert started(events)["c"] == max(finished(events)[name] for name in "ab")


def test_a_job_that_comes_when_what_it_needs_is_long_over_starts_at_once() -> None:
    events = run([job("a", 100), job("b", 3000), job("c", 100, arrival=2000.0, after=("a",))])
    assert started(events)["c"] == 2000.0


def test_who_needs_a_job_that_fails_fails_too_and_who_only_waits_for_its_end_runs() -> None:
    jobs = [
        job("a", 1000),
        job("needs", 100, after=("a",)),
        job("needs-needs", 100, after=("needs",)),
        job("waits", 100, after_any=("a",)),
        job("late", 100, arrival=900.0, after=("a",)),
        job("long", 2000),
    ]
    events = run(jobs, faults=[JobFailure(400.0, "a", "it was given up")])
    assert failed(events).keys() == {"a", "needs", "needs-needs", "late"}
    assert "a, which did not finish" in failed(events)["needs"]
    assert "needs, which did not finish" in failed(events)["needs-needs"]
    assert set(finished(events)) == {"waits", "long"}
    assert started(events)["waits"] >= 400.0
    assert "needs" not in started(events)


def test_a_job_that_used_up_its_time_fails_with_the_reason_and_frees_its_gpus() -> None:
    jobs = [job("a", 5000, time_limit_seconds=700.0), job("b", 100)]
    events = run(jobs, gpus=1)
    assert failed(events)["a"].startswith("time limit")
    assert started(events)["b"] == pytest.approx(700.0)
    assert set(finished(events)) == {"b"}


def test_who_needs_a_job_whose_time_is_over_fails_with_it() -> None:
    events = run([job("a", 5000, time_limit_seconds=700.0), job("b", 100, after=("a",))])
    assert failed(events).keys() == {"a", "b"}


def test_only_time_with_gpus_counts_against_a_limit() -> None:
    limited = job("a", 900, time_limit_seconds=1300.0)
    others = [job(f"o{i}", 600, arrival=300.0) for i in range(4)]
    events = run([limited, *others], gpus=1, policy=Las())
    assert any(event.job == "a" for event in of(events, JobStopped))
    assert finished(events)["a"] > 1300.0


def _choices() -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries(
        {
            "seconds": st.sampled_from([50.0, 300.0, 900.0]),
            "arrival": st.sampled_from([0.0, 10.0, 400.0]),
            "gpus": st.integers(1, 2),
            "group": st.sampled_from(["", "g", "h"]),
            "group_parallel": st.integers(0, 2),
            "needs": st.integers(0, 30),
            "any": st.booleans(),
            "limit": st.sampled_from([None, 200.0]),
        }
    )


@settings(max_examples=30, deadline=None)
@given(st.lists(_choices(), min_size=1, max_size=8), st.integers(1, 10**6))
def test_a_state_from_any_snapshot_and_the_events_after_it_is_the_same(
    choices: list[dict[str, object]], cut: int
) -> None:
    jobs = []
    for number, choice in enumerate(choices):
        needs = (f"j{choice['needs'] % number}",) if number and choice["needs"] else ()  # type: ignore[operator]
        jobs.append(
            job(
                f"j{number}",
                choice["seconds"],  # type: ignore[arg-type]
                arrival=choice["arrival"],  # type: ignore[arg-type]
                gpus=choice["gpus"],  # type: ignore[arg-type]
                group=choice["group"],
                group_parallel=choice["group_parallel"],
                time_limit_seconds=choice["limit"],
                **{"after_any" if choice["any"] else "after": needs},
            )
        )
    events = run(jobs, gpus=2, policy=Las())
    whole, part = SchedulerState(), SchedulerState()
    for event in events:
        whole.apply(event)
    position = cut % len(events)
    for event in events[:position]:
        part.apply(event)
    restored, _ = load(dump(part))
    for event in events[position:]:
        restored.apply(event)
    document, arrays = to_document(whole)
    again, arrays_again = to_document(restored)
    assert again == document
    for name, column in arrays.items():
        is_float = column.dtype.kind == "f"
        assert np.array_equal(column, arrays_again[name], equal_nan=is_float), name


def test_what_a_job_declares_survives_the_journal() -> None:
    spec = job(
        "a",
        100,
        group="g",
        group_parallel=3,
        after=("x", "y"),
        after_any=("z",),
        time_limit_seconds=60.0,
        on_hang=OnHang.RESTART,
        preemptible=Preemptible.WHEN_SAVED,
    ).spec
    event = JobSubmitted(1.0, spec)
    assert from_record(to_record(event)) == event


def test_who_waits_for_a_job_that_is_cancelled_waits_in_vain() -> None:
    state = SchedulerState()
    submitted: list[Event] = [
        JobSubmitted(0.0, job("a", 100).spec),
        JobSubmitted(0.0, job("b", 100, after=("a",)).spec),
        JobSubmitted(0.0, job("c", 100, after_any=("a",)).spec),
    ]
    for event in [*submitted, CancelRequested(1.0, "a")]:
        state.apply(event)
    assert state.eligible(1.0).tolist() == [0]
    state.apply(JobCancelled(2.0, "a"))
    assert state.eligible(2.0).tolist() == [2]
    assert state.dependencies.broken == [(1, "a")]
