"""Finish-time fairness for Prometheus: of jobs that finished lately, and forecast for the others.

Each definition compares a job with all others that were there, so the figures are computed from
what happened lately as a whole and not added up. That costs time, so it happens at most once in
a while.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
from prometheus_client import CollectorRegistry, Gauge

from shockwave.measure.fairness import FAIRNESS, UNFAIR_ABOVE, finish_time_fairness
from shockwave.measure.fold import fold_history
from shockwave.model.cluster import Node
from shockwave.model.errors import JournalError
from shockwave.model.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeDown,
    NodeUp,
    RunStarted,
    job_of,
)
from shockwave.model.view import Floats
from shockwave.server.door import SchedulerDoor

QUANTILES = {"0.5": 0.5, "0.95": 0.95, "1": 1.0}
FORECAST = "forecast"
LATELY_SECONDS = 2 * 86_400.0
LIVES = (  # what a job's fairness depends on
    JobSubmitted, JobStarted, JobStopped, JobFinished, JobFailed, JobCancelled, NodeUp, NodeDown,
)  # fmt: skip
_KINDS = tuple(cls.kind for cls in LIVES)
logger = logging.getLogger(__name__)


class FairnessMetrics:
    """Quantiles of finish-time fairness, and the share of jobs that were wronged, by definition.

    Of jobs that came and finished within the last two days.
    """

    def __init__(
        self, registry: CollectorRegistry, *, every_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._every_seconds = every_seconds
        self._clock = clock
        self._finished = 0
        self._due = float("-inf")
        self._ftf = Gauge(
            "shockwave_finish_time_fairness",
            "Time to finish over the time with a fair share, by definition; above 1 is unfair. "
            "Of jobs of the last two days that finished, and as forecast for active ones.",
            ["definition", "quantile"],
            registry=registry,
        )
        self._unfair = Gauge(
            "shockwave_unfair_jobs_ratio",
            f"Share of these jobs whose finish-time fairness is above {UNFAIR_ABOVE}.",
            ["definition"],
            registry=registry,
        )
        for definition in (*FAIRNESS, FORECAST):
            self._show(definition, np.empty(0))

    def refresh(self, door: SchedulerDoor) -> None:
        """Computes the figures again, if they are due."""
        now = self._clock()
        if now < self._due:
            return
        self._due = now + self._every_seconds
        known = [job.why.ftf for job in door.plan().jobs if job.why.ftf is not None]
        self._show(FORECAST, np.array(known, dtype=np.float64))
        finished = door.totals().jobs["finished"]
        if finished == self._finished:
            return
        self._finished = finished
        nodes = tuple(Node(node.id, node.gpus) for node in door.nodes())
        try:
            history = fold_history(lives_of(door.recent_events(LATELY_SECONDS, _KINDS), nodes))
        except JournalError:
            logger.exception("fairness cannot be computed from this journal")
            return
        for definition in FAIRNESS:
            self._show(definition, finish_time_fairness(history, definition))

    def _show(self, definition: str, ftf: Floats) -> None:
        known = ftf[np.isfinite(ftf)]
        for name, quantile in QUANTILES.items():
            value = float(np.quantile(known, quantile)) if len(known) else float("nan")
            self._ftf.labels(definition, name).set(value)
        unfair = float((known > UNFAIR_ABOVE).mean()) if len(known) else float("nan")
        self._unfair.labels(definition).set(unfair)


def lives_of(events: list[Event], nodes: tuple[Node, ...]) -> list[Event]:
    """A small journal: the jobs whose whole life is here, on the nodes of today."""
    began = events[0].time if events else 0.0
    settings = RunStarted(began, "", "", "live", nodes, 1.0, 0.0, 0, "")
    here = {event.job.id for event in events if isinstance(event, JobSubmitted)}
    kept = [event for event in events if job_of(event) is None or job_of(event) in here]
    return [settings, *kept]
