"""What cluster logs have in common: rows of text, dates, and jobs of which only a runtime is known.

A log says when a job was submitted, how many GPUs it held and for how long. It says nothing
about epochs or batch sizes, so such a job becomes a static one of a single configuration,
with epochs of about a minute: ``epochs = clip(round(seconds / 60), 1, 1000)``, each of
``seconds / epochs``. What a row cannot give raises :class:`RowError`.
"""

from __future__ import annotations

import csv
import logging
import math
import operator
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from shockwave.model.errors import TraceError
from shockwave.model.job import JobSpec, Regime, TraceJob
from shockwave.traces.base import Rejects, RowError, Sample, TraceFormat
from shockwave.traces.files import lines

UNKNOWN_CONFIGURATION = 1
ONLY_RUNTIMES = (
    "the source records runtimes only: every job is static, in one configuration called "
    f"{UNKNOWN_CONFIGURATION}, with epochs of about a minute"
)
NO_ZONE = "times without a zone are taken as UTC, whatever daylight saving did to them"

_EPOCH_SECONDS = 60.0
_MOST_EPOCHS = 1000
_LONGEST_SECONDS = 100 * 365 * 86_400.0
_MOST_GPUS = 10**6
_NOTHING = frozenset(("", "none", "null", "nan", "unknown", "n/a", "na", "nat", "-"))

_log = logging.getLogger("shockwave.traces")
_by_arrival = operator.attrgetter("spec.arrival_seconds")


class RecordedFormat(TraceFormat):
    """A format that is read row by row: :meth:`stream` is all there is to write."""

    @abstractmethod
    def stream(self, path: Path, rejects: Rejects) -> Iterator[TraceJob]: ...

    def read(self, path: Path) -> list[TraceJob]:
        """All jobs by arrival, the first at 0 if the source has dates.

        How many rows were of no use, and why, is logged as a warning.
        """
        rejects = Rejects()
        jobs = sorted(self.stream(path, rejects), key=_by_arrival)
        if not jobs:
            raise no_jobs(path, rejects)
        if rejects.total:
            _log.warning(
                "%s: %s of %s rows are not used: %s",
                path, f"{rejects.total:,}", f"{rejects.rows:,}", rejects.told(),
            )  # fmt: skip
        if self.calendar:
            jobs = list(rebased(jobs, jobs[0].spec.arrival_seconds))
        return jobs


class TableFormat(RecordedFormat):
    """A table of text, one job a row, whose first line names the columns.

    Subclasses name the ``columns`` that they cannot do without, and make a job of a row.
    """

    columns: frozenset[str]
    delimiter: str = ","

    @abstractmethod
    def job(self, row: Mapping[str, str], source: str, line: int) -> TraceJob:
        """The job of a row. Raises :class:`RowError`."""

    def recognises(self, sample: Sample) -> bool:
        return bool(sample.lines) and self.columns <= set(self._cells(sample.lines[0]))

    def stream(self, path: Path, rejects: Rejects) -> Iterator[TraceJob]:
        known: set[str] = set()
        for line, row in self.rows(path, rejects):
            try:
                job = self.job(row, f"{self.name}:{path.name}:{line}", line)
                if job.spec.arrival_seconds < 0 and not self.calendar:
                    raise RowError("arrive before second 0", str(job.spec.arrival_seconds))
                if job.spec.id in known:
                    raise RowError("use the id of an earlier row", job.spec.id)
            except RowError as unusable:
                rejects.add(line, unusable, self.delimiter.join(row.values()))
                continue
            known.add(job.spec.id)
            yield job

    def rows(
        self, path: Path, rejects: Rejects, header: Sequence[str] | None = None
    ) -> Iterator[tuple[int, dict[str, str]]]:
        """(line, cells by column) of every row, by the file's own header where none is given.

        Raises :class:`TraceError` if a column is missing.
        """
        names = tuple(header) if header else None
        width = len(names) if names else 0
        for line, raw in lines(path):
            try:
                text = raw.decode("utf-8").strip("\r\n")
            except UnicodeDecodeError:
                rejects.rows += 1
                rejects.add(line, RowError("are not UTF-8 text"), repr(raw[:200]))
                continue
            if not text.strip():
                continue
            cells = self._cells(text)
            if names is None:
                names, width = tuple(cell.strip() for cell in cells), len(cells)
                self._check(names, path, line)
                continue
            rejects.rows += 1
            if len(cells) != width:
                unusable = RowError(
                    "have more or fewer cells than the header",
                    f"{len(cells)} cells, the header has {width}",
                )
                rejects.add(line, unusable, text)
                continue
            yield line, dict(zip(names, cells, strict=True))

    def _cells(self, text: str) -> list[str]:
        if self.delimiter == "," and '"' in text:
            try:
                return next(csv.reader([text]))
            except csv.Error:
                return []
        return text.split(self.delimiter)

    def _check(self, names: Sequence[str], path: Path, line: int) -> None:
        missing = sorted(self.columns - set(names))
        if missing:
            raise TraceError(
                f"is no {self.name} trace: column '{missing[0]}' is missing",
                source=str(path),
                place=f"line {line}",
                value=self.delimiter.join(names)[:200],
                hint=f"Expected the columns {', '.join(sorted(self.columns))}",
            )


