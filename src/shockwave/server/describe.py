"""Records out of facts: what a job's state means to the person who asks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shockwave.model.events import Placement, RoundDecided
from shockwave.model.job import JobSpec
from shockwave.model.view import Floats, View
from shockwave.policies.base import Decision
from shockwave.policies.why import Reasons
from shockwave.predict.base import Forecast
from shockwave.server.records import JobRecord, RoundRecord, State, WhyRecord


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What happened to a job so far. Times are unix seconds where the name says so."""

    number: int
    spec: JobSpec
    submitted_unix: float
    handle: int | None = None  # None until the scheduler has seen it
    state: State = "waiting"
    epochs_done: float = 0.0
    configuration: int | None = None
    started_unix: float | None = None
    finished_unix: float | None = None
    starts: int = 0
    crashes: int = 0
    preemptions: int = 0
    placement: Placement = ()
    gpu_seconds: float = 0.0
    cancelling: bool = False
    crash: str = ""  # of the last stop, if it was one: exit code and last lines of the log
    setback: str = ""  # of the last stop, if it was none: why others ended it
    failure: str = ""
    rho: float | None = None  # of a finished job
    active_rounds_before: int = 0  # active jobs summed over the rounds before it came
    rounds_before: int = 0

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def ended(self) -> bool:
        return self.state not in ("waiting", "running")


@dataclass(frozen=True)
class DecisionInForce:
    """The last decision with what it was based on, and each job's place in it."""

    reasons: Reasons
    position: dict[int, int]  # by handle
    rho: Floats  # [job] predicted

    @staticmethod
    def of(view: View, forecast: Forecast, decision: Decision) -> DecisionInForce:
        position = {handle: i for i, handle in enumerate(view.handle.tolist())}
        return DecisionInForce(
            Reasons(view, decision), position, predicted_rho(view, forecast, decision)
        )


def predicted_rho(view: View, forecast: Forecast, decision: Decision) -> Floats:
    """[job] predicted JCT over the JCT of a fair share.

    From the finish times that the policy predicts, where it does. Else the job is assumed
    to go on at the fair share of the crowd it has seen, ``c = max(1, mean active / GPUs)``:
    ``(elapsed + c * remaining) / (c * (productive + remaining))``.
    """
    told = decision.explanation
    with np.errstate(divide="ignore", invalid="ignore"):
        if told is not None:
            return np.asarray((told.finish - view.arrival) / (told.fair_finish - view.arrival))
        rounds = np.maximum(view.rounds_active, 1)
        crowd = np.where(view.rounds_active > 0, view.active_integral / rounds, len(view))
        contention = np.maximum(1.0, crowd / view.gpus_total)
        left = np.asarray(forecast.remaining_seconds, dtype=np.float64)
        fair = contention * (view.productive_seconds + left)
        return np.asarray((view.elapsed + contention * left) / fair)


def job_record(
    facts: JobFacts, decision: DecisionInForce | None, origin_unix: float, outage: str = ""
) -> JobRecord:
    """``outage`` says why nothing can be started now."""
    spec = facts.spec
    return JobRecord(
        id=spec.id,
        name=spec.name or spec.id,
        state=facts.state,
        tenant=spec.tenant,
        model=spec.model,
        gpus=spec.gpus,
        epochs=spec.epochs,
        epochs_done=facts.epochs_done,
        configuration=facts.configuration,
        adaptation=spec.adaptation,
        submitted=facts.submitted_unix,
        started=facts.started_unix,
        finished=facts.finished_unix,
        starts=facts.starts,
        crashes=facts.crashes,
        preemptions=facts.preemptions,
        nodes=[node for node, _ in facts.placement],
        why=_why_record(facts, decision, origin_unix, outage),
    )


def round_record(event: RoundDecided, origin_unix: float) -> RoundRecord:
    return RoundRecord(
        round=event.round,
        time=origin_unix + event.time,
        active=event.active,
        running=event.running,
        gpus_up=event.gpus_up,
        gpus_busy=event.gpus_busy,
        plan_seconds=event.plan_seconds,
        welfare=event.welfare,
        gap=event.gap,
        price=event.price,
    )


def _why_record(
    facts: JobFacts, decision: DecisionInForce | None, origin_unix: float, outage: str
) -> WhyRecord:
    match facts.state:
        case "finished":
            return WhyRecord(reason="finished: all epochs are done", rho=_finite(facts.rho))
        case "failed":
            first, lines = _told_and_shown(facts.failure or "no reason is known")
            return WhyRecord(reason=f"failed: {first}", last_log_lines=lines)
        case "cancelled":
            return WhyRecord(reason="cancelled: somebody took it back")
    if facts.cancelling:
        return WhyRecord(reason="is being cancelled: it leaves at the start of the next round")
    if outage and facts.state == "waiting":
        return WhyRecord(reason=f"waits: nothing can be started for now: {outage}")
    position = None
    if decision is not None and facts.handle is not None:
        position = decision.position.get(facts.handle)
    if facts.crash and (position is None or facts.state == "waiting"):
        first, lines = _told_and_shown(facts.crash)
        return WhyRecord(
            reason=f"waits: it crashed ({first}) and is tried again", last_log_lines=lines
        )
    left_out = decision is not None and facts.handle is not None and position is None
    if left_out and facts.state == "waiting":
        return WhyRecord(reason="waits: of the nodes that it may use, not enough are up")
    if decision is None or position is None:
        known = "the scheduler has just started" if facts.handle is not None else "it is new"
        verb = "runs" if facts.state == "running" else "waits"
        return WhyRecord(reason=f"{verb}: {known}, and is decided about in the next round")
    return _told(facts, decision, position, origin_unix)


def _told(
    facts: JobFacts, decision: DecisionInForce, position: int, origin_unix: float
) -> WhyRecord:
    told = decision.reasons.why(position)
    reason = told.reason
    if told.runs and facts.state == "waiting":
        room = "it starts when there is room on the nodes that it may use"
        reason = f"waits: it is chosen, and {facts.setback or room}"
    elif not told.runs and facts.state == "running":
        reason = "runs: in place of a job that is preferred, but finds no room on its own nodes"

    def unix(seconds: float | None) -> float | None:
        finite = _finite(seconds)
        return None if finite is None else origin_unix + finite

    return WhyRecord(
        reason=reason,
        bid=_finite(told.bid),
        price=_finite(told.price),
        ahead=told.ahead,
        expected_start=unix(told.expected_start),
        finish_low=unix(told.finish_low),
        finish=unix(told.finish),
        finish_high=unix(told.finish_high),
        fair_finish=unix(told.fair_finish),
        rho=_finite(float(decision.rho[position])),
    )


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _told_and_shown(detail: str) -> tuple[str, list[str]]:
    """What happened, and the last lines of the log."""
    first, *lines = detail.splitlines() or [""]
    return first.removesuffix("; its last lines:"), lines
