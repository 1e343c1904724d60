"""A day out of the journal. Run as a program it reads what to look at from standard input, so that
reading a long journal takes nothing from the scheduler."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from shockwave.measure.fairness import FAIRNESS, finish_time_fairness
from shockwave.measure.fold import fold_history
from shockwave.measure.series import mean_in_bins
from shockwave.model.cluster import Node
from shockwave.model.errors import JournalError
from shockwave.model.events import (
    Event,
    JobCancelled,
    JobChanged,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeUp,
    RoundDecided,
)
from shockwave.model.view import Floats
from shockwave.server import facts as facts_module
from shockwave.server.archive import Archive
from shockwave.server.fairness_metrics import LIVES, lives_of
from shockwave.server.records import JobRecord, State
from shockwave.server.store import Store
from shockwave.server.view_records import DayRecord, Lease, PastJob, PastNode

PARTS = 144
MOST_JOBS, MOST_LEASES = 5_000, 4_000
_KINDS = tuple(cls.kind for cls in (*LIVES, JobChanged, RoundDecided))


class Asked(BaseModel):
    """What to read, and what the scheduler knows that an old part of the journal would tell."""

    model_config = ConfigDict(frozen=True)

    day: str
    begin: float  # unix seconds, as all times here
    end: float
    lookback_seconds: float  # before the day, for jobs that were there already
    origin: float
    first_day: str
    last_day: str
    database: str
    archive: Path
    nodes: list[PastNode]
    active: list[JobRecord]
    running_since: dict[str, float]  # of these


@dataclass
class _Life:
    """A job, as far as it was there."""

    id: str
    name: str
    owner: str
    tenant: str
    weight: float
    gpus: int
    submitted: float
    state: State = "waiting"
    started: float | None = None
    ended: float | None = None
    leases: list[tuple[float, float, dict[str, list[int]]]] = field(default_factory=list)
    opened: tuple[float, dict[str, list[int]]] | None = None

    def close(self, time: float) -> None:
        if self.opened is not None:
            self.leases.append((self.opened[0], time, self.opened[1]))
            self.opened = None


class _Day:
    """The lists that grow while the journal is read."""

    def __init__(self, asked: Asked, store: Store) -> None:
        self._asked = asked
        self._store = store
        self.lives: dict[str, _Life] = {}
        self.rounds: list[RoundDecided] = []
        self.nodes = {node.id: node.gpus for node in asked.nodes}

    def apply(self, event: Event) -> None:
        time = self._asked.origin + event.time
        match event:
            case JobSubmitted(job=spec):
                arrived = self._asked.origin + spec.arrival_seconds
                self.lives[spec.id] = _Life(
                    spec.id, spec.name, spec.owner, spec.tenant, spec.weight, spec.gpus, arrived
                )
            case JobChanged(job=spec):
                life = self._life(spec.id)
                if life is not None:
                    life.name, life.weight, life.gpus = spec.name, spec.weight, spec.gpus
            case JobStarted():
                life = self._life(event.job)
                if life is not None:
                    life.close(time)
                    life.state = "running"
                    life.started = time if life.started is None else life.started
                    life.opened = (time, {node: list(held) for node, held in event.placement})
            case JobStopped():
                life = self._life(event.job)
                if life is not None:
                    life.close(time)
                    life.state = "waiting"
            case JobFinished() | JobFailed() | JobCancelled():
                life = self._life(event.job)
                if life is not None:
                    life.close(time)
                    life.state, life.ended = _END[type(event)], time
            case RoundDecided():
                self.rounds.append(event)
            case NodeUp(node=node):
                self.nodes[node.id] = node.gpus
            case _:
                pass

    def _life(self, job: str) -> _Life | None:
        """Of a job from before the part that was read, the index knows more."""
        if job not in self.lives:
            stored = self._store.job(job)
            if stored is None or stored.facts is None:
                return None
            facts = facts_module.from_json(stored.facts)
            spec = facts.spec
            life = _Life(
                job, spec.name, spec.owner, spec.tenant, spec.weight, spec.gpus,
                facts.submitted_unix, started=facts.started_unix,
            )  # fmt: skip
            read_from = self._asked.begin - self._asked.lookback_seconds
            life.leases = [
                (start, stop or self._asked.end, {})
                for start, stop, _ in facts.runs
                if start < read_from
            ]
            self.lives[job] = life
        return self.lives[job]

    def add_present(self) -> None:
        """Jobs of now that no event was about."""
        for record in self._asked.active:
            if record.id not in self.lives:
                life = self.lives[record.id] = _Life(
                    record.id, record.name, record.owner, record.tenant, record.weight,
                    record.gpus, record.submitted, record.state, record.started,
                )  # fmt: skip
                since = self._asked.running_since.get(record.id)
                life.opened = None if since is None else (since, record.slots)

    def record(self, ftf: dict[str, dict[str, float]]) -> DayRecord:
        asked = self._asked
        here = [
            life
            for life in self.lives.values()
            if life.submitted < asked.end and (life.ended is None or life.ended >= asked.begin)
        ]
        for life in here:
            life.close(asked.end)
        leases = [
            (life, max(start, asked.begin), min(stop, asked.end), slots)
            for life in here
            for start, stop, slots in life.leases
            if start < asked.end and stop > asked.begin
        ]
        held = np.array([(start, stop) for _, start, stop, _ in leases]).reshape(-1, 2)
        gpus = np.array([_held(life, slots) for life, _, _, slots in leases], dtype=np.float64)
        there = np.array(
            [
                (max(life.submitted, asked.begin), min(life.ended or asked.end, asked.end))
                for life in here
            ]
        ).reshape(-1, 2)
        edges = np.linspace(asked.begin, asked.end, PARTS + 1)
        running = mean_in_bins(held[:, 0], held[:, 1], np.ones(len(held)), edges)
        present = mean_in_bins(there[:, 0], there[:, 1], np.ones(len(there)), edges)
        used: dict[str, float] = {}
        own: dict[str, float] = {}
        for (life, start, stop, _), number in zip(leases, gpus.tolist(), strict=True):
            seconds = (stop - start) * number
            used[life.tenant] = used.get(life.tenant, 0.0) + seconds
            own[life.id] = own.get(life.id, 0.0) + seconds
        here.sort(key=lambda life: life.submitted)
        leases.sort(key=lambda item: item[1] - item[2])  # the longest first
        gpus_up, price = self._of_rounds(edges)
        return DayRecord(
            day=asked.day,
            begin=asked.begin,
            end=asked.end,
            first_day=asked.first_day,
            last_day=asked.last_day,
            gpus_busy=_rounded(mean_in_bins(held[:, 0], held[:, 1], gpus, edges)),
            gpus_up=gpus_up,
            running=_rounded(running),
            waiting=_rounded(np.maximum(present - running, 0.0)),
            price=price,
            nodes=[PastNode(id=name, gpus=gpus) for name, gpus in self.nodes.items()],
            jobs=[
                PastJob(
                    id=life.id, name=life.name, owner=life.owner, tenant=life.tenant,
                    state=life.state, gpus=life.gpus, submitted=life.submitted,
                    started=life.started, ended=life.ended,
                    gpu_seconds=round(own.get(life.id, 0.0), 1), ftf=ftf.get(life.id, {}),
                )
                for life in here[-MOST_JOBS:]
            ],
            leases=[
                Lease(job=life.id, start=round(start, 1), stop=round(stop, 1), slots=slots)
                for life, start, stop, slots in leases[:MOST_LEASES]
                if slots
            ],
            tenants={name: round(seconds, 1) for name, seconds in sorted(used.items())},
            weights={life.tenant: life.weight for life in here},
            jobs_left_out=max(len(here) - MOST_JOBS, 0),
            leases_left_out=max(len(leases) - MOST_LEASES, 0),
        )  # fmt: skip

    def _of_rounds(self, edges: Floats) -> tuple[list[float | None], list[float | None]]:
        """GPUs that were up, and the mean price, in each part of the day."""
        up: list[float | None] = [None] * PARTS
        prices: list[list[float]] = [[] for _ in range(PARTS)]
        seconds = (edges[-1] - edges[0]) / PARTS
        for decided in self.rounds:
            part = int((self._asked.origin + decided.time - edges[0]) // seconds)
            if 0 <= part < PARTS:
                up[part] = float(decided.gpus_up)
                if decided.price is not None:
                    prices[part].append(decided.price)
        means = [round(sum(some) / len(some), 3) if some else None for some in prices]
        return up, means


_END: dict[type[Event], State] = {
    JobFinished: "finished",
    JobFailed: "failed",
    JobCancelled: "cancelled",
}


def day_of(asked: Asked, store: Store) -> DayRecord:
    day = _Day(asked, store)
    kept: list[Event] = []
    begin = asked.begin - asked.lookback_seconds - asked.origin
    for _, event in store.events_between(begin, asked.end - asked.origin, _KINDS):
        day.apply(event)
        if isinstance(event, LIVES):
            kept.append(event)
    day.add_present()
    nodes = tuple(Node(name, gpus) for name, gpus in day.nodes.items())
    return day.record(dict(_fairness(kept, nodes, asked)))


def _fairness(
    events: list[Event], nodes: Iterable[Node], asked: Asked
) -> Iterator[tuple[str, dict[str, float]]]:
    """Of the jobs that finished on the day: (id, {definition: finish-time fairness})."""
    try:
        history = fold_history(lives_of(events, tuple(nodes)))
        figures = {name: finish_time_fairness(history, name) for name in FAIRNESS}
    except JournalError:
        return
    for position, job in enumerate(history.jobs.id):
        finished = asked.origin + history.jobs.finish[position]
        if asked.begin <= finished < asked.end:
            known = {name: float(ftf[position]) for name, ftf in figures.items()}
            yield job, {name: round(value, 4) for name, value in known.items() if value == value}


def _held(life: _Life, slots: dict[str, list[int]]) -> int:
    """GPUs of a run; what the job requests where it is not known on which it was."""
    return sum(map(len, slots.values())) or life.gpus


def _rounded(values: Floats) -> list[float]:
    return [round(value, 3) for value in values.tolist()]


def main() -> None:
    os.nice(10)
    asked = Asked.model_validate_json(sys.stdin.buffer.read())
    store = Store(asked.database, Archive(asked.archive), only_read=True)
    try:
        sys.stdout.buffer.write(day_of(asked, store).model_dump_json().encode())
    finally:
        store.close()


if __name__ == "__main__":
    main()