def rebased(jobs: Sequence[TraceJob], origin_seconds: float) -> Iterator[TraceJob]:
    """The jobs with arrivals counted from ``origin_seconds``."""
    return (
        replace(
            job,
            spec=replace(
                job.spec, arrival_seconds=round(job.spec.arrival_seconds - origin_seconds, 6)
            ),
        )
        for job in jobs
    )


def no_jobs(path: Path, rejects: Rejects) -> TraceError:
    """The error of a source of which nothing can be used."""
    told = f"none of its {rejects.rows:,} rows can be used" if rejects.rows else "has no rows"
    reasons = f"{rejects.told()}" if rejects.total else None
    return TraceError(told, source=str(path), hint=reasons)


def recorded_job(
    *,
    id: str,
    submitted_seconds: float,
    gpus: int,
    seconds: float,
    source: str,
    tenant: str = "",
    model: str = "unknown",
    name: str = "",
    **extra: object,
) -> TraceJob:
    """A static job that holds ``gpus`` GPUs for ``seconds``; ``extra`` is kept with it.

    Raises :class:`RowError` where that is no job.
    """
    if gpus < 1:
        raise RowError("need no GPU", str(gpus))
    if gpus > _MOST_GPUS:
        raise RowError("ask for an impossible number of GPUs", str(gpus))
    if not seconds > 0:
        raise RowError("ran for no time", str(seconds))
    if not seconds <= _LONGEST_SECONDS or not math.isfinite(submitted_seconds):
        raise RowError("have an impossible time", f"{submitted_seconds}, {seconds} s")
    if not id:
        raise RowError("have no id")
    if not (id.isprintable() and tenant.isprintable() and model.isprintable()):
        raise RowError("have unprintable text in them")
    if not name.isprintable():
        name = ""
    epochs = min(max(round(seconds / _EPOCH_SECONDS), 1), _MOST_EPOCHS)
    epoch_seconds = seconds / epochs
    return TraceJob(
        JobSpec(
            id=id,
            arrival_seconds=submitted_seconds,
            gpus=gpus,
            epochs=epochs,
            configurations=(UNKNOWN_CONFIGURATION,),
            epoch_seconds=(epoch_seconds,),
            model=model,
            tenant=tenant or "default",
            name=name,
        ),
        (Regime(UNKNOWN_CONFIGURATION, epochs, epoch_seconds),),
        {**{key: value for key, value in extra.items() if value not in (None, "")},
         "source": source},
    )  # fmt: skip


def is_nothing(text: str) -> bool:
    """Whether a cell says that there is no value."""
    return text.strip().lower() in _NOTHING


def instant(text: str, what: str) -> float:
    """Seconds since 1970 of a date; one without a zone is taken as UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.timestamp()
    except (ValueError, OverflowError):
        if is_nothing(text):
            raise RowError(f"have no {what}") from None
        raise RowError(f"have a {what} that is no date", text) from None


def number(text: str, what: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value):
        return value
    if is_nothing(text):
        raise RowError(f"have no {what}")
    raise RowError(f"have a {what} that is no number", text)


def whole(text: str, what: str) -> int:
    """A whole number, also if it is written as 8.0."""
    value = number(text, what)
    if value != int(value):
        raise RowError(f"have a {what} that is no whole number", text)
    return int(value)


def span_seconds(start: str, end: str, duration: str) -> float:
    """Seconds between two dates; the recorded duration where one of them is missing."""
    if is_nothing(start) or is_nothing(end):
        if is_nothing(duration):
            raise RowError("never ran, or have no end")
        return number(duration, "duration")
    return instant(end, "end") - instant(start, "start")


def whole_gpus(requests: Sequence[tuple[float, float]]) -> int:
    """GPUs of (instances, GPUs of each); a fraction that is left counts as a whole one."""
    return math.ceil(sum(instances * each for instances, each in requests) - 1e-9)
