"""What became of a gang since it was last looked at, as the events that tell of it."""

from __future__ import annotations

from dataclasses import dataclass

from shockwave.executors.gangs.account import LiveJob
from shockwave.executors.gangs.gang import Gang
from shockwave.executors.gangs.outcome import Ending, Outcome, judge
from shockwave.model.events import (
    Event,
    JobFinished,
    JobNoted,
    JobRunning,
    JobStopped,
    RegimeChanged,
    StopReason,
)

_REASONS = {
    Outcome.STOPPED: StopReason.PREEMPTED,
    Outcome.CRASHED: StopReason.CRASHED,
    Outcome.KILLED: StopReason.KILLED,
    Outcome.LOST: StopReason.NODE_LOST,
    Outcome.NEVER_STARTED: StopReason.NOT_STARTED,
}


@dataclass(frozen=True, slots=True)
class Span:
    """The time that news are of, in seconds of the run; ``origin_unix`` is its second 0."""

    origin_unix: float
    since: float
    until: float

    def at(self, unix: float) -> float:
        """A unix time in seconds of the run, never before what was told already."""
        return min(max(unix - self.origin_unix, self.since), self.until)


def of_condition(job: LiveJob, gang: Gang, note: str, span: Span) -> list[Event]:
    """Whether it runs, and the backend's ``note`` on it, where that is news."""
    events: list[Event] = []
    if not job.confirmed and gang.is_up():
        job.confirmed, job.note = True, ""
        events.append(JobRunning(span.until, job.spec.id))
    if note != job.note:
        job.note = note
        events.append(JobNoted(span.until, job.spec.id, note))
    return events


def of_regimes(job: LiveJob, span: Span) -> list[Event]:
    return [
        RegimeChanged(span.at(entered.time), job.spec.id, entered.epoch, entered.configuration)
        for entered in job.regime_news()
    ]


def how_it_ended(job: LiveJob, gang: Gang) -> Ending:
    """For a gang of which nothing lives any more."""
    return judge(
        job.folder,
        gang.generation,
        job.ledger.last_event,
        parts=gang.parts,
        adopted=job.adopted,
        fate=gang.fate(),
    )


def of_end(job: LiveJob, ending: Ending, ended: float, span: Span) -> list[Event]:
    """The last that is heard of a launch; ``ended`` is in unix seconds."""
    events: list[Event] = []
    if job.gang is not None and not job.confirmed and job.gang.is_up():
        events.append(JobRunning(span.at(ended), job.spec.id))
    events += of_regimes(job, span)
    if ending.outcome is Outcome.FINISHED:  # even if it was asked to stop at the end
        events.append(JobFinished(span.at(ended), job.spec.id, job.exclusive_seconds(ended)))
    elif job.stop_asked is None:  # else it ended as ordered
        events.append(_stop(job, ending, span.at(ended)))
    return events


def _stop(job: LiveJob, ending: Ending, time: float) -> JobStopped:
    detail = ending.detail
    if ending.outcome is Outcome.STOPPED:
        detail = detail or "stopped, but not by this scheduler"
    done = float(min(job.ledger.epochs_done, job.spec.epochs))
    reason = _REASONS[ending.outcome]
    if reason is StopReason.NOT_STARTED and job.adopted:
        reason = StopReason.KILLED  # the scheduler itself ended before it could start it
    return JobStopped(time, job.spec.id, done, reason, detail, ending.back_off_seconds)
