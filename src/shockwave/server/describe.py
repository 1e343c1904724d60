"""Records out of facts: what a job's state means to the person who asks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from shockwave.model.events import RoundDecided, StopReason
from shockwave.model.job import Preemptible
from shockwave.model.view import Floats, View
from shockwave.policies.base import Decision
from shockwave.policies.why import Reasons
from shockwave.predict.base import Forecast
from shockwave.server.facts import JobFacts
from shockwave.server.records import JobRecord, RoundRecord, WhyRecord

NEXT_ROUND = "decided about in the next round"


@dataclass(frozen=True)
class DecisionInForce:
    """The last decision with what it was based on, and each job's place in it."""

    view: View
    forecast: Forecast
    decision: Decision
    reasons: Reasons
    position: dict[int, int]  # by handle
    ftf: Floats  # [job] predicted finish-time fairness
    ftf_definition: str

    @staticmethod
    def of(view: View, forecast: Forecast, decision: Decision) -> DecisionInForce:
        position = {handle: i for i, handle in enumerate(view.handle.tolist())}
        ftf, definition = predicted_ftf(view, forecast, decision)
        reasons = Reasons(view, decision)
        return DecisionInForce(view, forecast, decision, reasons, position, ftf, definition)


def predicted_ftf(view: View, forecast: Forecast, decision: Decision) -> tuple[Floats, str]:
    """[job] predicted JCT over the JCT of a fair share, and by which definition it is fair.

    By ``egalitarian`` where the policy predicts finish times. Else by ``themis``, as if the job
    went on at the fair share of the crowd it has seen, ``c = max(1, mean active / GPUs)``:
    ``(elapsed + c * remaining) / (c * (productive + remaining))``.
    """
    told = decision.explanation
    with np.errstate(divide="ignore", invalid="ignore"):
        if told is not None:
            fair_jct = told.fair_finish - view.arrival
            return np.asarray((told.finish - view.arrival) / fair_jct), "egalitarian"
        rounds = np.maximum(view.rounds_active, 1)
        crowd = np.where(view.rounds_active > 0, view.active_integral / rounds, len(view))
        contention = np.maximum(1.0, crowd / view.gpus_total)
        left = np.asarray(forecast.remaining_seconds, dtype=np.float64)
        fair = contention * (view.productive_seconds + left)
        return np.asarray((view.elapsed + contention * left) / fair), "themis"


def job_record(
    facts: JobFacts,
    decision: DecisionInForce | None,
    origin_unix: float,
    obstacle: str = "",
    contested: frozenset[str] = frozenset(),
) -> JobRecord:
    """``obstacle`` says why a job that waits cannot be started now.

    On ``contested`` nodes jobs stay where they are, because others wait for their GPUs.
    """
    spec = facts.spec
    return JobRecord(
        id=spec.id,
        name=spec.name or spec.id,
        state=facts.state,
        owner=spec.owner,
        tenant=spec.tenant,
        model=spec.model,
        gpus=spec.gpus,
        gpu_counts=list(spec.gpu_counts),
        gpu_types=list(spec.gpu_types),
        gpus_held=facts.gang_gpus if facts.placement else 0,
        gpu_type=facts.gpu_type,
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
        slots={node: list(slots) for node, slots in facts.placement},
        why=_why_record(facts, decision, origin_unix, obstacle, contested),
        group=spec.group,
        weight=spec.weight,
        held=facts.held,
        preemptible=spec.preemptible,
        saved=facts.saved,
        time_limit=spec.time_limit_seconds,
        after=list(spec.after),
        after_any=list(spec.after_any),
        silent_since=facts.silent_since_unix,
        starting=facts.state == "running" and not facts.confirmed,
        note=facts.note,
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
        overrun_seconds=event.overrun_seconds,
        work_seconds=event.work_seconds,
    )


