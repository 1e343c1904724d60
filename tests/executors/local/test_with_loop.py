"""The round loop over real processes: preempts, cancels, is killed and goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.engine.runs import ListJournal
from tests.executors.local import harness

from shockwave.engine.clock import Clock
from shockwave.engine.executor import Executor, Launch
from shockwave.engine.feed import Feed
from shockwave.engine.log import Log
from shockwave.engine.loop import RoundLoop
from shockwave.engine.retry import Retries
from shockwave.engine.state import SchedulerState
from shockwave.model.cluster import Node
from shockwave.model.command import Command
from shockwave.model.events import (
    CancelRequested,
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    RegimeChanged,
    RunStarted,
    StopReason,
)
from shockwave.model.job import JobSpec
from shockwave.model.progress import Progressed
from shockwave.model.view import Ints
from shockwave.policies.las import Las
from shockwave.predict.reactive import Reactive

ROUND_SECONDS = 0.5
NODES = (Node("n0", 1),)


class RealTime(Clock):
    def __init__(self, origin: float) -> None:
        self._origin = origin

    def wait_until(self, seconds: float) -> float:
        time.sleep(max(0.0, self._origin + seconds - time.time()))
        return max(seconds, time.time() - self._origin)


class Given(Feed):
    """Jobs that are there from the beginning."""

    def __init__(self, jobs: Sequence[JobSpec]) -> None:
        self._jobs = list(jobs)

    def due(self, now: float) -> list[JobSpec]:
        jobs, self._jobs = self._jobs, []
        return jobs

    def next_arrival(self) -> float:
        return float("inf")


def make_loop(
    executor: Executor, feed: Feed, origin: float, journal: ListJournal | None = None
) -> tuple[RoundLoop, ListJournal]:
    """A loop that goes on where the journal ends."""
    journal, state = journal or ListJournal(), SchedulerState()
    for event in journal.events:
        state.apply(event)
    log = Log(state, journal)
    if state.run is None:
        log.emit(
            RunStarted(
                0.0,
                policy="las",
                predictor="reactive",
                trace="",
                nodes=NODES,
                round_seconds=ROUND_SECONDS,
                restart_seconds=0.1,
                seed=0,
                version="0",
            )
        )
    loop = RoundLoop(
        policy=Las(),
        predictor=Reactive(),
        executor=executor,
        feed=feed,
        log=log,
        clock=RealTime(origin),
        retries=Retries(most_crashes=2),
    )
    return loop, journal


def is_progress(event: Event) -> bool:
    return isinstance(event, Progressed) and len(event.handle) > 0


def test_jobs_take_turns_survive_a_restart_and_finish_once(tmp_path: Path) -> None:
    origin, root = time.time(), tmp_path / "root"
    commands = {
        "a": harness.tiny(tmp_path, epochs=5, configurations="32,32,64"),
        "b": harness.tiny(tmp_path, epochs=5),
        "bad": Command((sys.executable, "-c", "raise SystemExit('no data')"), str(tmp_path)),
    }
    feed = Given([harness.spec("a", epochs=5), harness.spec("b", epochs=5), harness.spec("bad")])
    with harness.executor(root, commands, nodes=NODES, origin=origin) as executor:
        loop, journal = make_loop(executor, feed, origin)
        harness.wait_until(lambda: loop.step() and any(map(is_progress, journal.events)))
        executor.shutdown(stop_jobs=False)  # as if killed
    with harness.executor(root, commands, nodes=NODES, origin=origin) as executor:
        loop, _ = make_loop(executor, Given([]), origin, journal)
        loop.resume(time.time() - origin)
        harness.wait_until(lambda: not loop.step())
    events = journal.events
    finished = {e.job: e for e in events if isinstance(e, JobFinished)}
    assert sorted(finished) == ["a", "b"]
    assert sum(isinstance(e, JobFinished) for e in events) == 2
    assert [e.job for e in events if isinstance(e, JobFailed)] == ["bad"]
    crashes = [e for e in events if isinstance(e, JobStopped) and e.reason is StopReason.CRASHED]
    assert {e.job for e in crashes} == {"bad"}
    assert all("no data" in e.detail for e in crashes)
    progress = [event for event in events if isinstance(event, Progressed)]
    for handle, job in enumerate("ab"):
        productive = sum(float(p.productive_seconds[p.handle == handle].sum()) for p in progress)
        assert productive == pytest.approx(finished[job].exclusive_seconds)
        attempts = [e.attempt for e in events if isinstance(e, JobStarted) and e.job == job]
        assert attempts == list(range(1, len(attempts) + 1))
    regimes = [e for e in events if isinstance(e, RegimeChanged) and e.job == "a"]
    assert {(e.epoch, e.configuration) for e in regimes} == {(0, 32), (2, 64)}
    # Progress is summed up at the end of a round, and comes before what happened in it.
    times = [event.time for event in events if not is_progress(event)]
    assert times == sorted(times)


def test_a_job_that_is_killed_again_and_again_is_not_given_up(tmp_path: Path) -> None:
    """Each time before it could make any progress, and more often than it may crash."""
    origin = time.time()
    dies = (
        "import os, signal\n"
        "if int(os.environ['SHOCKWAVE_GENERATION']) <= 4: os.kill(os.getpid(), signal.SIGKILL)"
    )
    commands = {"a": harness.script(tmp_path, dies)}
    with harness.executor(tmp_path / "root", commands, nodes=NODES, origin=origin) as executor:
        loop, journal = make_loop(executor, Given([harness.spec("a")]), origin)
        harness.wait_until(lambda: not loop.step())
    stops = [e.reason for e in journal.events if isinstance(e, JobStopped)]
    assert stops == [StopReason.KILLED] * 4
    assert [e.job for e in journal.events if isinstance(e, JobFinished)] == ["a"]


class FinishesWhenStopped(Executor):
    """A job that was done at the very moment it was told to stop."""

    def __init__(self) -> None:
        self.news: list[JobFinished] = []

    def launch(self, launches: Sequence[Launch]) -> None:
        pass

    def stop(self, handles: Ints) -> None:
        self.news.append(JobFinished(0.0, "a", 1.0))

    def poll(self, until: float) -> list[Event]:
        news, self.news = self.news, []
        return list(news)

    def progress(self, handles: Ints | None = None) -> Progressed:
        return Progressed.nothing(0.0)


def test_a_cancelled_job_stays_cancelled_even_if_it_finished_meanwhile() -> None:
    loop, journal = make_loop(FinishesWhenStopped(), Given([harness.spec("a")]), time.time())
    loop.step()
    loop.log.request(lambda: [CancelRequested(0.0, "a")])
    loop.step()
    loop.step()
    ends = [e for e in journal.events if isinstance(e, JobFinished | JobCancelled)]
    assert [type(event) for event in ends] == [JobCancelled]
