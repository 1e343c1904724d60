"""What every executor must do. Runs in the executor's own time, virtual or real."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pytest

from shockwave.engine.executor import Executor, Launch
from shockwave.model.events import (
    Event,
    JobFinished,
    JobStopped,
    NodeDown,
    Placement,
    RegimeChanged,
    StopReason,
)
from shockwave.model.job import JobSpec
from shockwave.model.progress import Progressed

E = TypeVar("E", bound=Event)
Jobs = tuple[JobSpec, JobSpec]
_FINISHED: dict[type, tuple[Watch, JobSpec, str | None]] = {}  # by the class of the suite


class ExecutorContract(ABC):
    """Subclass it and say how to make the executor and which jobs it can run.

    ``make`` returns an executor that knows two jobs of one GPU that take about ``seconds``
    seconds each, in four epochs, and the specs of both. The executor is polled every ``step``
    seconds and given ``most_rounds`` polls to get anywhere: in real time let that be many, a
    busy machine is slow. Time is checked only where it is ``exact``.

    The other ``make_...`` methods describe situations; one that an executor cannot be in
    returns None, and its tests are skipped. Where executors must be closed, do so after each
    test, for example in a fixture of the subclass.
    """

    seconds = 400.0
    step = 100.0
    restart_seconds = 20.0
    most_rounds = 20
    exact = True

    @abstractmethod
    def make(self) -> tuple[Executor, Jobs]:
        """A fresh executor and its two jobs."""

    def make_with_crash(self) -> tuple[Executor, Jobs] | None:
        """The same, but the first job dies unasked in its first launch, after an epoch."""
        return None

    def make_with_lost_node(self) -> tuple[Executor, Jobs] | None:
        """The same, but the node of the first job goes down after an epoch."""
        return None

    def make_with_wide_gang(self) -> tuple[Executor, JobSpec, Placement] | None:
        """An executor with a job that needs more GPUs than one node has, and where to put it."""
        return None

    def restarted(self, executor: Executor) -> Executor | None:
        """What comes in the executor's place when the scheduler was killed and is back."""
        return None

    def log(self, executor: Executor, job: JobSpec) -> str | None:
        """What a job that ran to its end has written; None if output is not kept."""
        return None

    def placement(self, slots: tuple[int, ...]) -> Placement:
        return (("n0", slots),)

    # Running.

    def test_a_job_runs_to_its_end_and_says_when(self) -> None:
        watch, first, _ = self._one_that_finished()
        assert [event.job for event in watch.of(JobFinished)] == [first.id]
        finished = watch.of(JobFinished)[0]
        assert finished.exclusive_seconds > 0
        assert finished.time >= self.seconds * 0.9

    def test_progress_only_grows_while_a_job_runs(self) -> None:
        watch, first, _ = self._one_that_finished()
        done = watch.epochs_done(0)
        assert done == sorted(done)
        assert 0 < done[-1] <= first.epochs

    def test_what_was_productive_adds_up_to_what_the_job_took(self) -> None:
        watch, _, _ = self._one_that_finished()
        productive = watch.total("productive_seconds")
        held = watch.total("held_seconds")
        exclusive = watch.of(JobFinished)[0].exclusive_seconds
        assert abs(productive - exclusive) <= 1e-6 * exclusive
        assert 0 < productive <= held + 1e-6

    def test_events_come_in_order_of_time_and_the_first_regime_is_told(self) -> None:
        watch, _, _ = self._one_that_finished()
        times = [event.time for event in watch.events]
        assert times == sorted(times)
        assert watch.of(RegimeChanged)[0].epoch == 0
        assert not watch.of(JobStopped)

    def test_two_gangs_run_side_by_side(self) -> None:
        executor, (first, second) = self.make()
        watch = self._watch(executor)
        watch.launch([self._order(first), self._order(second, handle=1, slots=(1,))])
        watch.until_finished([first, second])
        # Both are seen to run at once, not one after the other.
        assert any(len(told.handle) == 2 for told in watch.progress)

    def test_a_gang_larger_than_a_node_runs(self) -> None:
        made = self.make_with_wide_gang() or pytest.skip("gangs stay on one node")
        executor, job, placement = made
        assert len(placement) > 1
        watch = self._watch(executor)
        watch.launch([Launch(0, job, placement, 1)])
        watch.until_finished([job])

    def test_output_is_kept(self) -> None:
        _, _, text = self._one_that_finished()
        if text is None:
            pytest.skip("output is not kept")
        assert text

    # Going on and stopping.

    def test_a_job_that_is_left_alone_is_not_restarted(self) -> None:
        executor, (first, _) = self.make()
        watch = self._launch(executor, first)
        for _ in range(3):
            watch.poll()
        productive = watch.total("productive_seconds")
        held = watch.total("held_seconds")
        assert not watch.of(JobStopped)
        if self.exact:
            assert productive >= held - 1.5 * self.restart_seconds
        watch.until_finished([first])

    def test_a_stopped_job_makes_no_progress_and_goes_on_where_it_stopped(self) -> None:
        executor, (first, _) = self.make()
        watch = self._launch(executor, first)
        watch.until(lambda: watch.epochs(0) >= 1)
        before = watch.epochs(0)
        executor.stop(np.array([0]))
        watch.poll()
        watch.poll()
        assert before <= watch.epochs(0) < first.epochs
        watch.launch([self._order(first, attempt=2)])
        watch.until_finished([first])
        assert watch.epochs(0) > before
        assert watch.epochs_done(0) == sorted(watch.epochs_done(0))  # nothing is done twice
        assert not watch.of(JobStopped)  # whoever stops a job knows
        told = [event.epoch for event in watch.of(RegimeChanged)]
        assert told == sorted(set(told))  # every regime once

    def test_a_cancelled_job_is_not_heard_of_again_and_its_gpu_is_free(self) -> None:
        executor, (first, second) = self.make()
        watch = self._launch(executor, first)
        watch.until(lambda: watch.epochs(0) > 0)
        executor.stop(np.array([0]))
        watch.launch([self._order(second, handle=1)])  # on the very same slot
        seen = len(watch.events)
        watch.until_finished([second])
        assert {event.job for event in watch.of(JobFinished)} == {second.id}
        heard = [event for event in watch.events[seen:] if getattr(event, "job", None) == first.id]
        # What it entered before it left may still be news.
        assert all(isinstance(event, RegimeChanged) for event in heard)

    def test_orders_about_jobs_that_do_not_run_are_passed_over(self) -> None:
        executor, (first, second) = self.make()
        watch = self._launch(executor, first)
        watch.until_finished([first])
        executor.stop(np.array([0]))
        watch.launch([self._order(second, handle=1)])
        watch.until_finished([second])

    # What goes wrong.

    def test_a_crash_is_told_and_what_was_saved_is_kept(self) -> None:
        made = self.make_with_crash() or pytest.skip("no crash can be arranged")
        executor, (first, _) = made
        watch = self._launch(executor, first)
        watch.until(lambda: bool(watch.of(JobStopped)))
        (crash,) = watch.of(JobStopped)
        assert (crash.job, crash.reason) == (first.id, StopReason.CRASHED)
        assert 0 < crash.epochs_done < first.epochs
        assert watch.epochs(0) == crash.epochs_done
        watch.poll()
        assert len(watch.progress[-1].handle) == 0  # it holds nothing any more
        watch.launch([self._order(first, attempt=2)])
        watch.until_finished([first])
        assert len(watch.of(JobStopped)) == 1
        productive = watch.total("productive_seconds")
        exclusive = watch.of(JobFinished)[0].exclusive_seconds
        assert abs(productive - exclusive) <= 1e-6 * exclusive  # lost work does not count

    def test_a_lost_node_takes_its_job_along(self) -> None:
        made = self.make_with_lost_node() or pytest.skip("no node can be lost")
        executor, (first, _) = made
        watch = self._launch(executor, first)
        watch.until(lambda: bool(watch.of(NodeDown)))
        (stop,) = watch.of(JobStopped)
        assert (stop.job, stop.reason) == (first.id, StopReason.NODE_LOST)
        assert watch.events.index(stop) < watch.events.index(watch.of(NodeDown)[0])

    def test_a_restarted_scheduler_finds_its_jobs_again(self) -> None:
        executor, (first, _) = self.make()
        watch = self._launch(executor, first)
        watch.until(lambda: watch.epochs(0) >= 1)
        back = self.restarted(executor) or pytest.skip("it does not outlive the scheduler")
        again = self._watch(back, start=len(watch.progress))
        back.adopt([self._order(first)])
        again.until_finished([first])
        assert not again.of(JobStopped)
        assert min(again.epochs_done(0)) >= watch.epochs(0)
        assert [event.job for event in again.of(JobFinished)] == [first.id]

    def test_a_launch_that_a_killed_scheduler_never_carried_out_is_told_as_stopped(self) -> None:
        executor, (first, second) = self.make()
        watch = self._launch(executor, first)
        watch.until(lambda: watch.epochs(0) > 0)
        back = self.restarted(executor) or pytest.skip("it does not outlive the scheduler")
        again = self._watch(back, start=len(watch.progress))
        back.adopt([self._order(first), self._order(second, handle=1, slots=(1,))])
        again.until(lambda: bool(again.of(JobStopped)))
        (stop,) = again.of(JobStopped)
        assert stop.job == second.id
        assert stop.reason is not StopReason.CRASHED  # the job did nothing wrong
        again.launch([self._order(second, handle=1, slots=(1,), attempt=2)])
        again.until_finished([first, second])

    # Helpers.

    def _one_that_finished(self) -> tuple[Watch, JobSpec, str | None]:
        """A job that was run to its end, and its output: once for all tests that only look."""
        told = _FINISHED.get(type(self))
        if told is None:
            executor, (first, _) = self.make()
            watch = self._launch(executor, first)
            watch.until_finished([first])
            told = _FINISHED[type(self)] = (watch, first, self.log(executor, first))
        return told

    def _order(
        self,
        job: JobSpec,
        *,
        handle: int = 0,
        slots: tuple[int, ...] = (0,),
        attempt: int = 1,
    ) -> Launch:
        return Launch(handle, job, self.placement(slots), attempt)

    def _watch(self, executor: Executor, start: int = 0) -> Watch:
        return Watch(executor, self.step, self.most_rounds, start)

    def _launch(self, executor: Executor, job: JobSpec) -> Watch:
        watch = self._watch(executor)
        watch.launch([self._order(job)])
        return watch


