"""The client and its bridge, without an executor."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from tests.executors.local import harness as local
from tests.executors.ray import harness

from shockwave.executors.gangs.errors import BackendAway
from shockwave.executors.gangs.launch_name import LaunchName, prefix_of
from shockwave.executors.gangs.remote import SeenGang
from shockwave.executors.ray.client import RayClient
from shockwave.executors.ray.look import causes, look
from shockwave.model.cluster import Node
from shockwave.protocol.paths import JobPaths
from shockwave.testing.ray_cluster import RayCluster

SITE = "0a1b"
GANG, NEXT = LaunchName(SITE, "job", 1), LaunchName(SITE, "job", 2)
ONE, BOTH = SeenGang(parts=frozenset({0})), SeenGang(parts=frozenset({0, 1}))
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
def client(cluster: RayCluster, tmp_path: Path) -> Iterator[RayClient]:
    log = tmp_path / "bridge.log"
    made = RayClient(cluster.address, prefix_of(SITE), log, request_seconds=20.0)
    look(made)
    yield made
    with suppress(BackendAway):
        made.ask("end", names=[str(GANG), str(NEXT)])
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a job that is about to be launched for the first time."""
    (tmp_path / "job" / "logs").mkdir(parents=True)
    (tmp_path / "job" / "launch-1.json").write_text("{}")
    return tmp_path / "job"


def gang(
    client: RayClient, folder: Path, *nodes: str, argv: list[str] | None = None
) -> dict[str, object]:
    known = look(client).nodes
    argv = argv or [sys.executable, "-c", SLEEPER]
    paths = JobPaths(folder)
    parts = [
        {
            "node": node,
            "ray_id": known[node].incarnation,
            "gpus": 2,
            "argv": argv,
            "log": str(paths.supervisor_log(part)),
            "exit_file": str(paths.exit_file(1, part)),
        }
        for part, node in enumerate(nodes)
    ]
    return {
        "name": str(GANG),
        "folder": str(folder),
        "launch_file": str(paths.launch_file(1)),
        "generation": 1,
        "parts": parts,
    }


def runs(client: RayClient, gangs: Mapping[LaunchName, SeenGang]) -> Callable[[], bool]:
    """Whether exactly these gangs run."""
    return lambda: look(client).gangs == gangs


def said(folder: Path, part: int = 0) -> str:
    return (folder / "logs" / f"supervisor-{part}.log").read_text()


def test_nodes_have_their_names_gpus_and_types(client: RayClient) -> None:
    assert [(seen.node, seen.address) for seen in look(client).nodes.values()] == [
        (Node("n0", 4, "V100"), "127.0.0.2"),
        (Node("n1", 4, "V100"), "127.0.0.3"),
        (Node("n2", 4, "A100"), "127.0.0.4"),
    ]


def test_a_gang_runs_on_the_nodes_it_was_planned_for_and_is_asked_to_stop(
    client: RayClient, folder: Path, cluster: RayCluster
) -> None:
    client.ask("start", gangs=[gang(client, folder, "n2", "n0")])
    local.wait_until(runs(client, {GANG: BOTH}))
    assert len(harness.actors(cluster, "n2")) == len(harness.actors(cluster, "n0")) == 1
    assert not harness.actors(cluster, "n1")
    assert [node.occupied for node in look(client).nodes.values()] == [0, 0, 0]  # they are ours
    local.wait_until(lambda: "ready" in said(folder, 0) and "ready" in said(folder, 1))
    assert client.ask("terminate", names=[str(GANG)]) == {"ended": []}
    local.wait_until(runs(client, {}))
    assert said(folder, 0) == said(folder, 1) == "ready\nasked\n"


def test_a_gang_that_is_started_twice_runs_once(
    client: RayClient, folder: Path, cluster: RayCluster
) -> None:
    client.ask("start", gangs=[gang(client, folder, "n0")])
    client.ask("start", gangs=[gang(client, folder, "n0")])
    local.wait_until(runs(client, {GANG: ONE}))
    assert len(harness.actors(cluster, "n0")) == 1


def test_what_is_ended_does_not_get_to_speak(
    client: RayClient, folder: Path, cluster: RayCluster
) -> None:
    client.ask("start", gangs=[gang(client, folder, "n0")])
    local.wait_until(runs(client, {GANG: ONE}))
    local.wait_until(lambda: "ready" in said(folder))
    client.ask("end", names=[str(GANG)])
    local.wait_until(runs(client, {}))
    local.wait_until(lambda: not harness.job_processes(cluster, "n0"))
    assert said(folder) == "ready\n"


def test_the_next_gang_gets_the_gpus_of_one_that_ended_by_itself(
    client: RayClient, folder: Path
) -> None:
    first = gang(client, folder, "n0", "n0", argv=[sys.executable, "-c", "pass"])
    second = {**gang(client, folder, "n0", "n0"), "name": str(NEXT)}
    client.ask("start", gangs=[first, second])
    local.wait_until(runs(client, {NEXT: BOTH}))
    assert json.loads((folder / "exit-1-0.json").read_text())["error"]  # it said nothing itself


def test_why_a_part_could_not_be_started_is_told(client: RayClient, folder: Path) -> None:
    (folder / "logs").rmdir()
    client.ask("start", gangs=[gang(client, folder, "n0")])
    local.wait_until(runs(client, {}))
    cause = causes(client, [GANG])[GANG][0]
    assert (cause.started, cause.node_died) == (False, False)
    assert "No such file or directory" in cause.message
    assert str(folder / "logs") in cause.message


def test_a_gang_outlives_the_bridge_that_started_it(client: RayClient, folder: Path) -> None:
    client.ask("start", gangs=[gang(client, folder, "n0")])
    local.wait_until(runs(client, {GANG: ONE}))
    assert client.bridge_pid is not None
    os.kill(client.bridge_pid, signal.SIGKILL)
    with pytest.raises(BackendAway, match="the bridge has ended"):
        look(client)
    local.wait_until(lambda: _answers(client))
    assert look(client).gangs == {GANG: ONE}
    assert look(client).nodes["n0"].occupied == 0  # it knows them for ours


def test_a_cluster_that_is_not_there_is_away(tmp_path: Path) -> None:
    client = RayClient("127.0.0.1:1", prefix_of(SITE), tmp_path / "bridge.log", connect_seconds=3.0)
    try:
        with pytest.raises(BackendAway, match=r"not connected to Ray at 127\.0\.0\.1:1"):
            client.ask("look")
    finally:
        client.close()


def _answers(client: RayClient) -> bool:
    try:
        look(client)
    except BackendAway:
        return False
    return True
