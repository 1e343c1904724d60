"""The schedule of faults: every bad line is one error that names it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shockwave.executors.faults import (
    JobCrash,
    JobFailure,
    JobNeverStarts,
    NodeFailure,
    NodeOccupation,
    NodeRecovery,
    read_faults,
)
from shockwave.model.cluster import Cluster, Node
from shockwave.model.errors import InputError

CLUSTER = Cluster.uniform(8, gpus_per_node=4)  # n0 and n1
GOOD = {"time": 5, "event": "job-crash", "job": "17"}


def read(path: Path, *lines: object) -> list[object]:
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines))
    return list(read_faults(path, CLUSTER, {"17", "18"}))


def test_a_schedule_comes_in_order_of_time(tmp_path: Path) -> None:
    faults = read(
        tmp_path / "faults.jsonl",
        {"time": 7200, "event": "node-up", "node": "n1", "gpus": 4},
        "",
        {"time": 3600, "event": "node-down", "node": "n1"},
        {"time": 9000.5, "event": "job-fail", "job": "18", "reason": "out of memory"},
        {"time": 9001, "event": "job-fail", "job": "17"},
        {"time": 9002, "event": "job-never-starts", "job": "17", "start_seconds": 30},
        {"time": 0, "event": "job-crash", "job": "17"},
        {"time": 9100, "event": "node-up", "node": "new", "gpus": 8},
        {"time": 9200, "event": "node-occupied", "node": "new", "gpus": 8},
        {"time": 9300, "event": "node-occupied", "node": "new", "gpus": 0},
    )
    assert faults == [
        JobCrash(0.0, "17"),
        NodeFailure(3600.0, "n1"),
        NodeRecovery(7200.0, Node("n1", 4)),
        JobFailure(9000.5, "18", "out of memory"),
        JobFailure(9001.0, "17", "injected failure"),
        JobNeverStarts(9002.0, "17", 30.0),
        NodeRecovery(9100.0, Node("new", 8)),
        NodeOccupation(9200.0, "new", 8),
        NodeOccupation(9300.0, "new", 0),
    ]


def test_an_empty_schedule_has_no_faults(tmp_path: Path) -> None:
    assert read(tmp_path / "faults.jsonl", "", "  ") == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "not JSON"),
        ("[1]", "dictionary"),
        ({"time": 1, "event": "meteor"}, r"'event'.*'node-down'"),
        ({"time": 1}, "'event'"),
        ({"time": 1, "event": "node-down"}, r"node: Field required"),
        ({"time": -1, "event": "node-down", "node": "n0"}, r"time: .*greater.*\(got -1\)"),
        ({"time": "1", "event": "node-down", "node": "n0"}, r"time: .*number.*\(got '1'\)"),
        ('{"time": NaN, "event": "node-down", "node": "n0"}', "time: .*finite"),
        ('{"time": 1e999, "event": "node-down", "node": "n0"}', "time: .*finite"),
        ({"time": 1, "event": "node-down", "node": "n0", "why": "?"}, r"why: Extra"),
        ({"time": 1, "event": "node-down", "node": "n7"}, r"not up then \(got 'n7'\).*n0, n1"),
        ({"time": 1, "event": "node-up", "node": "n0", "gpus": 4}, r"up already \(got 'n0'\)"),
        ({"time": 1, "event": "node-up", "node": "n9"}, "gpus: Field required"),
        ({"time": 1, "event": "node-up", "node": "n9", "gpus": 0}, r"gpus: .*\(got 0\)"),
        ({"time": 1, "event": "node-occupied", "node": "n9", "gpus": 1}, r"not up then .*'n9'"),
        ({"time": 1, "event": "node-occupied", "node": "n0", "gpus": 5}, r"has 4 GPUs \(got 5\)"),
        ({"time": 1, "event": "node-occupied", "node": "n0", "gpus": -1}, r"gpus: .*\(got -1\)"),
        ({"time": 1, "event": "job-crash", "job": "3"}, r"no such job \(got '3'\)"),
        ({"time": 1, "event": "job-fail", "job": "3"}, r"no such job \(got '3'\)"),
        ({"time": 1, "event": "job-crash", "job": 17}, r"job: .*string.*\(got 17\)"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: object, expected: str) -> None:
    with pytest.raises(InputError, match=rf"faults\.jsonl, line 3: .*{expected}"):
        read(tmp_path / "faults.jsonl", GOOD, "", line, GOOD)


def test_a_node_cannot_go_down_twice(tmp_path: Path) -> None:
    down = {"time": 1, "event": "node-down", "node": "n0"}
    with pytest.raises(InputError, match="line 2: this node is not up then"):
        read(tmp_path / "faults.jsonl", down, {**down, "time": 2})


def test_a_line_may_hold_any_text_that_json_can(tmp_path: Path) -> None:
    line = '{"time": 1, "event": "job-fail", "job": "17", "reason": "a\u2028b"}'
    assert read(tmp_path / "faults.jsonl", line) == [JobFailure(1.0, "17", "a\u2028b")]


def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path: Path) -> None:
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    for path in (tmp_path / "missing.jsonl", tmp_path, binary):
        with pytest.raises(InputError, match=rf"{path.name}.*cannot read the fault schedule"):
            read_faults(path, CLUSTER, set())