class Watch:
    """Polls an executor round by round and keeps what it was told."""

    def __init__(self, executor: Executor, step: float, most_rounds: int, start: int = 0) -> None:
        self.executor = executor
        self.progress: list[Progressed] = []  # one of every poll
        self.events: list[Event] = []
        self._step = step
        self._most_rounds = most_rounds
        self._round = start

    def launch(self, orders: Sequence[Launch]) -> None:
        self.executor.launch(orders)

    def poll(self) -> None:
        """One more round."""
        self._round += 1
        self.events += self.executor.poll(self._round * self._step)
        self.progress.append(self.executor.progress())

    def until(self, happened: Callable[[], bool]) -> None:
        for _ in range(self._most_rounds):
            if happened():
                return
            self.poll()
        assert happened(), f"did not happen in {self._most_rounds} rounds: {self.events}"

    def until_finished(self, jobs: Sequence[JobSpec]) -> None:
        expected = {job.id for job in jobs}
        self.until(lambda: expected <= {event.job for event in self.of(JobFinished)})

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def epochs_done(self, handle: int) -> list[float]:
        """What each poll told of a job's epochs."""
        return [
            float(done)
            for told in self.progress
            for row, done in zip(told.handle, told.epochs_done, strict=True)
            if row == handle
        ]

    def epochs(self, handle: int) -> float:
        """The latest of them; 0 before the first."""
        return (self.epochs_done(handle) or [0.0])[-1]

    def total(self, column: str) -> float:
        """The sum of a column of progress over all polls."""
        return sum(float(getattr(told, column).sum()) for told in self.progress)
