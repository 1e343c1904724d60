"""Small hand-made jobs, policies that do as they are told, and what to read from a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from shockwave.engine.executor import Executor, Launch
from shockwave.engine.journal import Journal
from shockwave.engine.log import Log
from shockwave.engine.loop import Observer, RoundLoop
from shockwave.engine.retry import Retries
from shockwave.engine.rounds import Rounds
from shockwave.engine.state import SchedulerState
from shockwave.executors.faults import Fault
from shockwave.executors.simulated import SimulatedExecutor
from shockwave.executors.simulation import TraceFeed, by_arrival
from shockwave.model.cluster import Cluster
from shockwave.model.events import (
    Event,
    JobChanged,
    JobFinished,
    JobStarted,
    JobStopped,
    Request,
    RunStarted,
    Starts,
)
from shockwave.model.job import Adaptation, JobSpec, Preemptible, Regime, TraceJob
from shockwave.model.progress import Progressed
from shockwave.model.view import Ints, View
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fifo import Fifo
from shockwave.policies.fill import fill
from shockwave.predict.base import FinishedJob, Forecast, Predictor
from shockwave.predict.reactive import Reactive

E = TypeVar("E", bound=Event)


def make_job(
    name: str,
    *regimes: tuple[int, int, float],
    arrival: float = 0.0,
    gpus: int = 1,
    weight: float = 1.0,
    model: str = "",
    profile: dict[int, float] | None = None,
    preemptible: Preemptible = Preemptible.ALWAYS,
) -> TraceJob:
    """A job of (configuration, epochs, seconds per epoch) regimes; its profile is the truth."""
    seconds = {c: s for c, _, s in regimes} if profile is None else profile
    spec = JobSpec(
        id=name,
        arrival_seconds=arrival,
        gpus=gpus,
        epochs=sum(epochs for _, epochs, _ in regimes),
        configurations=tuple(seconds),
        epoch_seconds=tuple(seconds.values()),
        adaptation=Adaptation.CUSTOM if len(seconds) > 1 else Adaptation.STATIC,
        model=model,
        weight=weight,
        preemptible=preemptible,
    )
    return TraceJob(spec, tuple(Regime(c, epochs, s) for c, epochs, s in regimes))


class Scripted(Policy):
    """Runs the handles that the script names for each round; ``*`` means everybody."""

    name = "scripted"

    def __init__(self, script: Mapping[int, Sequence[int]], default: Sequence[int] | None = None):
        self.script = script
        self.default = default

    def decide(self, view: View, forecast: Forecast) -> Decision:
        wanted = self.script.get(view.round, self.default)
        if wanted is None:
            return Decision(fill(np.arange(len(view)), view))
        return Decision(np.flatnonzero(np.isin(view.handle, list(wanted))))


class RandomPolicy(Policy):
    """A new random order every round, work conserving."""

    name = "random"

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def decide(self, view: View, forecast: Forecast) -> Decision:
        order = self._rng.permutation(len(view))
        return Decision(fill(order, view))


class Fixed(Policy):
    """Returns the same array whatever it sees."""

    name = "fixed"

    def __init__(self, run: Ints) -> None:
        self.run = run

    def decide(self, view: View, forecast: Forecast) -> Decision:
        return Decision(self.run)


class Learning(Reactive):
    """Remembers what it was taught."""

    def __init__(self) -> None:
        self.learned: list[FinishedJob] = []

    def learn(self, finished: Sequence[FinishedJob]) -> None:
        self.learned.extend(finished)


class Recorder(Executor):
    """Passes everything on, and keeps what came back; ``skip=False`` hides quiet times."""

    def __init__(self, inner: SimulatedExecutor, *, skip: bool = True) -> None:
        self.inner = inner
        self.skip = skip
        self.polls: list[list[Event]] = []
        self.told: list[Progressed] = []

    def launch(self, launches: Sequence[Launch]) -> None:
        self.inner.launch(launches)

    def stop(self, handles: Ints) -> None:
        self.inner.stop(handles)

    def poll(self, until: float) -> list[Event]:
        self.polls.append(self.inner.poll(until))
        return self.polls[-1]

    def progress(self, handles: Ints | None = None) -> Progressed:
        self.told.append(self.inner.progress(handles))
        return self.told[-1]

    def quiet_until(self) -> float:
        quiet = self.inner.quiet_until()
        return quiet if self.skip else min(quiet, self.inner.now)


class ListJournal(Journal):
    """Keeps everything, progress included."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, events: Sequence[Event]) -> None:
        self.events += events


