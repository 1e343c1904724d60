"""Alibaba's PAI trace of 2020: tables of jobs, tasks and tags whose headers are files of their own.

A job has tasks (workers, parameter servers), a task has instances, and ``plan_gpu`` of a task
is the percentage of a GPU that each of its instances asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shockwave.model.errors import TraceError
from shockwave.model.job import TraceJob
from shockwave.traces.base import Rejects, RowError, Sample
from shockwave.traces.recorded import (
    ONLY_RUNTIMES,
    TableFormat,
    is_nothing,
    number,
    recorded_job,
    whole_gpus,
)

_JOBS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
_TASKS = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu",
    "plan_mem", "plan_gpu", "gpu_type",
)  # fmt: skip
_TAGS = ("inst_id", "user", "gpu_type_spec", "group", "workload")


@dataclass(slots=True)
class _Tasks:
    """What the tasks of a job ask for, and when the first began and the last ended."""

    requests: list[tuple[float, float]] = field(default_factory=list)
    start: float | None = None
    end: float | None = None
    problem: RowError | None = None


class PaiFormat(TableFormat):
    """The folder of tables, or its ``pai_job_table.csv``. The user is the tenant."""

    name = "alibaba-2020"
    columns = frozenset(_JOBS)
    assumptions = (
        ONLY_RUNTIMES,
        "parts of GPUs of a job are added up and rounded up to whole ones; the sum is kept as "
        "gpu_request",
        "a job runs from the start of its first task to the end of its last one",
        "all instances start together, and GPUs of all types count as equal",
    )

    def recognises(self, sample: Sample) -> bool:
        if sample.path.is_dir():
            return _table(sample.path, "pai_job_table") is not None
        return sample.path.name.startswith("pai_job_table")

    def stream(self, path: Path, rejects: Rejects) -> Iterator[TraceJob]:
        folder = path if path.is_dir() else path.parent
        jobs = _needed(folder, "pai_job_table")
        asked = self._tasks(_needed(folder, "pai_task_table"), rejects)
        workloads = self._workloads(_table(folder, "pai_group_tag_table"), rejects)
        known: set[str] = set()
        for line, row in self.rows(jobs, rejects, _header(jobs, _JOBS)):
            source = f"{self.name}:{jobs.name}:{line}"
            try:
                if row["job_name"] in known:
                    raise RowError("use the id of an earlier row", row["job_name"])
                job = _job(row, asked.get(row["job_name"]), workloads, source)
            except RowError as unusable:
                rejects.add(line, unusable, ",".join(row.values()))
                continue
            known.add(job.spec.id)
            yield job

    def job(self, row: Mapping[str, str], source: str, line: int) -> TraceJob:
        raise NotImplementedError("a job needs the rows of three tables")

    def _tasks(self, table: Path, rejects: Rejects) -> dict[str, _Tasks]:
        found: dict[str, _Tasks] = {}
        for row in self._beside(table, _TASKS, rejects):
            tasks = found.setdefault(row["job_name"], _Tasks())
            try:
                gpus = 0.0 if is_nothing(row["plan_gpu"]) else number(row["plan_gpu"], "plan_gpu")
                if gpus > 0:
                    tasks.requests.append((number(row["inst_num"], "inst_num"), gpus / 100))
                if not is_nothing(row["start_time"]):
                    start = number(row["start_time"], "start")
                    tasks.start = start if tasks.start is None else min(tasks.start, start)
                if not is_nothing(row["end_time"]):
                    end = number(row["end_time"], "end")
                    tasks.end = end if tasks.end is None else max(tasks.end, end)
            except RowError as unusable:
                tasks.problem = unusable
        return found

    def _workloads(self, table: Path | None, rejects: Rejects) -> dict[str, str]:
        rows = [] if table is None else self._beside(table, _TAGS, rejects)
        return {row["inst_id"]: row["workload"] for row in rows if row["workload"]}

    def _beside(
        self, table: Path, columns: tuple[str, ...], rejects: Rejects
    ) -> Iterator[dict[str, str]]:
        """The rows of another table; its rejects count too."""
        own = Rejects(rejects.file, where=f" (in {table.name})")
        for _, row in self.rows(table, own, _header(table, columns)):
            yield row
        rejects.include(own)


def _table(folder: Path, name: str) -> Path | None:
    packed = (folder / f"{name}.csv{suffix}" for suffix in ("", ".gz", ".zst"))
    return next((path for path in packed if path.is_file()), None)


def _needed(folder: Path, name: str) -> Path:
    table = _table(folder, name)
    if table is None:
        hint = "Unpack the tables into one folder"
        raise TraceError(f"{name}.csv is missing", source=str(folder), hint=hint)
    return table


def _header(table: Path, columns: tuple[str, ...]) -> tuple[str, ...] | None:
    """The columns by the header file beside the table, or as published; None if it has its own."""
    beside = table.parent / f"{table.name.partition('.')[0]}.header"
    if beside.is_file():
        names = tuple(beside.read_text(encoding="utf-8-sig", errors="replace").strip().split(","))
        missing = sorted(set(columns) - set(names))
        if missing:
            raise TraceError(
                f"column '{missing[0]}' is missing", source=str(beside), place="line 1"
            )
        return names
    return columns


def _job(
    row: Mapping[str, str], tasks: _Tasks | None, workloads: Mapping[str, str], source: str
) -> TraceJob:
    if row["job_name"] == "job_name":
        raise RowError("are a header and no job")
    if tasks is None:
        raise RowError("have no tasks")
    if tasks.problem is not None:
        raise tasks.problem
    gpus = whole_gpus(tasks.requests)
    submitted = number(row["start_time"], "submission")
    if submitted < 0:
        raise RowError("arrive before second 0", str(submitted))
    if gpus > 0 and (tasks.start is None or tasks.end is None):
        raise RowError("never ran, or have no end")
    asked = sum(instances * each for instances, each in tasks.requests)
    return recorded_job(
        id=row["job_name"],
        submitted_seconds=submitted,
        gpus=gpus,
        seconds=(tasks.end or 0.0) - (tasks.start or 0.0),
        tenant=row["user"],
        model=workloads.get(row["inst_id"], "unknown"),
        source=source,
        user=row["user"],
        state=row["status"],
        gpu_request=round(asked, 6) if asked != gpus else None,
    )
