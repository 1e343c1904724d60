"""A live run in virtual time: looks take a while, and jobs tell what they told."""

from __future__ import annotations

import math

import numpy as np

from shockwave.engine.executor import Launch
from shockwave.executors.replayed import EndSeconds, LaunchSeconds, Overheads, ReplayedExecutor
from shockwave.model.events import JobFinished
from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob

ALL = None


def job(name: str, epochs: int, epoch_seconds: float) -> TraceJob:
    spec = JobSpec(name, 0.0, 1, epochs, (32,), (math.nan,), adaptation=Adaptation.STATIC)
    return TraceJob(spec, (Regime(32, epochs, epoch_seconds),))


def executor(
    overheads: Overheads, *jobs: TraceJob, told: dict[str, dict[int, float]] | None = None
) -> ReplayedExecutor:
    """With all jobs running since second 0."""
    made = ReplayedExecutor(jobs, overheads, round_seconds=60.0, told=told)
    orders = [Launch(n, j.spec, (("n0", (n,)),), 1) for n, j in enumerate(jobs)]
    made.launch(orders)
    return made


def finished(replayed: ReplayedExecutor, until: float) -> dict[str, float]:
    return {e.job: e.time for e in replayed.poll(until) if isinstance(e, JobFinished)}


def test_one_look_sees_all_that_ended_before_it_was_over() -> None:
    """Else the second would be a look, and a decision, of its own."""
    jobs = job("a", 1, 10.0), job("b", 1, 10.1), job("c", 1, 10.3)
    replayed = executor(Overheads(LaunchSeconds(), look=0.2), *jobs)
    assert finished(replayed, 10.0) == {"a": 10.0, "b": 10.0}  # as if it had been just then
    assert finished(replayed, 10.3) == {"c": 10.3}


def test_an_end_is_seen_by_a_look_that_there_was() -> None:
    """An end that comes a little earlier than it did does not move all that follows."""
    ends = {"a": EndSeconds(notice=0.5)}
    overheads = Overheads(LaunchSeconds(), ends=ends, look=0.1, looked=(3.0, 10.55, 30.0))
    replayed = executor(overheads, job("a", 1, 10.0))
    assert finished(replayed, 10.5) == {}
    assert replayed.quiet_until() == 10.55
    replayed = executor(overheads, job("a", 1, 12.0))  # it ran otherwise than it did
    finished(replayed, 12.0)
    assert replayed.quiet_until() == 12.5


def test_progress_is_that_of_the_end_of_a_look() -> None:
    overheads = Overheads(LaunchSeconds(), look=0.05, looks={60.0: 0.5}, save=0.25)
    replayed = executor(overheads, job("a", 9, 20.1), told={"a": {2: 19.0}})
    replayed.poll(20.0)
    early = replayed.progress(ALL)
    assert early.epochs_done.tolist() == [0.0]
    replayed.poll(60.0)
    told = replayed.progress(ALL)
    assert (told.time, told.epochs_done.tolist()) == (60.0, [3.0])
    assert told.epoch_seconds.tolist() == [20.1]  # nobody had asked it then
    assert told.unsaved_seconds is not None
    assert told.unsaved_seconds.tolist() == [0.0]  # it has done the third 0.2 s ago


def test_a_job_tells_what_it_told_of_its_epochs() -> None:
    replayed = executor(Overheads(LaunchSeconds()), job("a", 9, 20.0), told={"a": {2: 19.0}})
    for until, seconds in ((20.0, 20.0), (45.0, 19.0), (60.0, 20.0)):
        replayed.poll(until)
        assert replayed.progress(ALL).epoch_seconds.tolist() == [seconds]


def test_a_job_that_is_stopped_works_until_it_saves() -> None:
    launch = LaunchSeconds(stop=3.0, leave=1.0)
    replayed = executor(Overheads(launch), job("a", 9, 20.0))
    replayed.poll(30.0)
    replayed.stop(np.array([0]))
    replayed.poll(40.0)
    unsaved = replayed.progress(ALL).unsaved_seconds
    assert unsaved is not None
    assert unsaved.tolist() == [1.0]
    replayed.launch([Launch(0, job("a", 9, 20.0).spec, (("n0", (0,)),), 2)])
    replayed.poll(48.0)  # 30 + 2 of work before, 8 since
    assert replayed.progress(ALL).epochs_done.tolist() == [2.0]
