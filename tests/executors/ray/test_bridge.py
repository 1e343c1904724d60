"""The client and its bridge, without an executor."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.executors.local import harness as local
from tests.executors.ray import harness

from shockwave.executors.gangs.errors import BackendAway
from shockwave.executors.ray.client import RayClient
from shockwave.executors.ray.cluster import RayCluster as View
from shockwave.protocol.paths import JobPaths
from shockwave.testing.ray_cluster import RayCluster

PREFIX = "shockwave/test/"
GANG, NEXT = f"{PREFIX}job/1", f"{PREFIX}job/2"
SLEEPER = """
import signal, sys, time
def leave(*_):
    print("asked", flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def view(cluster: RayCluster, tmp_path: Path) -> Iterator[View]:
    client = RayClient(cluster.address, PREFIX, tmp_path / "bridge.log", request_seconds=20.0)
    made = View(client)
    assert made.look(), made.trouble
    yield made
    with suppress(BackendAway):
        made.end([GANG, NEXT])
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a job that is about to be launched for the first time."""
    (tmp_path / "job" / "logs").mkdir(parents=True)
    (tmp_path / "job" / "launch-1.json").write_text("{}")
    return tmp_path / "job"


def gang(view: View, folder: Path, *nodes: str, argv: list[str] | None = None) -> dict[str, object]:
    argv = argv or [sys.executable, "-c", SLEEPER]
    paths = JobPaths(folder)
    parts = [
        {
            "node": node,
            "ray_id": view.sight.nodes[node].ray_id,
            "gpus": 2,
            "argv": argv,
            "log": str(paths.supervisor_log(part)),
            "exit_file": str(paths.exit_file(1, part)),
        }
        for part, node in enumerate(nodes)
    ]
    return {
        "name": GANG,
        "folder": str(folder),
        "launch_file": str(paths.launch_file(1)),
        "generation": 1,
        "parts": parts,
    }


def look_until(view: View, happened: Callable[[], bool]) -> None:
    local.wait_until(lambda: view.look() and happened())


def said(folder: Path, part: int = 0) -> str:
    return (folder / "logs" / f"supervisor-{part}.log").read_text()


def test_nodes_have_their_names_gpus_and_types(view: View) -> None:
    nodes = [
        (node.name, node.address, node.gpus, node.gpu_type) for node in view.sight.nodes.values()
    ]
    assert nodes == [
        ("n0", "127.0.0.2", 4, "v100"),
        ("n1", "127.0.0.3", 4, "v100"),
        ("n2", "127.0.0.4", 4, "a100"),
    ]


def test_a_gang_runs_on_the_nodes_it_was_planned_for_and_is_asked_to_stop(
    view: View, folder: Path, cluster: RayCluster
) -> None:
    view.start([gang(view, folder, "n2", "n0")])
    look_until(view, lambda: view.sight.gangs.get(GANG) == {0: True, 1: True})
    assert len(harness.actors(cluster, "n2")) == len(harness.actors(cluster, "n0")) == 1
    assert not harness.actors(cluster, "n1")
    assert [node.foreign for node in view.sight.nodes.values()] == [0, 0, 0]  # they are ours
    local.wait_until(lambda: "ready" in said(folder, 0) and "ready" in said(folder, 1))
    assert view.terminate([GANG]) == set()
    look_until(view, lambda: not view.sight.gangs)
    assert said(folder, 0) == said(folder, 1) == "ready\nasked\n"


def test_a_gang_that_is_started_twice_runs_once(
    view: View, folder: Path, cluster: RayCluster
) -> None:
    view.start([gang(view, folder, "n0")])
    view.start([gang(view, folder, "n0")])
    look_until(view, lambda: view.sight.gangs.get(GANG) == {0: True})
    assert len(harness.actors(cluster, "n0")) == 1


def test_what_is_ended_does_not_get_to_speak(view: View, folder: Path, cluster: RayCluster) -> None:
    view.start([gang(view, folder, "n0")])
    look_until(view, lambda: view.sight.gangs.get(GANG) == {0: True})
    local.wait_until(lambda: "ready" in said(folder))
    view.end([GANG])
    look_until(view, lambda: not view.sight.gangs)
    local.wait_until(lambda: not harness.job_processes(cluster, "n0"))
    assert said(folder) == "ready\n"


def test_the_next_gang_gets_the_gpus_of_one_that_ended_by_itself(view: View, folder: Path) -> None:
    first = gang(view, folder, "n0", "n0", argv=[sys.executable, "-c", "pass"])
    second = {**gang(view, folder, "n0", "n0"), "name": NEXT}
    view.start([first, second])
    look_until(view, lambda: view.sight.gangs == {NEXT: {0: True, 1: True}})
    assert json.loads((folder / "exit-1-0.json").read_text())["error"]  # it said nothing itself


def test_why_a_part_could_not_be_started_is_told(view: View, folder: Path) -> None:
    (folder / "logs").rmdir()
    view.start([gang(view, folder, "n0")])
    look_until(view, lambda: not view.sight.gangs)
    cause = view.causes([GANG])[GANG][0]
    assert (cause.started, cause.node_died) == (False, False)
    assert "No such file or directory" in cause.message
    assert str(folder / "logs") in cause.message


def test_a_gang_outlives_the_bridge_that_started_it(view: View, folder: Path) -> None:
    view.start([gang(view, folder, "n0")])
    look_until(view, lambda: view.sight.gangs.get(GANG) == {0: True})
    assert view.bridge_pid is not None
    os.kill(view.bridge_pid, signal.SIGKILL)
    local.wait_until(lambda: not view.look())
    assert view.trouble is not None
    assert "the bridge has ended" in view.trouble
    local.wait_until(view.look)
    assert view.sight.gangs == {GANG: {0: True}}
    assert view.sight.nodes["n0"].foreign == 0  # it knows them for ours


def test_a_cluster_that_is_not_there_is_away(tmp_path: Path) -> None:
    client = RayClient("127.0.0.1:1", PREFIX, tmp_path / "bridge.log", connect_seconds=3.0)
    try:
        with pytest.raises(BackendAway, match=r"not connected to Ray at 127\.0\.0\.1:1"):
            client.ask("look")
    finally:
        client.close()
