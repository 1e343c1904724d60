"""Where a run and its replay part: the first round in which they run different jobs, and why.

Both journals are folded by the scheduler's own state, so what is shown of a job is what its
policy could see of it when it decided. Where GPUs are filled between rounds, they may have parted
before: the first start that differs is shown too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from shockwave.engine.state import SchedulerState
from shockwave.model.events import Event, JobStarted, RoundDecided


@dataclass(frozen=True)
class SeenJob:
    """A job as it was when a round was decided."""

    runs: bool
    epochs_done: float
    received_seconds: float
    restarts: int
    start_seconds: float | None  # that its last start took; None until it was measured
    unsaved_seconds: float | None  # of work; None as long as it has no checkpoint


@dataclass(frozen=True)
class SeenRound:
    """``gpus`` are those that could be used."""

    round: int
    time: float
    gpus: int
    jobs: dict[str, SeenJob]

    @property
    def running(self) -> frozenset[str]:
        return frozenset(job for job, seen in self.jobs.items() if seen.runs)


@dataclass(frozen=True)
class Started:
    """A gang that was started."""

    time: float
    job: str


@dataclass(frozen=True)
class Difference:
    """The same round of both runs, and how many rounds before it were decided alike.

    ``starts`` are the first ones that differ, live and simulated, in the order of starts.
    """

    alike: int
    live: SeenRound
    simulated: SeenRound
    starts: tuple[Started, Started] | None = None

    @property
    def jobs(self) -> list[str]:
        """Those that only one of the two runs or has first, then the others."""
        apart = self.live.running ^ self.simulated.running
        there = self.live.jobs.keys() ^ self.simulated.jobs.keys()
        both = [*self.live.jobs, *(j for j in self.simulated.jobs if j not in self.live.jobs)]
        return sorted(both, key=lambda job: (job not in apart, job not in there))


def first_difference(live: Iterable[Event], simulated: Iterable[Event]) -> Difference | None:
    """None if both ran the same jobs in all rounds that both have decided on."""
    lived, simulation = list(live), list(simulated)
    rounds, others = _rounds(lived), _rounds(simulation)
    for alike, number in enumerate(sorted(rounds.keys() & others.keys())):
        one, other = rounds[number], others[number]
        if one.running != other.running:
            return Difference(alike, one, other, _first_starts(lived, simulation))
    return None


def _first_starts(
    live: Iterable[Event], simulated: Iterable[Event]
) -> tuple[Started, Started] | None:
    both = (
        [Started(event.time, event.job) for event in events if isinstance(event, JobStarted)]
        for events in (live, simulated)
    )
    return next((pair for pair in zip(*both, strict=False) if pair[0].job != pair[1].job), None)


def _rounds(events: Iterable[Event]) -> dict[int, SeenRound]:
    """By number. A decision that holds for several rounds is seen in the first."""
    state = SchedulerState()
    found: dict[int, SeenRound] = {}
    for event in events:
        state.apply(event)
        if isinstance(event, RoundDecided):
            found[event.round] = _seen(state, event)
    return found


def _seen(state: SchedulerState, event: RoundDecided) -> SeenRound:
    table = state.table
    jobs = {}
    for handle in table.active.tolist():
        row = table.row(handle)
        jobs[table.spec(handle).id] = SeenJob(
            runs=state.is_running(handle),
            epochs_done=float(table.epochs_done[row]),
            received_seconds=float(table.received_seconds[row]),
            restarts=max(int(table.starts[row]) - 1, 0),
            start_seconds=_known(table.restart_seconds[row]),
            unsaved_seconds=_known(table.unsaved_seconds[row]),
        )
    return SeenRound(event.round, event.time, event.gpus_up, jobs)


def _known(seconds: np.float64) -> float | None:
    return None if np.isnan(seconds) else float(seconds)
