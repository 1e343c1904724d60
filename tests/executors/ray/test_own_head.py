"""A Ray of its own, for a scheduler that was given no address."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.executors.local import harness as local
from tests.executors.ray import harness

from shockwave.executors.gangs.launch import GangSettings
from shockwave.executors.ray import own_head
from shockwave.executors.ray.executor import RayExecutor
from shockwave.model.cluster import Node
from shockwave.model.events import JobStopped
from shockwave.protocol.files import read_json
from shockwave.protocol.processes import is_same


@pytest.fixture
def _sessions_of_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a folder that goes away, with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        yield


@pytest.mark.usefixtures("_sessions_of_ray")
def test_its_jobs_outlive_the_scheduler_and_it_ends_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = -1  # a head that does not start is started again
    ports = iter([refused, own_head._free_port()])
    monkeypatch.setattr(own_head, "_free_port", ports.__next__)
    job = local.tiny(tmp_path, seconds=0.3, epochs=30)
    root, origin = tmp_path / "root", time.time()

    def executor() -> RayExecutor:
        settings = GangSettings(grace_seconds=5.0)
        return RayExecutor(root, {"a": job}.__getitem__, origin, gpus=2, settings=settings)

    first = executor()
    head = read_json(root / "ray-head.json") or {}
    assert (root / "ray-head.json").stat().st_mode & 0o077 == 0  # it holds the token
    assert first.nodes() == (Node("n0", 2),)
    watch = harness.watch(first)
    watch.launch([harness.order("a", epochs=30)])
    watch.until(lambda: watch.epochs(0) >= 1)
    first.shutdown(stop_jobs=False)
    second = executor()
    try:
        again = harness.watch(second)
        second.adopt([harness.order("a", epochs=30)])
        again.until(lambda: again.epochs(0) > watch.epochs(0))
        assert not again.of(JobStopped)
    finally:
        second.shutdown(stop_jobs=True)
    assert not is_same(head["pid"], head["start_ticks"])
    assert not (root / "ray-head.json").exists()
