"""The journal as people ask about it: active jobs, nodes, rounds and tenants.

A fold like the scheduler's own state. Jobs that have ended leave: ``ended`` hands their last
facts to whoever keeps them.
"""

from __future__ import annotations

import json
import math
from collections import deque
from dataclasses import asdict, dataclass, field, replace
from typing import Any, assert_never

from shockwave.model.cluster import Node
from shockwave.model.events import (
    CancelRequested,
    Event,
    JobCancelled,
    JobChanged,
    JobFailed,
    JobFinished,
    JobHeld,
    JobNoted,
    JobReleased,
    JobRunning,
    JobSilent,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeDown,
    NodeDrained,
    NodeOccupied,
    NodeResumed,
    NodeUp,
    Placement,
    RegimeChanged,
    RequeueRequested,
    RoundDecided,
    RunEnded,
    RunStarted,
    SettingsChanged,
    StopReason,
    TenantChanged,
)
from shockwave.model.progress import Progressed
from shockwave.server import facts as facts_module
from shockwave.server.describe import round_record
from shockwave.server.facts import JobFacts, kept, run_ended, with_run
from shockwave.server.records import RoundRecord, State

ROUNDS_KEPT = 2_000  # older ones are in the journal
_SAME_WORD_SECONDS = 1.0  # by which the time of a job's last word may seem to change


@dataclass
class NodeFacts:
    node: Node
    up: bool = True
    drained: bool = False
    others: int = 0  # GPUs that others hold
    contested: bool = False  # others wait for what we would give up there
    reason: str = ""  # why it is down
    withheld: bool = False  # it is down because somebody drained it in the backend


@dataclass
class TenantTotals:
    """Of jobs that have ended, and the weight of the latest job."""

    weight: float = 1.0
    finished: int = 0
    gpu_seconds: float = 0.0


