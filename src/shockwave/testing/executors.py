"""What every executor must do. Runs in the executor's own time, virtual or real."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from shockwave.engine.executor import Executor, Launch, Poll, Signal
from shockwave.model.events import JobFinished, JobStopped, Placement, RegimeChanged
from shockwave.model.job import JobSpec


class ExecutorContract(ABC):
    """Subclass it and say how to make the executor and which jobs it can run.

    ``make`` returns an executor that knows two jobs of ``gpus`` GPUs that take about
    ``seconds`` seconds each, in four epochs, and the specs of both.
    """

    seconds = 400.0
    step = 100.0
    restart_seconds = 20.0

    @abstractmethod
    def make(self) -> tuple[Executor, tuple[JobSpec, JobSpec]]:
        """A fresh executor and its two jobs."""

    def placement(self, slots: tuple[int, ...]) -> Placement:
        return (("n0", slots),)

    def test_a_job_runs_to_its_end_and_says_when(self) -> None:
        executor, (first, _) = self.make()
        self._launch(executor, 0, first)
        polls = self._poll(executor, rounds=8, handles=[0])
        finished = [e for poll in polls for e in poll.events if isinstance(e, JobFinished)]
        assert [event.job for event in finished] == [first.id]
        assert finished[0].exclusive_seconds > 0
        assert finished[0].time >= self.seconds * 0.9

    def test_progress_only_grows_while_a_job_runs(self) -> None:
        executor, (first, _) = self.make()
        self._launch(executor, 0, first)
        polls = self._poll(executor, rounds=3, handles=[0])
        done = [float(poll.progress.epochs_done[0]) for poll in polls]
        assert done == sorted(done)
        assert done[-1] > 0

    def test_a_stopped_job_makes_no_progress_and_goes_on_where_it_stopped(self) -> None:
        executor, (first, _) = self.make()
        self._launch(executor, 0, first)
        before = self._poll(executor, rounds=2, handles=[0])[-1].progress.epochs_done[0]
        executor.stop(np.array([0]))
        idle = executor.poll(3 * self.step)
        assert len(idle.progress.handle) == 0 or idle.progress.epochs_done[0] == before
        self._launch(executor, 0, first, attempt=2)
        after = executor.poll(4 * self.step).progress.epochs_done[0]
        assert after >= before

    def test_renewing_a_lease_does_not_restart_the_job(self) -> None:
        executor, (first, _) = self.make()
        self._launch(executor, 0, first)
        polls = self._poll(executor, rounds=3, handles=[0])
        productive = sum(float(poll.progress.productive_seconds.sum()) for poll in polls)
        held = sum(float(poll.progress.held_seconds.sum()) for poll in polls)
        assert productive >= held - 1.5 * self.restart_seconds

    def test_two_gangs_run_side_by_side(self) -> None:
        executor, (first, second) = self.make()
        executor.launch(
            [
                Launch(0, first, self.placement((0,)), 1, self.step),
                Launch(1, second, self.placement((1,)), 1, self.step),
            ]
        )
        polls = self._poll(executor, rounds=8, handles=[0, 1])
        finished = {e.job for poll in polls for e in poll.events if isinstance(e, JobFinished)}
        assert finished == {first.id, second.id}

    def test_events_come_in_order_of_time_and_the_first_regime_is_told(self) -> None:
        executor, (first, _) = self.make()
        self._launch(executor, 0, first)
        events = [e for poll in self._poll(executor, rounds=8, handles=[0]) for e in poll.events]
        assert [e.time for e in events] == sorted(e.time for e in events)
        regimes = [e for e in events if isinstance(e, RegimeChanged)]
        assert regimes[0].epoch == 0
        assert not any(isinstance(e, JobStopped) for e in events)

    def _launch(self, executor: Executor, handle: int, job: JobSpec, attempt: int = 1) -> None:
        executor.launch([Launch(handle, job, self.placement((0,)), attempt, self.step)])

    def _poll(self, executor: Executor, rounds: int, handles: list[int]) -> list[Poll]:
        polls = []
        for number in range(1, rounds + 1):
            polls.append(executor.poll(number * self.step))
            executor.signal(np.array(handles), Signal.RENEW, (number + 1) * self.step)
        return polls
