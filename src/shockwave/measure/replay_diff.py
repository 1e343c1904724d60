"""Where a run and its replay part: the first round in which they run different jobs, and why.

Both journals are folded by the scheduler's own state, so what is shown of a job is what its
policy could see of it when it decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shockwave.engine.state import SchedulerState
from shockwave.model.events import Event, RoundDecided


@dataclass(frozen=True)
class SeenJob:
    """A job as it was when a round was decided."""

    runs: bool
    epochs_done: float
    received_seconds: float
    restarts: int


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
class Difference:
    """The same round of both runs, and how many rounds before it were decided alike."""

    alike: int
    live: SeenRound
    simulated: SeenRound

    @property
    def jobs(self) -> list[str]:
        """Those that only one of the two runs or has first, then the others."""
        apart = self.live.running ^ self.simulated.running
        there = self.live.jobs.keys() ^ self.simulated.jobs.keys()
        both = [*self.live.jobs, *(j for j in self.simulated.jobs if j not in self.live.jobs)]
        return sorted(both, key=lambda job: (job not in apart, job not in there))


def first_difference(live: Iterable[Event], simulated: Iterable[Event]) -> Difference | None:
    """None if both ran the same jobs in all rounds that both have decided on."""
    rounds, others = _rounds(live), _rounds(simulated)
    for alike, number in enumerate(sorted(rounds.keys() & others.keys())):
        one, other = rounds[number], others[number]
        if one.running != other.running:
            return Difference(alike, one, other)
    return None


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
        )
    return SeenRound(event.round, event.time, event.gpus_up, jobs)