class Asking(TraceFeed):
    """A trace, and people who ask for something when its time has come."""

    def __init__(self, jobs: Sequence[TraceJob], log: Log, asked: Sequence[Request]) -> None:
        super().__init__(jobs)
        self._log = log
        self._asked = sorted(asked, key=lambda request: request.time)

    def due(self, now: float) -> list[JobSpec]:
        while self._asked and self._asked[0].time <= now:
            request = replace(self._asked.pop(0), time=now)
            if self._possible(request):
                self._log.request(partial(list, [request]))
        return super().due(now)

    def _possible(self, request: Request) -> bool:
        """A job that runs, or is gone, declares nothing new."""
        state = self._log.state
        if not isinstance(request, JobChanged):
            return True
        handle = state.table.find(request.job.id)
        return handle is not None and not state.is_running(handle)

    def next_arrival(self) -> float:
        return min([super().next_arrival(), *(request.time for request in self._asked[:1])])


class Run:
    """One simulation with everything in reach."""

    def __init__(
        self,
        jobs: Sequence[TraceJob],
        *,
        cluster: Cluster | None = None,
        policy: Policy | None = None,
        predictor: Predictor | None = None,
        rounds: Rounds | None = None,
        starts: Starts = Starts.ROUNDS,
        faults: Sequence[Fault] = (),
        asked: Sequence[Request] = (),
        retries: Retries | None = None,
        observers: Sequence[Observer] = (),
        skip: bool = True,
        executor: type[Recorder] = Recorder,
    ) -> None:
        rounds = rounds or Rounds(100.0, 10.0)
        policy, predictor = policy or Fifo(), predictor or Reactive()
        ordered = by_arrival(jobs)
        journal = ListJournal()
        self.executor = executor(
            SimulatedExecutor(ordered, rounds.restart_seconds, faults), skip=skip
        )
        self.views: list[View] = []
        self.log = Log(SchedulerState(), journal)
        self.log.emit(
            RunStarted(
                0.0,
                policy=policy.name,
                predictor=predictor.name,
                trace="",
                nodes=(cluster or Cluster.uniform(4)).nodes,
                round_seconds=rounds.round_seconds,
                restart_seconds=rounds.restart_seconds,
                seed=0,
                version="0",
                starts=starts,
            )
        )
        self.feed = Asking(ordered, self.log, asked)
        self.loop = RoundLoop(
            policy=policy,
            predictor=predictor,
            executor=self.executor,
            feed=self.feed,
            log=self.log,
            retries=retries,
            observers=(self._see, *observers),
        )
        self.events = journal.events

    def _see(self, view: View, forecast: Forecast, decision: Decision) -> None:
        self.views.append(view)

    def go(self, until: Callable[[], bool] = lambda: False) -> Run:
        while not until() and self.loop.step():
            pass
        return self

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def finishes(self) -> dict[str, float]:
        return {event.job: event.time for event in self.of(JobFinished)}

    @property
    def starts(self) -> list[tuple[float, str]]:
        return [(event.time, event.job) for event in self.of(JobStarted)]

    @property
    def stops(self) -> list[tuple[float, str, float]]:
        return [(event.time, event.job, event.epochs_done) for event in self.of(JobStopped)]
