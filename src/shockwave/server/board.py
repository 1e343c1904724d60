"""What the doors can see: active jobs from memory, ended ones from the store.

Events come in together with the transaction that makes them durable, so nobody is ever shown
what a crash could take back. A record is made when somebody asks, and kept until it changes.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import get_args

from shockwave.engine.journal import Journal
from shockwave.model.errors import InputError
from shockwave.model.events import Event, Placement
from shockwave.model.view import View
from shockwave.policies.base import Decision
from shockwave.predict.base import Forecast, Trajectories
from shockwave.server import facts as facts_module
from shockwave.server.describe import NEXT_ROUND, DecisionInForce, job_record
from shockwave.server.facts import JobFacts
from shockwave.server.groups import group_record
from shockwave.server.outside import log_from_outside
from shockwave.server.projection import NodeFacts, Projection
from shockwave.server.prospects import futures_of, sampled, speeds_ahead
from shockwave.server.records import (
    GroupRecord,
    JobRecord,
    NodeRecord,
    PlanRecord,
    RoundRecord,
    State,
    TenantRecord,
    TenantTypeRecord,
    Totals,
)
from shockwave.server.slots import gpus_by_type
from shockwave.server.store import Store
from shockwave.server.view_records import FuturesRecord, SpeedAhead

_ACTIVE_STATES = ("waiting", "running")


@dataclass(frozen=True, slots=True)
class _Made:
    """A record with all that it was made of."""

    facts: JobFacts
    decision: DecisionInForce | None
    obstacle: str
    contested: frozenset[str]
    next_round: float | None  # where the record says when it is
    record: JobRecord


class Board(Journal):
    """Thread-safe: a journal for the one who writes, and a window for any number of readers."""

    def __init__(self, projection: Projection, store: Store) -> None:
        self._projection = projection
        self._store = store
        self._changed = threading.Condition()
        self._records: dict[str, _Made] = {}  # of active jobs
        self._outage = ""
        self._decision: DecisionInForce | None = None
        self._sampling = threading.Lock()
        self._futures: tuple[DecisionInForce | None, FuturesRecord] | None = None
        self._sampled: tuple[DecisionInForce, Trajectories | None] | None = None
        self.next_round_unix: float | None = None  # when it begins, as far as is known

    # Writing.

    def write(self, events: Sequence[Event]) -> None:
        """Durable, and then seen by everybody, who need not wait for the disk meanwhile."""
        before = self._projection
        after = before.copy()
        for event in events:
            after.apply(event)
            log_from_outside(event)
        ended, after.ended = after.ended, []
        self._store.append(before.sequence_number + 1, events, before.submitted, ended)
        with self._changed:
            self._projection = after
            for facts in ended:
                self._records.pop(facts.id, None)
            self._changed.notify_all()

    def set_outage(self, reason: str) -> None:
        """Why nothing can be started now; empty when it can."""
        self._outage = reason

    def decided(self, view: View, forecast: Forecast, decision: Decision) -> None:
        """An observer of the round loop."""
        self._decision = DecisionInForce.of(view, forecast, decision)

    # Reading.

    @contextmanager
    def projection(self) -> Iterator[Projection]:
        """What is known of active jobs; it does not change meanwhile."""
        with self._changed:
            yield self._projection

    @property
    def sequence_number(self) -> int:
        return self._projection.sequence_number

    def wait(self, after: int, timeout_seconds: float) -> bool:
        """Blocks until there is an event after that number, or the time is over."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self.sequence_number > after, timeout=timeout_seconds
            )

    def find(self, job: str, owner: str | None = None) -> JobFacts | None:
        """By id, or by name where that is unique, among the jobs of the owner if one is given."""
        facts = self.of_id(job)
        if facts is None:
            named = self._store.ids_of_name(job, limit=2, owner=owner)
            facts = self.of_id(named[0]) if len(named) == 1 else None
        return facts

    def of_id(self, job: str) -> JobFacts | None:
        with self._changed:
            facts = self._projection.jobs.get(job)
        if facts is None:
            stored = self._store.job(job)
            if stored is not None and stored.facts is not None:
                facts = facts_module.from_json(stored.facts)
        return facts

    def named(self, name: str, limit: int = 10, owner: str | None = None) -> list[JobRecord]:
        """The latest jobs of that name, newest first; of the owner, if one is given."""
        found = (self.of_id(job) for job in self._store.ids_of_name(name, limit, owner))
        return [self._record_of(facts, self._decision) for facts in found if facts is not None]

    def active(self, group: str) -> list[JobFacts]:
        """The jobs of a group that have not ended."""
        with self._changed:
            return [facts for facts in self._projection.jobs.values() if facts.spec.group == group]

    def groups(self) -> list[GroupRecord]:
        """The groups that have jobs which have not ended, in order of submission."""
        with self._changed:
            active: dict[str, list[JobFacts]] = {}
            for facts in self._projection.jobs.values():
                if facts.spec.group:
                    active.setdefault(facts.spec.group, []).append(facts)
        return [group_record(name, jobs, self._store) for name, jobs in active.items()]

    def group(self, name: str) -> GroupRecord | None:
        """One group, over or not; None if there never was one of that name."""
        record = group_record(name, self.active(name), self._store)
        return record if record.jobs else None

    def record(self, job: str, owner: str | None = None) -> JobRecord | None:
        facts = self.find(job, owner)
        return None if facts is None else self._record_of(facts, self._decision)

    def page(
        self,
        states: Sequence[State],
        tenant: str | None,
        after: str | None,
        limit: int,
        group: str | None = None,
        owner: str | None = None,
    ) -> tuple[list[JobRecord], str | None]:
        """Jobs in order of submission, and the cursor of the next page.

        Of one ``group``, or, where that is empty, those that belong to none.
        """
        start = self._number_of_cursor(after)
        with self._changed:
            decision = self._decision
            wanted = (
                facts
                for facts in self._projection.jobs.values()
                if facts.number > start
                and (not states or facts.state in states)
                and tenant in (None, facts.spec.tenant)
                and group in (None, facts.spec.group)
                and owner in (None, facts.spec.owner)
            )
            found = list(itertools.islice(wanted, max(limit, 0) + 1))
        over = [state for state in states if state not in _ACTIVE_STATES]
        if over or not states:
            found += self._store.ended_jobs(
                states=over, tenant=tenant, after=start, limit=limit + 1, group=group, owner=owner
            )
            found.sort(key=lambda facts: facts.number)
        page = found[: max(limit, 0)]
        more = page[-1].id if len(found) > limit and page else None
        return [self._record_of(facts, decision) for facts in page], more

    def _number_of_cursor(self, cursor: str | None) -> int:
        if cursor is None:
            return 0
        stored = self._store.job(cursor)
        if stored is None:
            raise InputError("not a cursor of this list", place="after", value=cursor)
        return stored.number

    def plan(self) -> PlanRecord:
        with self._changed:
            active = list(self._projection.jobs.values())
            decision, rounds = self._decision, self._projection.rounds
            last = rounds[-1] if rounds else None
        active.sort(key=lambda facts: (facts.state != "running", facts.number))
        return PlanRecord(round=last, jobs=[self._record_of(facts, decision) for facts in active])

    def futures(self) -> FuturesRecord:
        """Made once for each decision."""
        with self._sampling:
            if self._futures is None or self._futures[0] is not self._decision:
                with self._changed:
                    ids = {facts.handle: facts.id for facts in self._projection.jobs.values()}
                    decision = self._decision
                record = futures_of(decision, ids, self._projection.origin_unix)
                self._futures = (decision, record)
            return self._futures[1]

    def speeds_ahead(self, facts: JobFacts) -> list[SpeedAhead]:
        """What the decision in force expects of a job that is not over."""
        decision = self._decision
        position = None if decision is None else decision.position.get(facts.handle)
        if decision is None or position is None or facts.ended:
            return []
        with self._sampling:
            if self._sampled is None or self._sampled[0] is not decision:
                self._sampled = (decision, sampled(decision))
            trajectories = self._sampled[1]
        if trajectories is None:
            return []
        done = float(decision.view.epochs_done[position])
        return speeds_ahead(trajectories, position, done, float(facts.spec.epochs))

    def round_seconds(self) -> float | None:
        """How long a round lasts; None before the second one."""
        with self._changed:
            rounds = self._projection.rounds
            if len(rounds) < 2 or rounds[-1].round <= rounds[-2].round:
                return None
            last, before = rounds[-1], rounds[-2]
        return (last.time - before.time) / (last.round - before.round)

    def rounds(self, after: int, limit: int) -> list[RoundRecord]:
        with self._changed:
            newest_first: Iterable[RoundRecord] = reversed(self._projection.rounds)
            later: list[RoundRecord] = []
            for record in newest_first:
                if record.round <= after:
                    break
                later.append(record)
        return later[::-1][: max(limit, 0)]

    def nodes(self) -> list[NodeRecord]:
        with self._changed:
            busy: dict[str, int] = {}
            for facts in self._projection.jobs.values():
                for node, slots in facts.placement:
                    busy[node] = busy.get(node, 0) + len(slots)
            return [
                NodeRecord(
                    id=name,
                    gpus=item.node.gpus,
                    gpu_type=item.node.gpu_type,
                    # What is ordered may still be others'.
                    gpus_busy=min(busy.get(name, 0), item.node.gpus - item.others),
                    gpus_others=item.others,
                    state=_node_state(item),
                    reason=item.reason,
                )
                for name, item in self._projection.nodes.items()
            ]

    def gpus_known(self) -> dict[str, int]:
        """Of all nodes that were ever up, by their type."""
        with self._changed:
            return gpus_by_type(item.node for item in self._projection.nodes.values())

    def totals(self) -> Totals:
        with self._changed:
            counts = dict(self._projection.ended_by_state)
            for facts in self._projection.jobs.values():
                counts[facts.state] = counts.get(facts.state, 0) + 1
            return Totals(
                jobs={state: counts.get(state, 0) for state in get_args(State)},
                restarts=dict(self._projection.restarts),
                lost_gpu_seconds=self._projection.lost_gpu_seconds,
            )

    def tenants(self) -> list[TenantRecord]:
        """The weight of a tenant is that of its latest job."""
        with self._changed:
            grouped: dict[str, list[JobFacts]] = {}
            for facts in self._projection.jobs.values():
                grouped.setdefault(facts.spec.tenant, []).append(facts)
            return [
                TenantRecord(
                    tenant=tenant,
                    weight=totals.weight,
                    waiting=sum(job.state == "waiting" for job in grouped.get(tenant, ())),
                    running=sum(job.state == "running" for job in grouped.get(tenant, ())),
                    finished=totals.finished,
                    gpus_busy=sum(_gpus(job.placement) for job in grouped.get(tenant, ())),
                    gpu_seconds=totals.gpu_seconds
                    + sum(job.gpu_seconds for job in grouped.get(tenant, ())),
                    types=self._held_by_type(grouped.get(tenant, ())),
                )
                for tenant, totals in sorted(self._projection.tenants.items())
            ]

    def _held_by_type(self, jobs: Iterable[JobFacts]) -> list[TenantTypeRecord]:
        """Empty where there is one type."""
        nodes = self._projection.nodes
        held = {item.node.gpu_type: 0 for item in nodes.values()}
        if len(held) < 2:
            return []
        for job in jobs:
            for node, slots in job.placement:
                held[nodes[node].node.gpu_type] += len(slots)
        return [TenantTypeRecord(gpu_type=kind, gpus_busy=n) for kind, n in sorted(held.items())]

    def _record_of(self, facts: JobFacts, decision: DecisionInForce | None) -> JobRecord:
        """Made once for each version of the facts; racing readers make the same one."""
        origin_unix = self._projection.origin_unix
        if facts.ended:
            return job_record(facts, None, origin_unix)  # no later decision changes it
        obstacle, contested = self._obstacle(facts), self._projection.contested()
        made = self._records.get(facts.id)
        if made is None or not (
            made.facts is facts
            and made.decision is decision
            and (made.obstacle, made.contested) == (obstacle, contested)
            and made.next_round in (None, self.next_round_unix)
        ):
            record = job_record(facts, decision, origin_unix, obstacle, contested)
            next_round = None
            if facts.state == "waiting" and record.why.reason.endswith(NEXT_ROUND):
                next_round = self.next_round_unix
                why = record.why.model_copy(update={"expected_start": next_round})
                record = record.model_copy(update={"why": why})
            made = _Made(facts, decision, obstacle, contested, next_round, record)
            self._records[facts.id] = made
        return made.record

    def _obstacle(self, facts: JobFacts) -> str:
        """Why a job that waits cannot be started now, whatever is decided."""
        if facts.state != "waiting":
            return ""
        active = self._projection.jobs
        needed = [job for job in facts.spec.after if job in active]
        ending = [job for job in facts.spec.after_any if job in active]
        if needed or ending:
            parts = [(needed, "to finish"), (ending, "to end")]
            return " and ".join(f"for {', '.join(jobs)} {what}" for jobs, what in parts if jobs)
        return f"nothing can be started for now: {self._outage}" if self._outage else ""


def _node_state(item: NodeFacts) -> str:
    if item.drained or item.withheld:
        return "drained"
    return "up" if item.up else "down"


def _gpus(placement: Placement) -> int:
    return sum(len(slots) for _, slots in placement)
