"""Finish-time fairness for Prometheus: of jobs that finished, and forecast for those that have not.

Each definition compares a job with all others that were there, so the figures are computed from
the whole run and not added up. That costs time, so it happens at most once in a while.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Gauge

from shockwave.measure.fairness import FAIRNESS, UNFAIR_ABOVE, finish_time_fairness
from shockwave.measure.fold import fold_history
from shockwave.model.errors import JournalError
from shockwave.model.events import Event, from_record
from shockwave.model.view import Floats
from shockwave.server.port import SchedulerPort

QUANTILES = {"0.5": 0.5, "0.95": 0.95, "1": 1.0}
FORECAST = "forecast"
_LIVES = frozenset(  # the kinds that a job's fairness depends on
    {
        "run-started", "job-submitted", "job-started", "job-stopped", "job-finished",
        "job-failed", "job-cancelled", "node-up", "node-down",
    }
)  # fmt: skip
logger = logging.getLogger(__name__)


class FairnessMetrics:
    """Quantiles of rho, and the share of jobs that were wronged, by definition."""

    def __init__(
        self, registry: CollectorRegistry, *, every_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._every_seconds = every_seconds
        self._clock = clock
        self._events: list[Event] = []
        self._finished = 0
        self._finished_before = 0
        self._due = float("-inf")
        self._rho = Gauge(
            "shockwave_finish_time_fairness",
            "Time to finish over the time with a fair share, by definition; above 1 is unfair. "
            "Of finished jobs, and as forecast for the others.",
            ["definition", "quantile"],
            registry=registry,
        )
        self._unfair = Gauge(
            "shockwave_unfair_jobs_ratio",
            f"Share of jobs whose finish-time fairness is above {UNFAIR_ABOVE}.",
            ["definition"],
            registry=registry,
        )
        for definition in (*FAIRNESS, FORECAST):
            self._show(definition, np.empty(0))

    def take(self, record: Mapping[str, Any]) -> None:
        """Remembers a journal record, if it bears on fairness."""
        if record.get("kind") in _LIVES:
            self._events.append(from_record(dict(record)))
            self._finished += record["kind"] == "job-finished"

    def refresh(self, port: SchedulerPort) -> None:
        """Computes the figures again, if they are due."""
        now = self._clock()
        if now < self._due:
            return
        self._due = now + self._every_seconds
        known = [job.why.rho for job in port.plan().jobs if job.why.rho is not None]
        self._show(FORECAST, np.array(known, dtype=np.float64))
        if self._finished == self._finished_before:
            return
        self._finished_before = self._finished
        try:
            history = fold_history(self._events)
        except JournalError:
            logger.exception("fairness cannot be computed from this journal")
            return
        for definition in FAIRNESS:
            self._show(definition, finish_time_fairness(history, definition))

    def _show(self, definition: str, rho: Floats) -> None:
        known = rho[np.isfinite(rho)]
        for name, quantile in QUANTILES.items():
            value = float(np.quantile(known, quantile)) if len(known) else float("nan")
            self._rho.labels(definition, name).set(value)
        unfair = float((known > UNFAIR_ABOVE).mean()) if len(known) else float("nan")
        self._unfair.labels(definition).set(unfair)
