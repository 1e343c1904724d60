"""What people may see of the jobs of others: that they are there, how big, and why they wait.

Names, models, what they run and what they wrote stay with their owners. What is not known to be
harmless is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shockwave.server.records import JobRecord, WhyRecord

_PUBLIC_FIELDS = {
    "kind", "time", "job", "placement", "attempt", "epochs_done", "epoch", "configuration",
    "exclusive_seconds", "back_off_seconds", "by", "option",
}  # fmt: skip
_PUBLIC_SPEC = {
    "id", "arrival_seconds", "gpus", "gpu_counts", "gpu_types", "epochs", "tenant", "owner",
    "weight",
}  # fmt: skip


def public_record(record: JobRecord) -> JobRecord:
    """The record of somebody else's job."""
    hidden: dict[str, Any] = {"name": "", "model": "", "group": "", "links": {}, "exit_code": None}
    return record.model_copy(update={**hidden, "why": _public_why(record)})


def _public_why(record: JobRecord) -> WhyRecord:
    """The policy's own words are about the queue. All others may quote the job's output."""
    why = record.why
    from_policy = why.ftf_definition is not None and record.state in ("waiting", "running")
    if not from_policy or why.reason.startswith("waits: it is chosen"):
        return why.model_copy(update={"reason": record.state, "last_log_lines": []})
    return why.model_copy(update={"last_log_lines": []})


def public_event(
    record: dict[str, Any], is_own: Callable[[str], bool], *, private_queue: bool
) -> dict[str, Any] | None:
    """A record of the journal for somebody who may not read all; None if it is not for them."""
    job = record.get("job")
    if job is None:
        return None if private_queue and record.get("kind") == "progressed" else record
    if is_own(job["id"] if isinstance(job, dict) else job):
        return record
    if private_queue:
        return None
    public = {name: value for name, value in record.items() if name in _PUBLIC_FIELDS}
    if isinstance(job, dict):
        public["job"] = {name: value for name, value in job.items() if name in _PUBLIC_SPEC}
    if record.get("kind") == "job-stopped":
        public["reason"] = record.get("reason")  # one of a few words
    return public
