"""The names in a job's folder, and what is read from them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import shockwave.protocol
from shockwave.protocol.lease import Lease
from shockwave.protocol.paths import CheckpointName, JobPaths
from shockwave.protocol.processes import children, descendants, environment_of, session_members

PROTOCOL = Path(shockwave.protocol.__file__).parent


def test_it_runs_on_a_node_that_has_nothing_but_python(tmp_path: Path) -> None:
    (tmp_path / "shockwave").mkdir()
    (tmp_path / "shockwave" / "protocol").symlink_to(PROTOCOL)
    modules = [f"shockwave.protocol.{file.stem}" for file in PROTOCOL.glob("[a-z]*.py")]
    assert len(modules) > 5
    program = f"import sys; sys.path.append({str(tmp_path)!r}); import {', '.join(modules)}"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)


def test_the_newest_checkpoint_is_that_of_the_latest_launch(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path)
    assert paths.saved_epochs() == 0
    paths.checkpoints.mkdir()
    for name in (
        "ckpt-g1-e9-30.ckpt",
        "ckpt-g2-e4-2.txt",
        "ckpt-g2-e5-10.txt",
        ".ckpt-g3-e6-1.tmp",
    ):
        (paths.checkpoints / name).touch()
    assert paths.saved_epochs() == 5
    assert [str(name) for name in paths.saved()][-1] == "ckpt-g1-e9-30.ckpt"
    assert CheckpointName.parse("ckpt-g1-e9-30.ckpt.tmp") is None


@pytest.mark.parametrize(
    ("lease", "ends"),
    [
        (Lease(2), False),
        (Lease(2, stop=True), True),
        (Lease(3), True),  # replaced
        (Lease(1, stop=True), False),  # an older launch was stopped, not this one
    ],
)
def test_whom_a_lease_ends(lease: Lease, ends: bool) -> None:
    assert lease.ends(2) is ends


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"generation": "2"}', '{"generation": true}'])
def test_a_lease_that_makes_no_sense_is_none(tmp_path: Path, text: str) -> None:
    paths = JobPaths(tmp_path)
    paths.lease_file.write_text(text)
    assert paths.lease() is None


def test_processes_are_found_by_parent_ancestor_and_session() -> None:
    sleeper = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    middle = subprocess.Popen(
        [sys.executable, "-c", sleeper],
        env={"MARK": "here"},
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not (below := descendants(middle.pid)):
            assert middle.poll() is None
        assert below == children(middle.pid)
        assert sorted(session_members(middle.pid)) == sorted([middle.pid, *below])
        assert environment_of(middle.pid)["MARK"] == "here"
    finally:
        middle.communicate()
    assert descendants(middle.pid) == session_members(middle.pid) == []
