"""The native trace format: JSON Lines, one job a line.

::

    {"id": "1", "arrival": 55.0, "model": "ResNet-18", "gpus": 1, "epochs": 92,
     "adaptation": "accordion", "batch_sizes": [32, 256],
     "epoch_seconds": {"32": 36.3584, "256": 30.9062},
     "schedule": [[32, 28], [256, 64]]}

``arrival`` is in seconds, ``schedule`` the truth: [configuration, epochs] in order.
``tenant``, ``weight`` and ``name`` are optional; unknown fields are kept. The first line may
be a header, an object with the field ``shockwave_trace`` that tells where the jobs come from
and what was assumed; every other line is one job. Jobs that can use several types or numbers of
GPUs say so in fields of their own (:mod:`shockwave.traces.option_records`).
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from shockwave.model.errors import InputError, TraceError
from shockwave.model.job import TraceJob
from shockwave.traces.base import Rejects, Sample, TraceFormat
from shockwave.traces.files import line_writer, text_lines
from shockwave.traces.records import job_from_record, record_from_job
from shockwave.traces.speeds import read_speeds

HEADER_FIELD = "shockwave_trace"
HEADER_VERSION = 1
SUFFIXES = (".jsonl", ".ndjson")

_by_arrival = operator.attrgetter("spec.arrival_seconds")


class NativeFormat(TraceFormat):
    """The format of this module, for the list of formats."""

    name = "native"
    suffixes = tuple(name + packed for name in SUFFIXES for packed in ("", ".gz", ".zst"))

    def recognises(self, sample: Sample) -> bool:
        """By its first line; a file that is called a trace is one, if perhaps a bad one."""
        first = next(iter(sample.lines), "")
        if first.startswith("{") and '"kind"' in first and '"schedule"' not in first:
            return False  # a journal
        return super().recognises(sample) or (
            first.startswith("{") and ('"schedule"' in first or f'"{HEADER_FIELD}"' in first)
        )

    def read(self, path: Path) -> list[TraceJob]:
        return read(path, speeds=self.profiles)

    def stream(self, path: Path, rejects: Rejects) -> Iterator[TraceJob]:
        for job in _jobs(path, self.profiles):
            rejects.rows += 1
            yield job


def read(path: str | Path, *, speeds: Path | None = None) -> list[TraceJob]:
    """All jobs of the trace by arrival; jobs that arrive together stay in file order.

    ``speeds`` is a file of speeds for jobs that bring none (:mod:`shockwave.traces.speeds`).
    Blank lines are skipped. Raises :class:`TraceError` that names the file, the line, the
    field, the value and what was expected; for the first bad line only.
    """
    jobs = sorted(_jobs(Path(path), speeds), key=_by_arrival)
    if not jobs:
        raise TraceError("no jobs in the trace", source=str(path), hint="Expected one job a line")
    return jobs


def read_header(path: str | Path) -> dict[str, object] | None:
    """What the trace's first line says about where it comes from, if it says it."""
    for line, text in text_lines(Path(path)):
        return _header(_decoded(text, str(path), line))
    return None


def write(
    jobs: Iterable[TraceJob], path: str | Path, *, header: Mapping[str, object] | None = None
) -> int:
    """Writes a trace that :func:`read` gives back as the same jobs; whole or not at all.

    A name that ends in ``.gz`` or ``.zst`` is compressed. ``header`` becomes the first line.
    Returns the number of jobs. Raises :class:`TraceError` where a job cannot be expressed or
    its id is taken, and :class:`InputError` where the file cannot be written.
    """
    ids: set[str] = set()
    with line_writer(Path(path)) as file:
        if header is not None:
            file.write(json.dumps({HEADER_FIELD: HEADER_VERSION, **header}) + "\n")
        for job in jobs:
            try:
                record = record_from_job(job)
            except TraceError as error:
                raise _placed(error, "cannot be written", f"job {job.spec.id!r}") from None
            if job.spec.id in ids:
                problem = "cannot be written: the id is used twice"
                raise TraceError(problem, place=f"job {job.spec.id!r}")
            ids.add(job.spec.id)
            file.write(json.dumps(record) + "\n")
        if not ids:
            raise InputError("a trace must have at least one job", source=str(path))
    return len(ids)


def _jobs(path: Path, speeds: Path | None) -> Iterator[TraceJob]:
    """The jobs in file order, each id once."""
    source = str(path)
    models = None if speeds is None else read_speeds(speeds)
    line_of_id: dict[str, int] = {}
    begun = False
    for line, text in text_lines(path):
        record = _decoded(text, source, line)
        if not begun:
            begun = True
            if _header(record) is not None:
                continue
        try:
            job = job_from_record(record, models)
        except TraceError as error:
            raise _placed(error, None, f"line {line}", source) from None
        first = line_of_id.setdefault(job.spec.id, line)
        if first != line:
            raise TraceError(
                f"must be unique, but line {first} has the same id",
                source=source,
                place=f"line {line}, field 'id'",
                value=job.spec.id,
            )
        yield job


def _header(record: object) -> dict[str, object] | None:
    return record if isinstance(record, dict) and HEADER_FIELD in record else None


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise TraceError("must be given once only", place=f"field '{twice}'")
    return record


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys)


def _decoded(text: str, source: str, line: int) -> object:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise TraceError(
            f"not JSON: {error.msg} at column {error.colno}",
            source=source,
            place=f"line {line}",
            value=text,
            hint="Expected one JSON object a line",
        ) from None
    except TraceError as error:
        raise _placed(error, None, f"line {line}", source) from None
    except (ValueError, RecursionError) as error:  # a number or a nesting beyond all measure
        raise TraceError(
            f"not readable as JSON: {error}", source=source, place=f"line {line}"
        ) from (None)


def _placed(
    error: TraceError, problem: str | None, place: str, source: str | None = None
) -> TraceError:
    """The error of a record, completed by where the record is."""
    return TraceError(
        f"{problem}: {error.problem}" if problem else error.problem,
        source=source,
        place=f"{place}, {error.place}" if error.place else place,
        value=error.value,
        hint=error.hint,
    )
