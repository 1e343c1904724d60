"""Small hand-made jobs, policies that do as they are told, and what to read from a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from shockwave.engine.executor import Executor, Launch, Poll
from shockwave.engine.journal import MemoryJournal
from shockwave.engine.loop import Observer, RoundLoop
from shockwave.engine.retry import Retries
from shockwave.engine.state import Rounds
from shockwave.executors.faults import Fault
from shockwave.executors.simulated import SimulatedExecutor
from shockwave.executors.simulation import TraceArrivals, by_arrival
from shockwave.model.cluster import Cluster
from shockwave.model.events import Event, JobFinished, JobStarted, JobStopped
from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob
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
            return Decision(fill(np.arange(len(view)), view.gpus, view.gpus_total))
        return Decision(np.flatnonzero(np.isin(view.handle, list(wanted))))


class RandomPolicy(Policy):
    """A new random order every round, work conserving."""

    name = "random"

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def decide(self, view: View, forecast: Forecast) -> Decision:
        order = self._rng.permutation(len(view))
        return Decision(fill(order, view.gpus, view.gpus_total))


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
        self.polls: list[Poll] = []
        self._running: set[int] = set()

    def launch(self, launches: Sequence[Launch]) -> None:
        self.inner.launch(launches)

    def stop(self, handles: Ints) -> None:
        self.inner.stop(handles)

    def poll(self, until: float) -> Poll:
        self.polls.append(self.inner.poll(until))
        return self.polls[-1]

    def quiet_until(self) -> float:
        quiet = self.inner.quiet_until()
        return quiet if self.skip else min(quiet, self.inner.now)


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
        faults: Sequence[Fault] = (),
        retries: Retries | None = None,
        observers: Sequence[Observer] = (),
        skip: bool = True,
        executor: type[Recorder] = Recorder,
    ) -> None:
        rounds = rounds or Rounds(100.0, 10.0)
        ordered = by_arrival(jobs)
        journal = MemoryJournal()
        self.executor = executor(
            SimulatedExecutor(ordered, rounds.restart_seconds, faults), skip=skip
        )
        self.views: list[View] = []
        self.loop = RoundLoop(
            policy=policy or Fifo(),
            predictor=predictor or Reactive(),
            executor=self.executor,
            arrivals=TraceArrivals(ordered),
            cluster=cluster or Cluster.uniform(4),
            journal=journal,
            rounds=rounds,
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