def _why_record(
    facts: JobFacts,
    decision: DecisionInForce | None,
    origin_unix: float,
    obstacle: str,
    contested: frozenset[str],
) -> WhyRecord:
    match facts.state:
        case "finished":
            return WhyRecord(
                reason="finished: all epochs are done",
                ftf=_finite(facts.ftf_themis),
                ftf_definition="themis",
            )
        case "failed":
            first, lines = _told_and_shown(facts.failure or "no reason is known")
            return WhyRecord(reason=f"failed: {first}", last_log_lines=lines)
        case "cancelled":
            return WhyRecord(reason="cancelled: somebody took it back")
    if facts.cancelling:
        return WhyRecord(reason="is being cancelled")
    if facts.held and facts.state == "waiting":
        return WhyRecord(reason="waits: somebody holds it back")
    if obstacle and facts.state == "waiting":
        return WhyRecord(reason=f"waits: {obstacle}")
    position = None if decision is None else decision.position.get(facts.handle)
    if facts.crash and (position is None or facts.state == "waiting"):
        first, lines = _told_and_shown(facts.crash)
        return WhyRecord(
            reason=f"waits: it crashed ({first}) and is tried again", last_log_lines=lines
        )
    if facts.spec.gpus == 0:
        if facts.state == "running":
            return WhyRecord(reason="runs: it needs no GPU")
        return WhyRecord(reason="waits: as many jobs without GPUs run as may (cpu_jobs)")
    if decision is None or position is None:
        if facts.note and facts.state == "running":
            return WhyRecord(reason=_with_note(facts))
        if facts.state == "waiting" and facts.last_stop == StopReason.NOT_STARTED:
            return WhyRecord(
                reason=f"waits: it could not be started ({facts.setback}) and is tried again on "
                "GPUs that nobody else wants"
            )
        if facts.state == "waiting" and facts.setback:
            return WhyRecord(reason=f"waits: {facts.setback}; it is tried again")
        most = facts.spec.group_parallel
        if most and facts.spec.group and facts.state == "waiting" and facts.starts == 0:
            return WhyRecord(
                reason=f"waits: at most {most} {'job' if most == 1 else 'jobs'} of its group "
                f"{facts.spec.group} may run at once"
            )
        last = -1 if decision is None else max(decision.position, default=-1)
        if facts.state == "waiting" and facts.handle < last:
            return WhyRecord(reason="waits: of the nodes that it may use, not enough are up")
        known = "the scheduler has just started" if decision is None else "it is new"
        verb = "runs" if facts.state == "running" else "waits"
        more = _remarks(facts) if facts.state == "running" else ""
        return WhyRecord(reason=f"{verb}: {known}, and is {NEXT_ROUND}{more}")
    return _told(facts, decision, position, origin_unix, contested)


def _with_note(facts: JobFacts) -> str:
    return f"{'runs' if facts.confirmed else 'starts'}: {facts.note}"


def _told(
    facts: JobFacts,
    decision: DecisionInForce,
    position: int,
    origin_unix: float,
    contested: frozenset[str],
) -> WhyRecord:
    told = decision.reasons.why(position)
    reason = told.reason
    if told.runs and facts.state == "waiting":
        room = "it starts when there is room on the nodes that it may use"
        kept = "running jobs keep GPUs that others in the queue of the cluster would get"
        reason = f"waits: it is chosen, and {facts.setback or (kept if contested else room)}"
    elif facts.note and facts.state == "running":
        reason = _with_note(facts)
    elif not told.runs and contested.intersection(node for node, _ in facts.placement):
        reason = "runs: others in the queue of the cluster would get its GPUs"
    elif not told.runs and facts.state == "running":
        reason = "runs: in place of a job that is preferred, but finds no room on its own nodes"

    if facts.state == "running":
        reason += _remarks(facts)

    knows = facts.epochs_done > 0 or not all(map(math.isnan, facts.spec.epoch_seconds))
    if not knows:
        reason += "; how long it takes is not known before its first epoch has ended"

    def unix(seconds: float | None) -> float | None:
        finite = _finite(seconds)
        return None if finite is None else origin_unix + finite

    return WhyRecord(
        reason=reason,
        bid=_finite(told.bid),
        price=_finite(told.price),
        ahead=told.ahead,
        start_low=unix(told.start_low),
        expected_start=unix(told.expected_start),
        start_high=unix(told.start_high),
        finish_low=unix(told.finish_low) if knows else None,
        finish=unix(told.finish) if knows else None,
        finish_high=unix(told.finish_high) if knows else None,
        fair_finish=unix(told.fair_finish) if knows else None,
        ftf=_finite(float(decision.ftf[position])) if knows else None,
        ftf_definition=decision.ftf_definition,
    )


def _remarks(facts: JobFacts) -> str:
    """What its owner should know about a running job, beside why it runs."""
    said = ""
    if facts.silent_since_unix is not None:
        since = datetime.fromtimestamp(facts.silent_since_unix, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        said += f"; it may hang: silent since {since}, an epoch takes "
        said += f"{facts.usual_epoch_seconds:.3g} s"
    if facts.spec.preemptible is Preemptible.NEVER:
        said += "; not preempted: it asked for that"
    elif facts.spec.preemptible is Preemptible.WHEN_SAVED and not facts.saved:
        said += "; not preempted: it has saved nothing yet"
    return said


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _told_and_shown(detail: str) -> tuple[str, list[str]]:
    """What happened, and the last lines of the log."""
    first, *lines = detail.splitlines() or [""]
    return first.removesuffix("; its last lines:"), lines
