"""Figures for Prometheus, in base units: what the journal says, brought up to date when asked.

Everything here is derived from journal records and snapshots that the scheduler hands out, so a
restart of the service loses nothing and the scheduler's thread does no counting. Each
application has a registry of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from shockwave.model.events import StopReason
from shockwave.server.fairness_metrics import FairnessMetrics
from shockwave.server.port import SchedulerPort
from shockwave.server.records import State

BATCH = 10_000
PLAN_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
OVERRUN_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
MOVED = "moved"  # started elsewhere without a stop between


class SchedulerMetrics:
    """The scheduler's figures. :meth:`refresh` before the registry is read."""

    def __init__(
        self,
        port: SchedulerPort,
        registry: CollectorRegistry,
        *,
        fairness_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._port = port
        self._lock = Lock()
        self._after = 0
        self._state: dict[str, State] = {}
        self._gpus_of: dict[str, int] = {}
        self._last_end: dict[str, str] = {}
        self._fairness = FairnessMetrics(registry, every_seconds=fairness_seconds, clock=clock)
        self._jobs = Gauge("shockwave_jobs", "Jobs by state.", ["state"], registry=registry)
        self._gpus = Gauge("shockwave_gpus", "GPUs by state.", ["state"], registry=registry)
        self._plan_seconds = Histogram(
            "shockwave_plan_seconds",
            "Seconds that a decision took.",
            buckets=PLAN_BUCKETS,
            registry=registry,
        )
        self._overrun_seconds = Histogram(
            "shockwave_round_overrun_seconds",
            "Seconds by which a round began late.",
            buckets=OVERRUN_BUCKETS,
            registry=registry,
        )
        self._work_seconds = Histogram(
            "shockwave_round_work_seconds",
            "Seconds of work on a round: looking at jobs, deciding, giving orders.",
            buckets=OVERRUN_BUCKETS,
            registry=registry,
        )
        self._gap = Gauge(
            "shockwave_plan_gap_ratio",
            "How far the last plan may be from the best one.",
            registry=registry,
        )
        self._price = Gauge(
            "shockwave_price", "Price of a GPU-round in the last plan.", registry=registry
        )
        self._restarts = Counter(
            "shockwave_restarts_total",
            "Starts of jobs that had run before, by what had ended their run.",
            ["reason"],
            registry=registry,
        )
        self._lost = Counter(
            "shockwave_lost_gpu_seconds_total",
            "GPU-seconds held without progress that lasted: starting up, and work done again.",
            registry=registry,
        )
        for state in get_args(State):
            self._jobs.labels(state)
        for reason in (*StopReason, MOVED):
            self._restarts.labels(reason)
        self._handlers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "job-submitted": self._job_submitted,
            "job-started": self._job_started,
            "job-stopped": self._job_stopped,
            "job-progressed": self._job_progressed,
            "job-finished": lambda record: self._move(record["job"], "finished"),
            "job-failed": lambda record: self._move(record["job"], "failed"),
            "job-cancelled": lambda record: self._move(record["job"], "cancelled"),
            "round-decided": self._round_decided,
        }

    def refresh(self) -> None:
        """Counts what happened since the last time, and looks at the nodes and forecasts."""
        with self._lock:
            while records := self._port.events(self._after, BATCH):
                for number, record in records:
                    self._after = number
                    self._fairness.take(record)
                    handle = self._handlers.get(record.get("kind", ""))
                    if handle is not None:
                        handle(record)
            self._count_gpus()
            self._fairness.refresh(self._port)

    def _job_submitted(self, record: Mapping[str, Any]) -> None:
        job = record["job"]
        self._gpus_of[job["id"]] = job["gpus"]
        self._move(job["id"], "waiting")

    def _job_started(self, record: Mapping[str, Any]) -> None:
        job = record["job"]
        if record["attempt"] > 1:
            moved = self._state.get(job) == "running"
            self._restarts.labels(MOVED if moved else self._last_end.get(job, MOVED)).inc()
        self._move(job, "running")

    def _job_stopped(self, record: Mapping[str, Any]) -> None:
        self._last_end[record["job"]] = record["reason"]
        self._move(record["job"], "waiting")

    def _job_progressed(self, record: Mapping[str, Any]) -> None:
        # Productive seconds are negative where a crash undid work, so the difference holds both.
        idle = record["held_seconds"] - record["productive_seconds"]
        self._lost.inc(max(0.0, idle) * self._gpus_of.get(record["job"], 0))

    def _round_decided(self, record: Mapping[str, Any]) -> None:
        self._plan_seconds.observe(record["plan_seconds"])
        self._overrun_seconds.observe(record.get("overrun_seconds", 0.0))
        if record.get("work_seconds") is not None:
            self._work_seconds.observe(record["work_seconds"])
        for gauge, value in ((self._gap, record["gap"]), (self._price, record["price"])):
            gauge.set(float("nan") if value is None else value)

    def _move(self, job: str, state: State) -> None:
        before = self._state.get(job)
        if before is not None:
            self._jobs.labels(before).dec()
        self._jobs.labels(state).inc()
        self._state[job] = state

    def _count_gpus(self) -> None:
        count = {"busy": 0, "others": 0, "idle": 0, "drained": 0, "down": 0}
        for node in self._port.nodes():
            others = min(node.gpus_others, node.gpus - node.gpus_busy)
            count["busy"] += node.gpus_busy
            count["others"] += others
            free = {"up": "idle", "drained": "drained", "down": "down"}[node.state]
            count[free] += node.gpus - node.gpus_busy - others
        for state, gpus in count.items():
            self._gpus.labels(state).set(gpus)
