"""Whatever a job is called, its files stay in its folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.executors.local import harness

from shockwave.model.cluster import Node
from shockwave.model.events import JobFinished, JobStopped
from shockwave.protocol.names import file_name

HOSTILE = [
    "..",
    ".",
    "",
    "../../escape",
    "/etc/passwd",
    "a/b",
    "-rf",
    "x" * 5000,
    "日本語 🚀",
    "\n",
]


@settings(deadline=None)
@given(st.text(st.characters(codec=None)))
def test_a_name_is_one_plain_component(identifier: str) -> None:
    name = file_name(identifier)
    assert 0 < len(name) <= 120
    assert name.isascii()
    assert not set(name) & set("/\\\0\n ")
    assert not name.startswith(".")
    assert os.path.normpath(f"/jobs/{name}") == f"/jobs/{name}"


@settings(deadline=None)
@given(st.sets(st.text(st.characters(codec=None)), min_size=2, max_size=30))
def test_different_jobs_have_different_names(identifiers: set[str]) -> None:
    assert len({file_name(identifier) for identifier in identifiers}) == len(identifiers)


def test_long_ids_that_differ_at_the_end_only_have_different_names() -> None:
    assert file_name("x" * 500 + "1") != file_name("x" * 500 + "2")


def test_jobs_with_hostile_names_run_in_their_own_folders(tmp_path: Path) -> None:
    root = tmp_path / "inner" / "root"
    command = harness.script(tmp_path, "print('hello')")
    commands = dict.fromkeys(HOSTILE, command)
    nodes = (Node("n0", len(HOSTILE)),)
    with harness.executor(root, commands, nodes=nodes) as executor:
        watch = harness.watch(executor)
        orders = [harness.order(name, handle=i, slots=(i,)) for i, name in enumerate(HOSTILE)]
        watch.launch(orders)
        watch.until_finished([order.job for order in orders])
        for name in HOSTILE:
            log = executor.log(name).resolve()
            assert log.read_text() == "hello\n"
            assert log.parents[1].parent == (root / "jobs").resolve()
    assert {event.job for event in watch.of(JobFinished)} == set(HOSTILE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inner"]
    assert [path.name for path in (tmp_path / "inner").iterdir()] == ["root"]


@pytest.mark.parametrize("name", ["nul\0", "half a pair \ud800"])
def test_a_job_that_cannot_be_told_its_name_crashes_alone(tmp_path: Path, name: str) -> None:
    commands = {name: harness.script(tmp_path, "pass")}
    with harness.executor(tmp_path / "root", commands) as executor:
        watch = harness.watch(executor)
        watch.launch([harness.order(name)])
        watch.until(lambda: bool(watch.of(JobStopped)))
        assert watch.of(JobStopped)[0].detail
