"""Figures for Prometheus, in base units: looked up when asked for.

Everything here is read from what the scheduler knows, so the scheduler's thread does no
counting. Each application has a registry of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Lock

from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from shockwave.model.events import StopReason
from shockwave.server.door import SchedulerDoor
from shockwave.server.fairness_metrics import FairnessMetrics
from shockwave.server.records import RoundRecord

BATCH = 10_000
PLAN_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
OVERRUN_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


class SchedulerMetrics:
    """The scheduler's figures. :meth:`refresh` before the registry is read."""

    def __init__(
        self,
        door: SchedulerDoor,
        registry: CollectorRegistry,
        *,
        fairness_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._door = door
        self._lock = Lock()
        self._round = -1  # the last one that was counted
        self._fairness = FairnessMetrics(registry, every_seconds=fairness_seconds, clock=clock)
        registry.register(_Counts(door))
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

    def refresh(self) -> None:
        """Takes in the rounds since the last time, and fairness where that is due."""
        with self._lock:
            for record in self._door.rounds(after=self._round, limit=BATCH):
                self._count(record)
            self._fairness.refresh(self._door)

    def _count(self, record: RoundRecord) -> None:
        self._round = record.round
        self._plan_seconds.observe(record.plan_seconds)
        self._overrun_seconds.observe(record.overrun_seconds)
        if record.work_seconds is not None:
            self._work_seconds.observe(record.work_seconds)
        for gauge, value in ((self._gap, record.gap), (self._price, record.price)):
            gauge.set(float("nan") if value is None else value)


class _Counts(Collector):
    """What the scheduler has counted itself, or can count at a glance."""

    def __init__(self, door: SchedulerDoor) -> None:
        self._door = door

    def describe(self) -> list[Metric]:
        """Nothing is asked of the scheduler before somebody reads the figures."""
        return []

    def collect(self) -> Iterator[Metric]:
        totals = self._door.totals()
        jobs = GaugeMetricFamily("shockwave_jobs", "Jobs by state.", labels=["state"])
        for state, count in totals.jobs.items():
            jobs.add_metric([state], count)
        yield jobs
        gpus = GaugeMetricFamily("shockwave_gpus", "GPUs by state.", labels=["state"])
        for use, count in self._gpus().items():
            gpus.add_metric([use], count)
        yield gpus
        restarts = CounterMetricFamily(
            "shockwave_restarts",
            "Starts of jobs that had run before, by what had ended their run.",
            labels=["reason"],
        )
        for reason in dict.fromkeys([*StopReason, *totals.restarts]):
            restarts.add_metric([reason], totals.restarts.get(reason, 0))
        yield restarts
        lost = CounterMetricFamily(
            "shockwave_lost_gpu_seconds",
            "GPU-seconds held without progress that lasted: starting up, and work done again.",
        )
        lost.add_metric([], totals.lost_gpu_seconds)
        yield lost

        yield from self._tenants()

    def _tenants(self) -> Iterator[Metric]:
        """By type only where GPUs of a type are shared on their own, or there are several."""
        held = GaugeMetricFamily(
            "shockwave_tenant_gpus", "GPUs that tenants hold.", labels=["tenant", "gpu_type"]
        )
        due = GaugeMetricFamily(
            "shockwave_tenant_due_gpus", "GPUs that are due to tenants now.", labels=["tenant"]
        )
        carried = GaugeMetricFamily(
            "shockwave_tenant_carry_over_gpu_seconds",
            "GPU-seconds that tenants left to others and may spend.",
            labels=["tenant"],
        )
        used = CounterMetricFamily(
            "shockwave_tenant_gpu_seconds", "GPU-seconds that tenants held.", labels=["tenant"]
        )
        for one in self._door.tenants():
            for kind in one.types:
                held.add_metric([one.tenant, kind.gpu_type], kind.gpus_busy)
            if not one.types:
                held.add_metric([one.tenant, ""], one.gpus_busy)
            if one.due_gpus is not None:
                due.add_metric([one.tenant], one.due_gpus)
            if one.carry_over_gpu_hours is not None:
                carried.add_metric([one.tenant], 3600.0 * one.carry_over_gpu_hours)
            used.add_metric([one.tenant], one.gpu_seconds)
        yield from (held, due, carried, used)

    def _gpus(self) -> dict[str, int]:
        count = {"busy": 0, "others": 0, "idle": 0, "drained": 0, "down": 0}
        for node in self._door.nodes():
            others = min(node.gpus_others, node.gpus - node.gpus_busy)
            count["busy"] += node.gpus_busy
            count["others"] += others
            free = {"up": "idle", "drained": "drained", "down": "down"}[node.state]
            count[free] += node.gpus - node.gpus_busy - others
        return count
