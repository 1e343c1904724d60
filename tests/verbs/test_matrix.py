"""A matrix of values makes jobs, and says what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shockwave.model.errors import InputError
from shockwave.server.jobfile import read_documents
from shockwave.server.matrix import combinations, expand


def test_a_grid_has_all_combinations_in_order() -> None:
    found = combinations({"a": [1, 2], "b": ["x", "y", "z"]}, "f")
    assert found == [{"a": a, "b": b} for a in (1, 2) for b in "xyz"]
    assert combinations({"grid": {"a": [1, 2], "b": ["x", "y", "z"]}}, "f") == found


def test_a_list_is_taken_as_it_is() -> None:
    rows = [{"lr": 0.1, "seed": 1}, {"lr": 0.2, "seed": 7}]
    assert combinations({"list": rows}, "f") == rows


def test_random_values_follow_from_the_seed_and_stay_in_their_range() -> None:
    matrix: dict[str, Any] = {
        "random": {"lr": {"log": [0.001, 1]}, "n": {"int": [2, 4]}, "u": {"uniform": [5, 6]},
                   "opt": ["sgd", "adam"]},
        "count": 200,
        "seed": 3,
    }  # fmt: skip
    found = combinations(matrix, "f")
    assert found == combinations(matrix, "f")
    assert found != combinations(matrix | {"seed": 4}, "f")
    assert all(0.001 <= row["lr"] <= 1 and 5 <= row["u"] <= 6 for row in found)
    assert {row["n"] for row in found} == {2, 3, 4}
    assert {row["opt"] for row in found} == {"sgd", "adam"}
    below = sum(row["lr"] < 0.0316 for row in found)  # half of them on a logarithmic scale
    assert 70 <= below <= 130


def test_values_are_put_into_every_field_and_nothing_else_is_touched() -> None:
    fields = {
        "name": "run-{lr}",
        "command": ["python", "t.py", "--lr={lr}", '{"json": 1}', "{other}"],
        "env": {"LR": "{lr}"},
        "gpus": "{gpus}",
    }
    first, second = expand(fields, {"list": [{"lr": 0.1, "gpus": 1}, {"lr": 1, "gpus": 2}]}, "f")
    assert first["command"] == ["python", "t.py", "--lr=0.1", '{"json": 1}', "{other}"]
    assert (first["name"], first["env"], first["gpus"]) == ("run-0.1", {"LR": "0.1"}, "1")
    assert (second["name"], second["gpus"]) == ("run-1", "2")


def test_jobs_of_one_name_are_numbered() -> None:
    jobs = expand({"name": "x", "command": ["{i}"]}, {"i": list(range(12))}, "f")
    assert [job["name"] for job in jobs[:2]] == ["x-01", "x-02"]


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ([], "expected names"),
        ({"lr": 0.1}, "matrix.lr.*expected a list"),
        ({"lr": []}, "matrix.lr.*expected a list"),
        ({"grid": {"a": [1]}, "list": []}, "one of grid, list and random"),
        ({"grid": {"a": [1]}, "count": 3}, "matrix.count.*does not belong"),
        ({"list": [{"a": 1}, {"b": 2}]}, r"matrix\.list\.2.*names of the first"),
        ({"random": {"a": {"log": [0, 1]}}, "count": 1}, "matrix.a.*expected a list, or"),
        ({"random": {"a": [1]}}, "matrix.count.*how many"),
        ({"random": {"a": [1]}, "count": 20_000}, "1 to 10,000 jobs"),
        ({"a": list(range(200)), "b": list(range(200))}, "1 to 10,000 jobs"),
        ({"a-b": [1]}, "letters, digits and _"),
        ({"unused": [1]}, "no field uses unused"),
    ],
)
def test_a_bad_matrix_says_where(matrix: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        expand({"command": ["x", "{a}", "{b}", "{lr}"]}, matrix, "job.yaml")


def test_a_file_may_have_several_documents(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(
        "name: one\ncommand: [true]\nepochs: 1\n---\n"
        "name: two\ncommand: [echo, '{i}']\nepochs: 1\nmatrix: {i: [1, 2]}\nparallel: 1\n"
    )
    one, two = read_documents(path)
    assert (one.fields["name"], one.matrix) == ("one", None)
    assert (two.matrix, two.parallel) == ({"i": [1, 2]}, 1)
    assert two.fields["workdir"] == f"{tmp_path}"
    path.write_text("name: one\nepochs: 1\n---\n- no job\n")
    with pytest.raises(InputError, match="expected fields"):
        read_documents(path)
    path.write_text("command: [x]\nepochs: 1\nparallel: many\n")
    with pytest.raises(InputError, match="line 3, field parallel"):
        read_documents(path)
