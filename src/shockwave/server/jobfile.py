"""``job.yaml``: jobs in a file, with errors that point at the line.

The fields are those of :class:`~shockwave.server.records.Submission`. A relative ``workdir``
starts at the file's own folder, so that a job means the same from wherever it is submitted. A
file may have several documents; one with a ``matrix`` stands for many jobs, of which at most
``parallel`` run at once.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from shockwave.model.errors import InputError
from shockwave.server.job_sections import known_sections, options_of
from shockwave.server.records import Submission

LARGEST_BYTES = 1024 * 1024
STANDARD_INPUT = Path("-")
_HINTS = {
    "command": "Write the command as a list: [python, train.py, --lr, '0.1']",
    "env": "Put numbers and yes/no in quotes",
}


@dataclass(frozen=True)
class JobDocument:
    """One document of a file: the fields of a job, and those of its matrix apart."""

    fields: dict[str, Any]
    source: str
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)
    matrix: Any = None  # of one that stands for many jobs
    parallel: int = 0

    def submission(self) -> Submission:
        """Raises :class:`InputError` for the first field that is wrong."""
        return checked_submission(self.fields, self.source, self.lines)


def read_job_file(path: Path, overrides: Mapping[str, Any] | None = None) -> Submission:
    """The one job that the file describes; ``overrides`` win over its fields.

    Raises :class:`InputError` that names the file, the line, the field, the value and what is
    expected there.
    """
    documents = read_documents(path, overrides)
    if len(documents) > 1 or documents[0].matrix is not None:
        raise InputError("describes several jobs, expected one", source=documents[0].source)
    return documents[0].submission()


def read_documents(path: Path, overrides: Mapping[str, Any] | None = None) -> list[JobDocument]:
    """What the file, or standard input for ``-``, describes; ``overrides`` win over its fields.

    Raises :class:`InputError` as :func:`read_job_file`.
    """
    from_input = path == STANDARD_INPUT
    source = "standard input" if from_input else str(path)
    content = _content(path, source)
    given = dict(overrides or {})
    folder = Path.cwd() if from_input else Path(os.path.abspath(path)).parent
    documents = []
    for root in _parsed(content, source):
        fields = _plain(root, source) | given
        lines = _lines(root, exclude=given)
        parallel = _parallel(fields.pop("parallel", 0), source, lines)
        matrix = fields.pop("matrix", None)
        if "workdir" not in given:
            workdir = fields.get("workdir", ".")
            fields["workdir"] = str(folder / workdir) if isinstance(workdir, str) else workdir
        documents.append(JobDocument(fields, source, lines, matrix, parallel))
    return documents


def _parallel(value: Any, source: str, lines: Mapping[tuple[str | int, ...], int]) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        line = lines.get(("parallel",))
        raise InputError(
            "should be how many of its jobs may run at once",
            source=source,
            place=f"line {line}, field parallel" if line else "field parallel",
            value=value,
        )
    return value


def _content(path: Path, source: str) -> bytes:
    try:
        if path == STANDARD_INPUT:
            content = sys.stdin.buffer.read(LARGEST_BYTES + 1)
        else:
            with path.open("rb") as file:
                content = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise InputError(
            error.strerror or "cannot be read",
            source=source,
            hint="Name a job file, or put the command after --: submit --epochs 3 -- python x.py",
        ) from error
    if len(content) > LARGEST_BYTES:
        raise InputError(f"a job file has at most {LARGEST_BYTES:,} bytes", source=source)
    return content


def checked_submission(
    fields: Mapping[str, Any],
    source: str,
    lines: Mapping[tuple[str | int, ...], int] | None = None,
) -> Submission:
    """The fields as a submission. Raises :class:`InputError` for the first that is wrong.

    ``lines`` says where a field stands in the source.
    """
    try:
        return Submission.model_validate(dict(fields))
    except ValidationError as error:
        found = error.errors(include_url=False)
    first = found[0]
    place = tuple(first["loc"])
    field = ".".join(str(part) for part in place if part != "[key]")
    line = _line_of(place, lines or {})
    missing = first["type"] == "missing"
    unknown = first["type"] == "extra_forbidden"
    hints = [_nearest(place) if unknown else _HINTS.get(str(place[0]) if place else "", "")]
    if len(found) > 1:
        hints.append(f"{len(found) - 1} more {'field is' if len(found) == 2 else 'fields are'} bad")
    raise InputError(
        _said(first["type"], first["msg"]),
        source=source,
        place=f"line {line}, field {field}" if line else f"field {field}",
        value=None if missing or unknown else first["input"],
        hint=". ".join(hint for hint in hints if hint) or None,
    )


def job_schema() -> dict[str, Any]:
    """The JSON Schema of ``job.yaml``, for editors and for other programs."""
    schema = Submission.model_json_schema()
    schema["properties"]["epoch_seconds"]["propertyNames"] = {"pattern": "^[1-9][0-9]*$"}
    schema["properties"]["matrix"] = {
        "type": "object",
        "description": "Makes many jobs of this one: {name} in any field stands for a value.",
    }
    schema["properties"]["parallel"] = {
        "type": "integer",
        "minimum": 0,
        "description": "How many jobs of the matrix may run at once; 0 for all.",
    }
    schema["title"] = "A job for Shockwave"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_text() -> str:
    """The schema as it is printed and kept in the documentation."""
    return json.dumps(job_schema(), indent=2) + "\n"


def _parsed(content: bytes, source: str) -> list[yaml.MappingNode]:
    """The documents, one at least."""
    try:
        roots = list(yaml.compose_all(content, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise InputError(
            f"not YAML: {error.problem}",
            source=source,
            place=None if mark is None else f"line {mark.line + 1}, column {mark.column + 1}",
        ) from error
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        raise InputError(
            f"not YAML: {' '.join(str(error).split())[:120]}", source=source
        ) from error
    found = [root for root in roots if isinstance(root, yaml.MappingNode)]
    if len(found) != len(roots) or not found:
        raise InputError("expected fields such as 'command: [python, train.py]'", source=source)
    return found


def _plain(root: yaml.MappingNode, source: str) -> dict[str, Any]:
    seen: dict[str, int] = {}
    for key, _ in root.value:
        line = key.start_mark.line + 1
        name = str(key.value)
        if name in seen:
            raise InputError(
                f"the field is there twice, first in line {seen[name]}",
                source=source,
                place=f"line {line}, field {name}",
            )
        seen[name] = line
    loader = yaml.SafeLoader("")
    try:
        built = loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark is not None else 1
        raise InputError(
            f"not plain data: {error.problem}", source=source, place=f"line {line}"
        ) from error
    except ValueError as error:  # for instance a date that no calendar has
        raise InputError(f"not plain data: {error}", source=source) from error
    finally:
        loader.dispose()
    return {str(name): value for name, value in built.items()}


def _lines(root: yaml.MappingNode, exclude: Mapping[str, Any]) -> dict[tuple[str | int, ...], int]:
    found = _walk(root, ())
    return {place: line for place, line in found if not place or place[0] not in exclude}


def _walk(node: yaml.Node, place: tuple[str | int, ...]) -> Iterator[tuple[Any, int]]:
    """The line of every field, two levels deep, which is as deep as a job file is."""
    if len(place) > 2:
        return
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*place, str(key.value))
            yield inner, key.start_mark.line + 1
            yield from _walk(value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            inner = (*place, index)
            yield inner, value.start_mark.line + 1
            yield from _walk(value, inner)


def _line_of(place: Sequence[str | int], lines: Mapping[tuple[str | int, ...], int]) -> int | None:
    for length in range(len(place), 0, -1):
        for key in (tuple(place[:length]), (*place[: length - 1], str(place[length - 1]))):
            if key in lines:
                return lines[key]
    return None


def _nearest(place: Sequence[str | int]) -> str:
    options = options_of(str(place[0]))
    known = [*(options or Submission).model_fields]
    if options is None:
        known += (name for name, _ in known_sections())
    near = difflib.get_close_matches(str(place[-1]), known, n=1)
    return f"Did you mean {near[0]}?" if near else f"The fields are {', '.join(known)}"


def _said(kind: str, message: str) -> str:
    if kind == "missing":
        return "the field is required"
    if kind == "extra_forbidden":
        return "there is no such field"
    if kind == "string_pattern_mismatch":
        return "should be letters, digits, '.', '_' and '-', and begin with a letter or digit"
    return message.replace("Input should", "should").removeprefix("Value error, ")
