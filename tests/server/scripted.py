"""A scheduler in dictionaries: keeps the contract of the port, and schedules nothing by itself.

Tests drive it: :meth:`MemoryScheduler.start`, :meth:`finish`, :meth:`decide` do what a round
loop would, and every one leaves its events in the journal.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shockwave.model.cluster import Node
from shockwave.model.errors import InputError
from shockwave.model.events import (
    Event,
    JobCancelled,
    JobFinished,
    JobProgressed,
    JobStarted,
    JobStopped,
    JobSubmitted,
    RoundDecided,
    RunStarted,
    StopReason,
    to_record,
)
from shockwave.model.job import JobSpec
from shockwave.server.door import Conflict, SchedulerDoor
from shockwave.server.records import (
    JobRecord,
    NodeRecord,
    PlanRecord,
    RoundRecord,
    State,
    Submission,
    TenantRecord,
    WhyRecord,
)
from shockwave.server.tokens import hash_token, new_token

STARTED_UNIX = 1_700_000_000.0


@dataclass
class Entry:
    """What is known of one job."""

    record: JobRecord
    submission: Submission
    token: str
    generation: int = 0
    reports: list[dict[str, Any]] = field(default_factory=list)


class MemoryScheduler(SchedulerDoor):
    """Jobs in a dictionary in order of submission; the journal a list."""

    def __init__(self, logs: Path, *, nodes: int = 2, gpus_per_node: int = 4) -> None:
        self._logs = logs
        self._changed = threading.Condition(threading.RLock())
        self._journal: list[dict[str, Any]] = []
        self._keys: dict[str, tuple[Submission, str]] = {}
        self._token_jobs: dict[str, str] = {}
        self._nodes = {
            f"node-{n}": NodeRecord(id=f"node-{n}", gpus=gpus_per_node, gpus_busy=0, state="up")
            for n in range(nodes)
        }
        self._rounds: list[RoundRecord] = []
        self.entries: dict[str, Entry] = {}
        self.ready = (True, "")
        self.now = 0.0
        cluster = tuple(Node(name, gpus_per_node) for name in self._nodes)
        self._emit(
            RunStarted(
                0.0,
                policy="fifo",
                predictor="reactive",
                trace="",
                nodes=cluster,
                round_seconds=10.0,
                restart_seconds=1.0,
                seed=0,
                version="test",
                started_unix=STARTED_UNIX,
            )
        )

    # The port

    def submit(self, submission: Submission, idempotency_key: str | None) -> tuple[JobRecord, bool]:
        with self._changed:
            if idempotency_key is not None and idempotency_key in self._keys:
                before, job = self._keys[idempotency_key]
                if before != submission:
                    raise InputError(
                        "this key has submitted another job",
                        place="Idempotency-Key",
                        value=idempotency_key,
                    )
                return self.entries[job].record, False
            job = str(len(self.entries) + 1)
            record = JobRecord(
                id=job,
                name=submission.name or f"job-{job}",
                state="waiting",
                tenant=submission.tenant,
                model=submission.model,
                gpus=submission.gpus,
                epochs=submission.epochs,
                epochs_done=0.0,
                configuration=None,
                adaptation=submission.adaptation,
                submitted=STARTED_UNIX + self.now,
                started=None,
                finished=None,
                starts=0,
                crashes=0,
                preemptions=0,
                nodes=[],
                why=WhyRecord(reason="waits: it has just come", ahead=len(self.entries)),
            )
            entry = Entry(record, submission, new_token())
            self.entries[job] = entry
            self._token_jobs[hash_token(entry.token)] = job
            if idempotency_key is not None:
                self._keys[idempotency_key] = (submission, job)
            spec = JobSpec(
                id=job,
                arrival_seconds=self.now,
                gpus=submission.gpus,
                epochs=submission.epochs,
                configurations=tuple(submission.batch_sizes),
                epoch_seconds=tuple(
                    submission.epoch_seconds.get(size, float("nan"))
                    for size in submission.batch_sizes
                ),
                tenant=submission.tenant,
                name=record.name,
            )
            self._emit(JobSubmitted(self.now, job=spec))
            return record, True

    def cancel(self, job: str) -> JobRecord:
        with self._changed:
            if self.entries[job].record.state not in ("waiting", "running"):
                raise Conflict("the job is over", place="job", value=job)
            self._emit(JobCancelled(self.now, job=job))
            return self._update(job, state="cancelled", finished=STARTED_UNIX + self.now)

    def job(self, job: str) -> JobRecord | None:
        with self._changed:
            if job in self.entries:
                return self.entries[job].record
            named = [e.record for e in self.entries.values() if e.record.name == job]
            return named[0] if len(named) == 1 else None

    def jobs(
        self, *, states: Sequence[State], tenant: str | None, after: str | None, limit: int
    ) -> tuple[list[JobRecord], str | None]:
        with self._changed:
            if after is not None and after not in self.entries:
                raise InputError("no such cursor", place="after", value=after)
            first = 0 if after is None else int(after)
            found = [
                entry.record
                for entry in list(self.entries.values())[first:]
                if (not states or entry.record.state in states)
                and tenant in (None, entry.record.tenant)
            ]
            page = found[:limit]
            return page, page[-1].id if len(found) > limit else None

    def log_file(self, job: str, rank: int) -> Path | None:
        path = self._logs / job / f"rank-{rank}.log"
        return path if path.exists() else None

    def report(self, job: str, generation: int, reports: Sequence[dict[str, Any]]) -> None:
        with self._changed:
            entry = self.entries[job]
            if generation != entry.generation:
                raise Conflict(
                    "another launch carries the job now", place="generation", value=generation
                )
            entry.reports.extend(reports)
            if reports:
                self._update(job, epochs_done=float(reports[-1].get("epoch", 0.0)))

    def plan(self) -> PlanRecord:
        with self._changed:
            jobs = [e.record for e in self.entries.values()]
            active = [job for job in jobs if job.state in ("waiting", "running")]
            return PlanRecord(round=self._rounds[-1] if self._rounds else None, jobs=active)

    def rounds(self, *, after: int, limit: int) -> list[RoundRecord]:
        with self._changed:
            return [item for item in self._rounds if item.round > after][:limit]

    def nodes(self) -> list[NodeRecord]:
        with self._changed:
            return list(self._nodes.values())

    def occupy(self, node: str, gpus: int) -> None:
        with self._changed:
            self._nodes[node] = self._nodes[node].model_copy(update={"gpus_others": gpus})

    def drain(self, node: str, *, resume: bool) -> NodeRecord:
        with self._changed:
            state = {"state": "up" if resume else "drained"}
            self._nodes[node] = self._nodes[node].model_copy(update=state)
            return self._nodes[node]

    def tenants(self) -> list[TenantRecord]:
        with self._changed:
            names = dict.fromkeys(e.record.tenant for e in self.entries.values())
            return [self._tenant(name) for name in names]

    def events(self, after: int, limit: int) -> list[tuple[int, dict[str, Any]]]:
        with self._changed:
            return list(enumerate(self._journal[after : after + limit], start=after + 1))

    def wait_for_events(self, after: int, timeout_seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: len(self._journal) > after, timeout_seconds)

    def job_of_token(self, token: str) -> str | None:
        return self._token_jobs.get(hash_token(token))

    def is_ready(self) -> tuple[bool, str]:
        return self.ready

    def journal(self) -> Iterator[dict[str, Any]]:
        with self._changed:
            return iter(list(self._journal))

    # What a round loop would do

    def start(self, job: str) -> None:
        with self._changed:
            entry = self.entries[job]
            entry.generation += 1
            slots = tuple(range(entry.record.gpus))
            self._emit(JobStarted(self.now, job, (("node-0", slots),), entry.generation))
            self._update(
                job,
                state="running",
                starts=entry.generation,
                started=STARTED_UNIX + self.now,
                nodes=["node-0"],
            )

    def stop(self, job: str, reason: StopReason) -> None:
        with self._changed:
            self._emit(JobStopped(self.now, job, self.entries[job].record.epochs_done, reason))
            self._update(job, state="waiting", nodes=[])

    def progress(self, job: str, productive_seconds: float, held_seconds: float) -> None:
        with self._changed:
            self._emit(JobProgressed(self.now, job, 1.0, 1, None, productive_seconds, held_seconds))

    def finish(self, job: str, exclusive_seconds: float = 1.0) -> None:
        with self._changed:
            self._emit(JobFinished(self.now, job, exclusive_seconds))
            epochs = float(self.entries[job].record.epochs)
            finished = STARTED_UNIX + self.now
            self._update(job, state="finished", epochs_done=epochs, finished=finished, nodes=[])

    def fail(self, job: str, *lines: str) -> None:
        with self._changed:
            why = WhyRecord(reason="failed: it crashed too often", last_log_lines=list(lines))
            self._update(job, state="failed", why=why, nodes=[])

    def forecast(self, job: str, **numbers: Any) -> None:
        with self._changed:
            why = self.entries[job].record.why.model_copy(update=numbers)
            self._update(job, why=why)

    def decide(
        self,
        *,
        plan_seconds: float = 0.01,
        gap: float | None = None,
        overrun_seconds: float = 0.0,
    ) -> None:
        with self._changed:
            number = len(self._rounds)
            event = RoundDecided(
                self.now,
                number,
                rounds=1,
                active=1,
                running=1,
                gpus_up=8,
                gpus_busy=2,
                spanning=0,
                plan_seconds=plan_seconds,
                gap=gap,
                price=0.5,
                overrun_seconds=overrun_seconds,
            )
            self._emit(event)
            self._rounds.append(
                RoundRecord(
                    round=number,
                    time=STARTED_UNIX + self.now,
                    active=1,
                    running=1,
                    gpus_up=8,
                    gpus_busy=2,
                    plan_seconds=plan_seconds,
                    welfare=None,
                    gap=gap,
                    price=0.5,
                )
            )

    def write_log(self, job: str, text: str, rank: int = 0) -> Path:
        path = self._logs / job / f"rank-{rank}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
        return path

    def _emit(self, event: Event) -> None:
        with self._changed:
            self._journal.append(to_record(event))
            self._changed.notify_all()

    def _update(self, job: str, **fields: Any) -> JobRecord:
        entry = self.entries[job]
        entry.record = entry.record.model_copy(update=fields)
        return entry.record

    def _tenant(self, name: str) -> TenantRecord:
        mine = [e.record for e in self.entries.values() if e.record.tenant == name]
        return TenantRecord(
            tenant=name,
            weight=1.0,
            waiting=sum(job.state == "waiting" for job in mine),
            running=sum(job.state == "running" for job in mine),
            finished=sum(job.state == "finished" for job in mine),
            gpus_busy=sum(job.gpus for job in mine if job.state == "running"),
            gpu_seconds=0.0,
        )


def eventually(is_true: Any, seconds: float = 20.0) -> None:
    """Waits for another thread; far longer than it ever should take."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
