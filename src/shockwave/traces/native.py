"""The native trace format: JSON Lines, one job a line.

::

    {"id": "1", "arrival": 55.0, "model": "ResNet-18", "gpus": 1, "epochs": 92,
     "adaptation": "accordion", "batch_sizes": [32, 256],
     "epoch_seconds": {"32": 36.3584, "256": 30.9062},
     "schedule": [[32, 28], [256, 64]]}

``arrival`` is in seconds, ``schedule`` the truth: [configuration, epochs] in order.
``tenant``, ``weight`` and ``name`` are optional; unknown fields are kept.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Iterator
from pathlib import Path

from shockwave.model.errors import InputError, TraceError
from shockwave.model.job import TraceJob
from shockwave.protocol.files import atomic_writer
from shockwave.traces.base import TraceFormat
from shockwave.traces.records import job_from_record, record_from_job

_by_arrival = operator.attrgetter("spec.arrival_seconds")


class NativeFormat(TraceFormat):
    """The format of this module, for the list of formats."""

    name = "native"
    suffixes = (".jsonl", ".ndjson")

    def read(self, path: Path) -> list[TraceJob]:
        return read(path)


def read(path: str | Path) -> list[TraceJob]:
    """All jobs of the trace by arrival; jobs that arrive together stay in file order.

    Blank lines are skipped. Raises :class:`TraceError` that names the file, the line, the
    field, the value and what was expected; for the first bad line only.
    """
    source = str(path)
    jobs: list[TraceJob] = []
    line_of_id: dict[str, int] = {}
    for line, text in _lines(Path(path), source):
        job = _job(text, source, line)
        first = line_of_id.setdefault(job.spec.id, line)
        if first != line:
            raise TraceError(
                f"must be unique, but line {first} has the same id",
                source=source,
                place=f"line {line}, field 'id'",
                value=job.spec.id,
            )
        jobs.append(job)
    if not jobs:
        raise TraceError("no jobs in the trace", source=source, hint="Expected one job a line")
    jobs.sort(key=_by_arrival)
    return jobs


def write(jobs: Iterable[TraceJob], path: str | Path) -> None:
    """Writes a trace that :func:`read` gives back as the same jobs; whole or not at all.

    Raises :class:`TraceError` where a job cannot be expressed or its id is taken, and
    :class:`InputError` where the file cannot be written.
    """
    ids: set[str] = set()
    try:
        with atomic_writer(path) as file:
            for job in jobs:
                place = f"job {job.spec.id!r}"
                try:
                    record = record_from_job(job)
                except TraceError as error:
                    raise _placed(error, "cannot be written", place) from None
                if job.spec.id in ids:
                    raise TraceError("cannot be written: the id is used twice", place=place)
                ids.add(job.spec.id)
                file.write(json.dumps(record) + "\n")
            if not ids:
                raise InputError("a trace must have at least one job", source=str(path))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be written: {reason}", source=str(path)) from error


def _lines(path: Path, source: str) -> Iterator[tuple[int, str]]:
    """(line number, text) of every line that is not blank."""
    try:
        with path.open("rb") as file:
            # Bytes, because text mode would also break lines inside of JSON strings.
            for line, raw in enumerate(file, start=1):
                try:
                    # Some editors begin a file with a byte order mark.
                    text = raw.decode("utf-8-sig" if line == 1 else "utf-8").strip(" \t\r\n")
                except UnicodeDecodeError as error:
                    raise TraceError(
                        f"not UTF-8 text: byte {error.start + 1} of the line cannot be decoded",
                        source=source,
                        place=f"line {line}",
                        value=raw[error.start : error.end],
                    ) from None
                if text:
                    yield line, text
    except FileNotFoundError:
        raise TraceError("no such file", source=source) from None
    except IsADirectoryError:
        raise TraceError("is a folder, expected a trace file", source=source) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise TraceError(f"cannot be read: {reason}", source=source) from error


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise TraceError("must be given once only", place=f"field '{twice}'")
    return record


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys)


def _job(text: str, source: str, line: int) -> TraceJob:
    try:
        return job_from_record(_DECODER.decode(text))
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
