"""The history of a Slurm cluster, as ``sacct -P`` prints it with the columns that were asked for.

For example ``sacct -a -P -S 2026-01-01 -o JobID,JobName,User,Partition,Submit,Start,End,
Elapsed,State,AllocTRES > history.txt``. The steps of a job have rows of their own, and are
no jobs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from shockwave.model.job import TraceJob
from shockwave.traces.base import RowError, Sample
from shockwave.traces.recorded import (
    NO_ZONE,
    ONLY_RUNTIMES,
    TableFormat,
    instant,
    is_nothing,
    number,
    recorded_job,
    span_seconds,
)

_ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?")
_WORKED = ("AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES", "TRESAlloc", "TRESReq")


class SlurmFormat(TableFormat):
    """``sacct -P``. The partition is the tenant, or the account where there is none."""

    name = "slurm"
    calendar = True
    delimiter = "|"
    columns = frozenset(("JobID", "Submit"))
    assumptions = (
        ONLY_RUNTIMES,
        NO_ZONE,
        "jobs that failed, timed out or were cancelled run as long as they did",
        "GRES columns are GPUs per node, TRES columns of the whole job",
    )

    def recognises(self, sample: Sample) -> bool:
        return super().recognises(sample) and "|" in sample.lines[0]

    def job(self, row: Mapping[str, str], source: str, line: int) -> TraceJob:
        identifier = row["JobID"].strip()
        if "." in identifier:
            raise RowError("are steps of a job")
        if "Start" in row and is_nothing(row["Start"]):
            raise RowError("never started")
        return recorded_job(
            id=identifier,
            submitted_seconds=instant(row["Submit"], "submission"),
            gpus=_gpus(row),
            seconds=_seconds(row),
            tenant=row.get("Partition") or row.get("Account") or "",
            name=row.get("JobName", ""),
            source=source,
            user=row.get("User"),
            account=row.get("Account"),
            state=row.get("State"),
        )


def _gpus(row: Mapping[str, str]) -> int:
    """From the first column that says something about GPUs.

    >>> _gpus({"AllocTRES": "billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,node=2"})
    4
    >>> _gpus({"AllocTRES": "", "ReqGRES": "gpu:tesla:2", "NNodes": "3"})
    6
    """
    for column in _WORKED:
        text = row.get(column) or ""
        if "gpu" not in text.lower():
            continue
        try:
            if column.endswith("GRES"):
                nodes = int(row.get("NNodes") or row.get("AllocNodes") or 1)
                return nodes * sum(_gres(part) for part in _parts(text))
            counts = dict(part.partition("=")[::2] for part in text.split(","))
            if "gres/gpu" in counts:
                return int(counts["gres/gpu"])
            typed = [int(n) for name, n in counts.items() if name.startswith("gres/gpu:")]
            if typed:
                return sum(typed)
        except ValueError:
            raise RowError("have a number of GPUs that is no number", text) from None
    if not any(column in row for column in _WORKED):
        raise RowError("have no column that tells their GPUs", f"one of {', '.join(_WORKED)}")
    return 0


def _parts(text: str) -> list[str]:
    """Those of ``gpu:a100:2(IDX:0,3),shard:4`` by commas that are not inside of brackets."""
    return re.sub(r"\([^)]*\)", "", text).split(",")


def _gres(part: str) -> int:
    name, *rest = part.split(":")
    if name.strip().lower() not in ("gpu", "gres/gpu"):
        return 0
    return int(rest[-1]) if rest and not rest[-1].isalpha() else 1


def _seconds(row: Mapping[str, str]) -> float:
    """Elapsed time, which leaves out what a job was suspended; else from start to end."""
    raw = row.get("ElapsedRaw") or ""
    if not is_nothing(raw):
        return number(raw, "elapsed time")
    text = (row.get("Elapsed") or "").strip()
    if not is_nothing(text):
        match = _ELAPSED.fullmatch(text)
        if match is None:
            raise RowError("have an elapsed time that is none", text)
        days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return span_seconds(row.get("Start", ""), row.get("End", ""), "")
