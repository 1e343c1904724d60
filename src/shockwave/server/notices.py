"""What people can be told about their jobs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from shockwave.model.event_records import from_record
from shockwave.model.events import (
    JobCancelled,
    JobFailed,
    JobFinished,
    JobStarted,
    JobStopped,
    StopReason,
)
from shockwave.server.addresses import Occasion


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that happened to a job. ``sequence`` is the number of the event that says so."""

    sequence: int
    occasion: Occasion
    job: str
    time: float  # unix seconds
    detail: str = ""

    def document(self, name: str, owner: str, **more: Any) -> str:
        """As it is sent: JSON."""
        return json.dumps(
            {
                "event": self.occasion.value,
                "job": self.job,
                "name": name,
                "owner": owner,
                "time": self.time,
                "sequence": self.sequence,
                "detail": self.detail,
                **more,
            }
        )


_KINDS = {cls.kind for cls in (JobStarted, JobStopped, JobFinished, JobFailed, JobCancelled)}


def notice_of(number: int, record: dict[str, Any], origin_unix: float) -> Notice | None:
    """What an event of the journal means to the owner of a job; None if nothing."""
    if record.get("kind") not in _KINDS:
        return None
    event = from_record(record)
    time = origin_unix + event.time
    match event:
        case JobStarted():
            where = ", ".join(node for node, _ in event.placement)
            again = f"start {event.attempt}" if event.attempt > 1 else ""
            said = ", ".join(filter(None, [again, where and f"on {where}"]))
            return Notice(number, Occasion.STARTED, event.job, time, said)
        case JobFinished():
            return Notice(number, Occasion.FINISHED, event.job, time)
        case JobFailed():
            return Notice(number, Occasion.FAILED, event.job, time, event.reason)
        case JobCancelled():
            return Notice(number, Occasion.CANCELLED, event.job, time)
        case JobStopped() if event.reason is StopReason.PREEMPTED:
            return Notice(number, Occasion.PREEMPTED, event.job, time, event.detail)
        case _:
            return None
