"""Every way a trace can be wrong, and the one line that says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shockwave.model.errors import TraceError
from shockwave.traces import native

GOOD: dict[str, Any] = {
    "id": "1",
    "arrival": 55.0,
    "model": "ResNet-18",
    "gpus": 1,
    "epochs": 92,
    "adaptation": "accordion",
    "batch_sizes": [32, 256],
    "epoch_seconds": {"32": 36.5, "256": 30.25},
    "schedule": [[32, 28], [256, 64]],
}
LONE_SURROGATE = "\ud800"

# (field, its bad value, what the message must say)
BAD_FIELDS: list[tuple[str, Any, str]] = [
    ("id", 7, 'must be a string (got 7). Quote it: "7"'),
    ("id", None, "must be a string, not null"),
    ("id", "", "must not be empty (got '')"),
    ("id", "two\nlines", "without control characters (got 'two\\nlines')"),
    ("id", LONE_SURROGATE, "without control characters"),
    ("arrival", "55", "must be a number of seconds (got '55')"),
    ("arrival", True, "must be a number of seconds (got True)"),
    ("arrival", -0.5, "must not be negative (got -0.5)"),
    ("arrival", float("nan"), "and finite (got nan)"),
    ("arrival", float("inf"), "and finite (got inf)"),
    ("arrival", 10**400, "and finite"),
    ("model", 50, "must be a string (got 50)"),
    ("gpus", 0, "must be a whole number of at least 1 (got 0)"),
    ("gpus", True, "must be a whole number of at least 1 (got True)"),
    ("gpus", 2.0, "must be a whole number of at least 1 (got 2.0)"),
    ("gpus", 10**30, "must be a whole number of at least 1"),
    ("epochs", 0, "must be a whole number of at least 1 (got 0)"),
    ("epochs", "92", "must be a whole number of at least 1 (got '92')"),
    ("epochs", None, "at least 1, not null"),
    ("adaptation", "acordion", "static, accordion, gns, pruning, custom (got 'acordion')"),
    ("adaptation", ["gns"], "must be one of static, accordion"),
    ("adaptation", "static", "a static job must stay in one configuration"),
    ("batch_sizes", 32, "must be a list of whole numbers of at least 1 (got 32)"),
    ("batch_sizes", [], "must name at least one configuration (got [])"),
    ("batch_sizes", [32, 256, 32], "must not name 32 twice (got [32, 256, 32])"),
    ("batch_sizes", [32, 0], "must be a list of whole numbers of at least 1 (got 0)"),
    ("batch_sizes", [32, 25.6], "must be a list of whole numbers of at least 1 (got 25.6)"),
    ("batch_sizes", [32, [256]], "must be a list of whole numbers of at least 1 (got [256])"),
    ("epoch_seconds", [36.5, 30.25], "must be an object from every batch size"),
    ("epoch_seconds", {"32": 36.5}, "must have an entry for \"256\" of batch_sizes (got ['32'])"),
    ("epoch_seconds", {"32": 36.5, "256": 0}, '"256" above 0 (got 0)'),
    ("epoch_seconds", {"32": -1.0, "256": 1}, '"32" above 0 (got -1.0)'),
    ("epoch_seconds", {"32": "36", "256": 1}, "seconds per epoch for \"32\" (got '36')"),
    ("epoch_seconds", {"32": float("inf"), "256": 1}, "and finite (got inf)"),
    ("epoch_seconds", {"32": 1e308, "256": 1}, "runtime must be finite"),
    (
        "epoch_seconds",
        {"32": 1, "256": 1, "512": 1},
        "entries for batch_sizes only, which are [32, 256] (got '512')",
    ),
    ("schedule", {"32": 92}, "must be a list of [configuration, epochs]"),
    ("schedule", [], "must have at least one [configuration, epochs] (got [])"),
    ("schedule", [[32, 28], [256]], "entry 2 must be [configuration, epochs]"),
    ("schedule", [[32, 28], [256, 0]], "entry 2 must be [configuration, epochs]"),
    ("schedule", [32, 92], "entry 1 must be [configuration, epochs]"),
    ("schedule", [[32, 28.0], [256, 64]], "entry 1 must be [configuration, epochs]"),
    (
        "schedule",
        [[32, 28], [64, 64]],
        "entry 2 must use a configuration of batch_sizes, which are [32, 256] (got [64, 64])",
    ),
    ("schedule", [[32, 28], [256, 63]], "must sum to the 92 of field 'epochs', not to 91"),
    ("tenant", 3, "must be a string (got 3)"),
    ("tenant", "", "must not be empty (got ''). Leave the field out instead"),
    ("weight", 0, "must be a number above 0 (got 0)"),
    ("weight", -2.5, "must be a number above 0 (got -2.5)"),
    ("weight", "1", "must be a number (got '1')"),
    ("weight", None, "must be a number, not null"),
    ("name", ["a"], "must be a string (got ['a'])"),
    ("colour", float("nan"), "must be plain JSON, without NaN or Infinity (got nan)"),
]


def message_of(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        native.read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}")
    return message


def message_for(folder: Path, content: bytes | str) -> str:
    path = folder / "bad.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return message_of(path).removeprefix(f"{path}")


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    BAD_FIELDS,
    ids=[f"{field}-{str(value)[:20]!a}" for field, value, _ in BAD_FIELDS],
)
def test_a_bad_field_is_named_with_its_line(
    tmp_path: Path, field: str, value: Any, expected: str
) -> None:
    lines = [GOOD, GOOD | {"id": "2", field: value}]
    message = message_for(tmp_path, "\n".join(json.dumps(line) for line in lines))
    blamed = "schedule" if value == "static" else field
    assert message.startswith(f", line 2, field '{blamed}': ")
    assert expected in message


@pytest.mark.parametrize("field", GOOD)
def test_a_missing_field_is_named_with_all_that_are_needed(tmp_path: Path, field: str) -> None:
    bad = {name: value for name, value in GOOD.items() if name != field}
    message = message_for(tmp_path, "\n\n" + json.dumps(bad))
    assert message == f", line 3, field '{field}': is missing. A job needs {', '.join(GOOD)}"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"id": "1",', ", line 1: not JSON: "),
        ("id,arrival\n1,5", ", line 1: not JSON: Expecting value at column 1 (got 'id,arrival')"),
        (json.dumps(GOOD) + "}", ", line 1: not JSON: Extra data at column"),
        ("[1, 2]", ", line 1: expected a JSON object that describes one job (got [1, 2])"),
        ("null", ", line 1: expected a JSON object that describes one job, not null"),
        ("[" * 100_000, ", line 1: not readable as JSON: maximum recursion depth"),
        ('{"id": ' + "9" * 5000 + "}", ", line 1: not readable as JSON: Exceeds the limit"),
        ('{"id": "1", "gpus": 1, "gpus": 2}', ", line 1, field 'gpus': must be given once only"),
        (b'\n{"id": "\xff"}', ", line 2: not UTF-8 text: byte 9 of the line cannot be decoded"),
        ("", ": no jobs in the trace. Expected one job a line"),
        (" \n\n", ": no jobs in the trace. Expected one job a line"),
    ],
    ids=[
        "cut-off",
        "csv",
        "trailing-brace",
        "list",
        "null",
        "deep",
        "huge-number",
        "field-twice",
        "not-utf-8",
        "empty",
        "blank",
    ],
)
def test_a_file_that_is_no_trace_is_refused(
    tmp_path: Path, content: bytes | str, expected: str
) -> None:
    assert message_for(tmp_path, content).startswith(expected)


def test_a_second_job_of_the_same_id_names_both_lines(tmp_path: Path) -> None:
    lines = [GOOD, GOOD | {"id": "2"}, GOOD]
    message = message_for(tmp_path, "\n".join(json.dumps(line) for line in lines))
    assert message == (", line 3, field 'id': must be unique, but line 1 has the same id (got '1')")


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    assert message_of(tmp_path / "none.jsonl").endswith("none.jsonl: no such file")
    assert message_of(tmp_path).endswith(": is a folder, expected a trace file")
