"""Microsoft's Philly as published: ``cluster_job_log``, one JSON list of jobs with attempts.

Its traps: jobs without attempts, attempts without a start or an end, times without a zone,
and GPUs that are listed nowhere but in the details of an attempt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shockwave.model.errors import TraceError
from shockwave.model.job import TraceJob
from shockwave.traces.base import Rejects, RowError, Sample
from shockwave.traces.files import lines
from shockwave.traces.recorded import (
    NO_ZONE,
    ONLY_RUNTIMES,
    RecordedFormat,
    instant,
    is_nothing,
    recorded_job,
)

_BLANK = " \t\r\n"


class PhillyFormat(RecordedFormat):
    """The log of jobs. The virtual cluster is the tenant."""

    name = "philly"
    calendar = True
    assumptions = (
        ONLY_RUNTIMES,
        NO_ZONE,
        "a job runs as long as all of its attempts together; those without a start or an end are "
        "left out and counted as attempts_without_times",
        "a job needs the GPUs of its widest attempt",
    )

    def recognises(self, sample: Sample) -> bool:
        head = "".join(sample.lines[:200])
        return head.startswith("[") and '"attempts"' in head and '"jobid"' in head

    def stream(self, path: Path, rejects: Rejects) -> Iterator[TraceJob]:
        known: set[str] = set()
        for line, record in _objects(path):
            rejects.rows += 1
            try:
                job = _job(record, f"{self.name}:{path.name}:{line}")
                if job.spec.id in known:
                    raise RowError("use the id of an earlier row", job.spec.id)
            except RowError as unusable:
                rejects.add(line, unusable, json.dumps(record)[:2000])
                continue
            known.add(job.spec.id)
            yield job


def _objects(path: Path) -> Iterator[tuple[int, Any]]:
    """(line, item) of the list in the file, decoded one by one."""
    text = "".join(_text(path))
    decoder = json.JSONDecoder()
    position, line = _after_blank(text, 0), 1
    if not text.startswith("[", position):
        raise TraceError("expected a JSON list of jobs", source=str(path), place="line 1",
                         value=text[position : position + 40])  # fmt: skip
    position += 1
    counted = 0
    while True:
        position = _after_blank(text, position)
        if text.startswith("]", position):
            return
        line += text.count("\n", counted, position)
        counted = position
        try:
            item, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            at = f" ({error.msg})" if isinstance(error, json.JSONDecodeError) else ""
            raise TraceError(
                f"the job that begins here is not JSON, or the file ends inside of it{at}",
                source=str(path),
                place=f"line {line}",
                hint="Fetch or copy the file again",
            ) from None
        yield line, item
        position = _after_blank(text, position)
        if text.startswith(",", position):
            position += 1


def _text(path: Path) -> Iterator[str]:
    for number, raw in lines(path):
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 text: byte {error.start + 1} of the line cannot be decoded"
            raise TraceError(problem, source=str(path), place=f"line {number}") from None


def _after_blank(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BLANK:
        position += 1
    return position


def _job(record: Any, source: str) -> TraceJob:
    if not isinstance(record, dict):
        raise RowError("are no JSON objects")
    attempts = record.get("attempts")
    if not isinstance(attempts, list) or not attempts:
        raise RowError("have no attempts")
    seconds, gpus, untimed = 0.0, 0, 0
    for attempt in attempts:
        if not isinstance(attempt, dict):
            raise RowError("have attempts that are no JSON objects")
        start, end = _said(attempt, "start_time"), _said(attempt, "end_time")
        if is_nothing(start) or is_nothing(end):
            untimed += 1
            continue
        seconds += max(instant(end, "end") - instant(start, "start"), 0.0)
        gpus = max(gpus, _gpus(attempt.get("detail")))
    if untimed == len(attempts):
        raise RowError("have no attempt with a start and an end")
    return recorded_job(
        id=_said(record, "jobid"),
        submitted_seconds=instant(_said(record, "submitted_time"), "submission"),
        gpus=gpus,
        seconds=seconds,
        tenant=_said(record, "vc"),
        source=source,
        user=_said(record, "user"),
        state=_said(record, "status"),
        attempts=len(attempts),
        attempts_without_times=untimed or None,
    )


def _said(record: dict[str, Any], field: str) -> str:
    value = record.get(field)
    return "" if value is None else str(value)


def _gpus(detail: Any) -> int:
    if not isinstance(detail, list):
        return 0
    held = [part.get("gpus") for part in detail if isinstance(part, dict)]
    return sum(len(gpus) for gpus in held if isinstance(gpus, list))