@dataclass
class Projection:
    """Not thread-safe; :class:`~shockwave.server.board.Board` is."""

    origin_unix: float
    sequence_number: int = 0  # of the last event
    submitted: int = 0
    jobs: dict[str, JobFacts] = field(default_factory=dict)  # active, in order of submission
    nodes: dict[str, NodeFacts] = field(default_factory=dict)
    rounds: deque[RoundRecord] = field(default_factory=lambda: deque(maxlen=ROUNDS_KEPT))
    tenants: dict[str, TenantTotals] = field(default_factory=dict)
    ended_by_state: dict[State, int] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)  # by what had ended the run before
    lost_gpu_seconds: float = 0.0  # held without progress that lasted
    active_rounds: int = 0  # sum over rounds of the number of active jobs
    rounds_decided: int = 0
    gpus_up: int = 0
    ended: list[JobFacts] = field(default_factory=list)  # since somebody took them away
    _by_handle: dict[int, str] = field(default_factory=dict)

    def copy(self) -> Projection:
        """Changes to one do not show in the other."""
        return replace(
            self,
            jobs=self.jobs.copy(),
            nodes={name: replace(node) for name, node in self.nodes.items()},
            rounds=self.rounds.copy(),
            tenants={name: replace(totals) for name, totals in self.tenants.items()},
            ended_by_state=self.ended_by_state.copy(),
            restarts=self.restarts.copy(),
            ended=self.ended.copy(),
            _by_handle=self._by_handle.copy(),
        )

    def apply(self, event: Event) -> None:
        self.sequence_number += 1
        match event:
            case Progressed():
                self._progressed(event)
            case JobSubmitted():
                self._submitted(event)
            case JobStarted():
                self._started(event)
            case JobStopped():
                self._stopped(event)
            case RegimeChanged():
                self._regime_changed(event)
            case JobRunning():
                self._update(event.job, confirmed=True, note="")
            case JobNoted():
                self._update(event.job, note=event.note)
            case JobSilent():
                self._update(
                    event.job,
                    silent_since_unix=self.unix(event.time - event.silent_seconds),
                    usual_epoch_seconds=event.epoch_seconds,
                )
            case JobFinished():
                self._finished(event)
            case JobFailed():
                self._update(event.job, failure=event.reason)
                self._end(event, "failed")
            case JobCancelled():
                self._end(event, "cancelled")
            case JobChanged():
                self._update(event.job.id, spec=event.job)
            case JobHeld():
                self._update(event.job, held=True)
            case JobReleased():
                self._update(event.job, held=False)
            case CancelRequested():
                self._update(event.job, cancelling=True)
            case RequeueRequested() | SettingsChanged() | RunEnded():
                pass
            case RoundDecided():
                self.active_rounds += event.active * event.rounds
                self.rounds_decided += event.rounds
                self.gpus_up = event.gpus_up
                self.rounds.append(round_record(event, self.origin_unix))
            case RunStarted():
                self.nodes |= {node.id: NodeFacts(node) for node in event.nodes}
            case NodeUp():
                known = self.nodes.setdefault(event.node.id, NodeFacts(event.node))
                known.node, known.up, known.reason, known.withheld = event.node, True, "", False
                known.others, known.contested = 0, False
            case NodeDown():
                if event.node in self.nodes:
                    known = self.nodes[event.node]
                    known.up, known.reason, known.withheld = False, event.reason, event.withheld
                    known.others, known.contested = 0, False
            case NodeOccupied():
                if event.node in self.nodes:
                    known = self.nodes[event.node]
                    known.others, known.contested = event.gpus, event.contested
            case TenantChanged():
                self.tenants.setdefault(event.tenant.name, TenantTotals())
            case NodeDrained() | NodeResumed():
                if event.node in self.nodes:
                    self.nodes[event.node].drained = isinstance(event, NodeDrained)
            case _:
                assert_never(event)

    def _update(self, job: str, **changes: Any) -> None:
        facts = self.jobs.get(job)
        if facts is not None:
            self.jobs[job] = replace(facts, **changes)

    def _submitted(self, event: JobSubmitted) -> None:
        spec = event.job
        self.submitted += 1
        self.jobs[spec.id] = JobFacts(
            number=self.submitted,
            spec=spec,
            submitted_unix=self.unix(spec.arrival_seconds),
            active_rounds_before=self.active_rounds,
            rounds_before=self.rounds_decided,
        )
        self._by_handle[self.submitted - 1] = spec.id
        self.tenants.setdefault(spec.tenant, TenantTotals()).weight = spec.weight

    def _started(self, event: JobStarted) -> None:
        facts = self.jobs.get(event.job)
        if facts is not None:
            first = facts.started_unix
            if event.attempt > 1:
                reason = facts.last_stop
                self.restarts[reason] = self.restarts.get(reason, 0) + 1
            self._update(
                event.job,
                state="running",
                started_unix=self.unix(event.time) if first is None else first,
                starts=event.attempt,
                placement=event.placement,
                gang_gpus=sum(len(slots) for _, slots in event.placement),
                gpu_type=self._type_of(event.placement),
                confirmed=False,
                runs=with_run(facts.runs, self.unix(event.time)),
                silent_since_unix=None,
                note="",
            )

    def _type_of(self, placement: Placement) -> str:
        """A gang lies on one type."""
        node = self.nodes.get(placement[0][0]) if placement else None
        return "" if node is None else node.node.gpu_type

    def _stopped(self, event: JobStopped) -> None:
        facts = self.jobs.get(event.job)
        if facts is not None:
            crashed = event.reason is StopReason.CRASHED
            self._update(
                event.job,
                state="waiting",
                epochs_done=event.epochs_done,
                placement=(),
                crashes=facts.crashes + crashed,
                preemptions=facts.preemptions + event.reason.ordered,
                crash=event.detail or "crashed" if crashed else "",
                setback="" if crashed else event.detail,
                last_stop=event.reason.value,
                runs=run_ended(facts.runs, self.unix(event.time), event.reason.value),
                silent_since_unix=None,
                note="",
            )

    def _regime_changed(self, event: RegimeChanged) -> None:
        facts = self.jobs.get(event.job)
        if facts is not None:
            entered = (self.unix(event.time), event.epoch, event.configuration)
            regimes = kept((*facts.regimes, entered))
            self._update(event.job, configuration=event.configuration, regimes=regimes)

    def _progressed(self, event: Progressed) -> None:
        columns = (
            event.handle, event.epochs_done, event.configuration, event.held_seconds,
            event.productive_seconds,
        )  # fmt: skip
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for i, (handle, epochs_done, index, held_seconds, productive_seconds) in enumerate(rows):
            job = self._by_handle.get(handle)
            facts = None if job is None else self.jobs[job]
            if facts is not None:
                unsaved = None if event.unsaved_seconds is None else event.unsaved_seconds[i]
                # Productive seconds are negative where a crash undid work: that is lost too.
                idle = max(held_seconds - productive_seconds, 0.0)
                gpus = facts.gang_gpus or facts.spec.gpus
                self.lost_gpu_seconds += idle * gpus
                self.jobs[facts.id] = replace(
                    facts,
                    epochs_done=epochs_done,
                    configuration=facts.spec.configurations[index],
                    confirmed=facts.confirmed or epochs_done > facts.epochs_done,
                    gpu_seconds=facts.gpu_seconds + held_seconds * gpus,
                    saved=facts.saved or (unsaved is not None and not math.isnan(unsaved)),
                    silent_since_unix=self._still_silent(facts, event, i),
                )

    def _still_silent(self, facts: JobFacts, event: Progressed, i: int) -> float | None:
        """Since when a job is silent, unless it has said something since it was found so."""
        since = facts.silent_since_unix
        if since is None or event.silent_seconds is None:
            return since if event.epochs_done[i] == facts.epochs_done else None
        spoke = self.unix(event.time) - event.silent_seconds[i] > since + _SAME_WORD_SECONDS
        return None if spoke else since

    def _finished(self, event: JobFinished) -> None:
        facts = self.jobs.get(event.job)
        if facts is None:
            return
        rounds = self.rounds_decided - facts.rounds_before
        active = self.active_rounds - facts.active_rounds_before
        crowd = active / rounds if rounds else 1.0
        fair = event.exclusive_seconds * max(1.0, crowd / max(self.gpus_up, 1))
        took = event.time - facts.spec.arrival_seconds
        self._update(
            event.job,
            epochs_done=float(facts.spec.epochs),
            ftf_themis=took / fair if fair > 0 and facts.spec.gpus > 0 else None,
        )
        self._end(event, "finished")

    def _end(self, event: JobFinished | JobFailed | JobCancelled, state: State) -> None:
        facts = self.jobs.pop(event.job, None)
        if facts is None:
            return
        del self._by_handle[facts.handle]
        time = self.unix(event.time)
        runs = run_ended(facts.runs, time, state)
        last = replace(
            facts, state=state, finished_unix=time, placement=(), crash="", note="", runs=runs
        )
        self.ended.append(last)
        self.ended_by_state[state] = self.ended_by_state.get(state, 0) + 1
        totals = self.tenants[facts.spec.tenant]
        totals.finished += state == "finished"
        totals.gpu_seconds += facts.gpu_seconds

    def contested(self) -> frozenset[str]:
        """Nodes on which others wait for what we would give up."""
        return frozenset(name for name, known in self.nodes.items() if known.contested)

    def unix(self, seconds: float) -> float:
        return self.origin_unix + seconds

    # To a snapshot and back.

    def dump(self) -> dict[str, Any]:
        return {
            "origin_unix": self.origin_unix,
            "sequence_number": self.sequence_number,
            "submitted": self.submitted,
            "jobs": [facts_module.to_json(facts) for facts in self.jobs.values()],
            "nodes": [asdict(node) for node in self.nodes.values()],
            "rounds": [record.model_dump_json() for record in self.rounds],
            "tenants": {name: asdict(totals) for name, totals in self.tenants.items()},
            "ended_by_state": self.ended_by_state,
            "restarts": self.restarts,
            "lost_gpu_seconds": self.lost_gpu_seconds,
            "active_rounds": self.active_rounds,
            "rounds_decided": self.rounds_decided,
            "gpus_up": self.gpus_up,
        }

    @classmethod
    def load(cls, record: dict[str, Any]) -> Projection:
        fields = dict(record)
        jobs = [facts_module.from_json(text) for text in fields["jobs"]]
        nodes = [NodeFacts(**{**node, "node": Node(**node["node"])}) for node in fields["nodes"]]
        rounds = (RoundRecord.model_validate(json.loads(text)) for text in fields["rounds"])
        fields["jobs"] = {facts.id: facts for facts in jobs}
        fields["nodes"] = {facts.node.id: facts for facts in nodes}
        fields["rounds"] = deque(rounds, maxlen=ROUNDS_KEPT)
        fields["tenants"] = {
            name: TenantTotals(**totals) for name, totals in fields["tenants"].items()
        }
        fields["_by_handle"] = {facts.handle: facts.id for facts in jobs}
        return cls(**fields)
