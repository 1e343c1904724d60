"""What the doors can see: facts about every job, kept up by the events of the journal.

A fold like the scheduler's own state, but of what people ask about. Events come in when
they are durable, so nobody is ever shown what a crash could take back. Facts are immutable
and replaced; a record is made of them when somebody asks, and kept until they change.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shockwave.model.cluster import Node
from shockwave.model.errors import InputError
from shockwave.model.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobProgressed,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeDown,
    NodeOccupied,
    NodeUp,
    Placement,
    RegimeChanged,
    RoundDecided,
    RunStarted,
    StopReason,
)
from shockwave.model.job import JobSpec
from shockwave.model.view import View
from shockwave.policies.base import Decision
from shockwave.predict.base import Forecast
from shockwave.server.describe import DecisionInForce, JobFacts, job_record, round_record
from shockwave.server.records import (
    JobRecord,
    NodeRecord,
    PlanRecord,
    RoundRecord,
    State,
    TenantRecord,
)

_ROUNDS_KEPT = 20_000  # older ones are in the journal


@dataclass
class _NodeFacts:
    node: Node
    up: bool
    others: int = 0  # GPUs that others hold


class Board:
    """Thread-safe: one writer, the scheduler's thread, and any number of readers."""

    def __init__(self, origin_unix: float) -> None:
        self.origin_unix = origin_unix
        self._changed = threading.Condition()
        self._jobs: dict[str, JobFacts] = {}  # in order of submission
        self._order: list[str] = []
        self._names: dict[str, list[str]] = {}
        self._records: dict[str, tuple[JobFacts, DecisionInForce | None, str, JobRecord]] = {}
        self._outage = ""
        self._handles = 0
        self._nodes: dict[str, _NodeFacts] = {}
        self._rounds: deque[RoundRecord] = deque(maxlen=_ROUNDS_KEPT)
        self._decision: DecisionInForce | None = None
        self._active_rounds = 0  # sum over rounds of the number of active jobs
        self._rounds_decided = 0
        self._gpus_up = 0
        self.sequence_number = 0  # of the last event

    # Writing.

    def add(self, number: int, spec: JobSpec, submitted_unix: float, *, cancelling: bool) -> None:
        """A job that was submitted; the scheduler has not seen it yet."""
        facts = JobFacts(number=number, spec=spec, submitted_unix=submitted_unix)
        with self._changed:
            self._jobs[spec.id] = replace(facts, cancelling=cancelling)
            self._order.append(spec.id)
            if spec.name:
                self._names.setdefault(spec.name, []).append(spec.id)

    def cancelling(self, job: str) -> None:
        with self._changed:
            self._jobs[job] = replace(self._jobs[job], cancelling=True)

    def set_drained(self, nodes: frozenset[str]) -> None:
        """Nodes that somebody wants to be empty, whether they are already or not."""
        with self._changed:
            self._drained = nodes

    _drained: frozenset[str] = frozenset()

    def set_outage(self, reason: str) -> None:
        """Why nothing can be started now; empty when it can."""
        self._outage = reason

    def decided(self, view: View, forecast: Forecast, decision: Decision) -> None:
        """An observer of the round loop."""
        told = DecisionInForce.of(view, forecast, decision)
        with self._changed:
            self._decision = told

    def apply(self, first: int, events: Sequence[Event]) -> None:
        """Events that are durable, numbered from ``first``."""
        with self._changed:
            for event in events:
                handler = _HANDLERS.get(type(event))
                if handler is not None:
                    handler(self, event)
            self.sequence_number = first + len(events) - 1
            self._changed.notify_all()

    def _update(self, job: str, **changes: Any) -> None:
        facts = self._jobs.get(job)
        if facts is not None:
            self._jobs[job] = replace(facts, **changes)

    def _run_started(self, event: RunStarted) -> None:
        for node in event.nodes:
            self._nodes[node.id] = _NodeFacts(node, up=True)

    def _submitted(self, event: JobSubmitted) -> None:
        self._update(
            event.job.id,
            spec=event.job,
            handle=self._handles,
            active_rounds_before=self._active_rounds,
            rounds_before=self._rounds_decided,
        )
        self._handles += 1

    def _started(self, event: JobStarted) -> None:
        facts = self._jobs.get(event.job)
        if facts is None:
            return
        first = self._unix(event.time) if facts.started_unix is None else facts.started_unix
        self._update(
            event.job,
            state="running",
            started_unix=first,
            starts=event.attempt,
            placement=event.placement,
        )

    def _stopped(self, event: JobStopped) -> None:
        facts = self._jobs.get(event.job)
        if facts is None:
            return
        crashed = event.reason is StopReason.CRASHED
        self._update(
            event.job,
            state="waiting",
            epochs_done=event.epochs_done,
            placement=(),
            crashes=facts.crashes + crashed,
            preemptions=facts.preemptions + (event.reason is StopReason.PREEMPTED),
            crash=event.detail or "crashed" if crashed else "",
            setback="" if crashed else event.detail,
        )

    def _progressed(self, event: JobProgressed) -> None:
        facts = self._jobs.get(event.job)
        if facts is None:
            return
        self._update(
            event.job,
            epochs_done=event.epochs_done,
            configuration=event.configuration,
            gpu_seconds=facts.gpu_seconds + event.held_seconds * facts.spec.gpus,
        )

    def _regime(self, event: RegimeChanged) -> None:
        self._update(event.job, configuration=event.configuration)

    def _finished(self, event: JobFinished) -> None:
        facts = self._jobs.get(event.job)
        if facts is None:
            return
        rounds = self._rounds_decided - facts.rounds_before
        active = self._active_rounds - facts.active_rounds_before
        crowd = active / rounds if rounds else 1.0
        fair = event.exclusive_seconds * max(1.0, crowd / max(self._gpus_up, 1))
        waited = event.time - facts.spec.arrival_seconds
        self._ended(event, "finished")
        self._update(
            event.job,
            epochs_done=float(facts.spec.epochs),
            rho=waited / fair if fair > 0 else None,
        )

    def _failed(self, event: JobFailed) -> None:
        self._ended(event, "failed")
        self._update(event.job, failure=event.reason)

    def _cancelled(self, event: JobCancelled) -> None:
        self._ended(event, "cancelled")

    def _ended(self, event: JobFinished | JobFailed | JobCancelled, state: State) -> None:
        self._update(
            event.job, state=state, finished_unix=self._unix(event.time), placement=(), crash=""
        )

    def _node_up(self, event: NodeUp) -> None:
        self._nodes[event.node.id] = _NodeFacts(event.node, up=True)

    def _node_down(self, event: NodeDown) -> None:
        facts = self._nodes.get(event.node)
        if facts is not None:
            facts.up = False
            facts.others = 0

    def _node_occupied(self, event: NodeOccupied) -> None:
        facts = self._nodes.get(event.node)
        if facts is not None:
            facts.others = event.gpus

    def _round(self, event: RoundDecided) -> None:
        self._active_rounds += event.active * event.rounds
        self._rounds_decided += event.rounds
        self._gpus_up = event.gpus_up
        self._rounds.append(round_record(event, self.origin_unix))

    def _unix(self, seconds: float) -> float:
        return self.origin_unix + seconds

    # Reading.

    def wait(self, after: int, timeout_seconds: float) -> bool:
        """Blocks until there is an event after that number, or the time is over."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self.sequence_number > after, timeout=timeout_seconds
            )

    def find(self, job: str) -> JobFacts | None:
        """By id, or by name where that is unique."""
        with self._changed:
            if job in self._jobs:
                return self._jobs[job]
            named = self._names.get(job, ())
            return self._jobs[named[0]] if len(named) == 1 else None

    def record(self, job: str) -> JobRecord | None:
        facts = self.find(job)
        return None if facts is None else self._record_of(facts, self._decision)

    def page(
        self, states: Sequence[State], tenant: str | None, after: str | None, limit: int
    ) -> tuple[list[JobRecord], str | None]:
        with self._changed:
            start = self._after(after)
            wanted: list[JobFacts] = []
            for job in self._order[start:]:
                facts = self._jobs[job]
                if (not states or facts.state in states) and tenant in (None, facts.spec.tenant):
                    wanted.append(facts)
                    if len(wanted) > limit:
                        break
            decision = self._decision
        page = wanted[: max(limit, 0)]
        more = page[-1].id if len(wanted) > limit and page else None
        return self._records_of(page, decision), more

    def _after(self, cursor: str | None) -> int:
        if cursor is None:
            return 0
        facts = self._jobs.get(cursor)
        if facts is None:
            raise InputError("not a cursor of this list", place="after", value=cursor)
        # Numbers only grow along the list, from 1 and mostly without gaps.
        position = min(facts.number, len(self._order))
        while position > 0 and self._jobs[self._order[position - 1]].number > facts.number:
            position -= 1
        return position

    def plan(self) -> PlanRecord:
        with self._changed:
            active = [f for f in self._jobs.values() if f.state in ("waiting", "running")]
            decision = self._decision
            last = self._rounds[-1] if self._rounds else None
        active.sort(key=lambda facts: (facts.state != "running", facts.number))
        return PlanRecord(round=last, jobs=self._records_of(active, decision))

    def rounds(self, after: int, limit: int) -> list[RoundRecord]:
        with self._changed:
            newest_first: Iterable[RoundRecord] = reversed(self._rounds)
            later: list[RoundRecord] = []
            for record in newest_first:
                if record.round <= after:
                    break
                later.append(record)
        return later[::-1][: max(limit, 0)]

    def nodes(self) -> list[NodeRecord]:
        with self._changed:
            busy: dict[str, int] = {}
            for facts in self._jobs.values():
                for node, slots in facts.placement:
                    busy[node] = busy.get(node, 0) + len(slots)
            return [
                NodeRecord(
                    id=name,
                    gpus=item.node.gpus,
                    gpus_busy=busy.get(name, 0),
                    gpus_others=item.others,
                    state="drained" if name in self._drained else "up" if item.up else "down",
                )
                for name, item in self._nodes.items()
            ]

    def gpus_known(self) -> int:
        """Of all nodes that were ever up."""
        with self._changed:
            return sum(item.node.gpus for item in self._nodes.values())

    def tenants(self) -> list[TenantRecord]:
        """The weight of a tenant is that of its latest job."""
        with self._changed:
            everything = list(self._jobs.values())
        grouped: dict[str, list[JobFacts]] = {}
        for facts in everything:
            grouped.setdefault(facts.spec.tenant, []).append(facts)
        return [
            TenantRecord(
                tenant=tenant,
                weight=jobs[-1].spec.weight,
                waiting=sum(job.state == "waiting" for job in jobs),
                running=sum(job.state == "running" for job in jobs),
                finished=sum(job.state == "finished" for job in jobs),
                gpus_busy=sum(_gpus(job.placement) for job in jobs),
                gpu_seconds=sum(job.gpu_seconds for job in jobs),
            )
            for tenant, jobs in sorted(grouped.items())
        ]

    def _records_of(
        self, facts: Iterable[JobFacts], decision: DecisionInForce | None
    ) -> list[JobRecord]:
        return [self._record_of(item, decision) for item in facts]

    def _record_of(self, facts: JobFacts, decision: DecisionInForce | None) -> JobRecord:
        """Made once for each version of the facts; racing readers make the same one."""
        if facts.ended:
            decision = None  # no later decision changes it
        outage = self._outage if facts.state == "waiting" else ""
        made = self._records.get(facts.id)
        if made is not None and made[0] is facts and made[1] is decision and made[2] == outage:
            return made[3]
        record = job_record(facts, decision, self.origin_unix, outage)
        self._records[facts.id] = (facts, decision, outage, record)
        return record


def _gpus(placement: Placement) -> int:
    return sum(len(slots) for _, slots in placement)


_HANDLERS: dict[type[Event], Callable[[Board, Any], None]] = {
    RunStarted: Board._run_started,
    JobSubmitted: Board._submitted,
    JobStarted: Board._started,
    JobStopped: Board._stopped,
    JobProgressed: Board._progressed,
    RegimeChanged: Board._regime,
    JobFinished: Board._finished,
    JobFailed: Board._failed,
    JobCancelled: Board._cancelled,
    NodeUp: Board._node_up,
    NodeDown: Board._node_down,
    NodeOccupied: Board._node_occupied,
    RoundDecided: Board._round,
}
