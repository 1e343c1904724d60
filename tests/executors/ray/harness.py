"""Executors on a real Ray cluster, and others who use it too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.executors.local import harness

from shockwave.engine.executor import Launch
from shockwave.executors.gangs.folder import JobFolder
from shockwave.executors.gangs.launch import GangSettings
from shockwave.executors.ray.executor import RayExecutor
from shockwave.model.command import Command
from shockwave.model.events import Placement
from shockwave.testing.executors import Watch
from shockwave.testing.ray_cluster import RayCluster, is_isolated

PATIENCE_SECONDS = 120.0
STEP_SECONDS = 0.2
ON_N0: Placement = (("n0", (0,)),)

_SOMEBODY_ELSE = """
import sys, ray
address, node, gpus = sys.argv[1:]
ray.init(address, log_to_driver=False, configure_logging=False)
ids = {node["NodeName"]: node["NodeID"] for node in ray.nodes() if node["Alive"]}
@ray.remote(num_gpus=float(gpus), num_cpus=0, label_selector={"ray.io/node-id": ids[node]})
class Foreign:
    def ready(self): pass
foreign = Foreign.remote()
ray.get(foreign.ready.remote())
print("ready", flush=True)
sys.stdin.read()
"""


def is_inside() -> bool:
    """Whether this is the namespace that was made for these tests."""
    return "SHOCKWAVE_TEST_RAY" in os.environ and is_isolated()


@contextmanager
def executor(
    cluster: RayCluster,
    root: Path,
    commands: dict[str, Command],
    *,
    grace_seconds: float = 20.0,
    start_seconds: float = 60.0,
    request_seconds: float = 15.0,
    origin: float | None = None,
) -> Iterator[RayExecutor]:
    """An executor that takes its jobs along when the test ends."""
    made = RayExecutor(
        root,
        commands.__getitem__,
        time.time() if origin is None else origin,
        address=cluster.address,
        start_seconds=start_seconds,
        request_seconds=request_seconds,
        settings=GangSettings(grace_seconds),
    )
    try:
        assert made.nodes() is not None
        yield made
    finally:
        made.shutdown(stop_jobs=True)


def order(
    name: str,
    placement: Placement = ON_N0,
    *,
    handle: int = 0,
    attempt: int = 1,
    epochs: int = 4,
) -> Launch:
    gpus = sum(len(slots) for _, slots in placement)
    return Launch(handle, harness.spec(name, gpus, epochs), placement, attempt)


def watch(made: RayExecutor) -> Watch:
    return Watch(made, STEP_SECONDS, int(PATIENCE_SECONDS / STEP_SECONDS))


@contextmanager
def somebody_else(cluster: RayCluster, node: str, gpus: float) -> Iterator[None]:
    """Another user of the cluster holds GPUs of a node."""
    argv = [sys.executable, "-c", _SOMEBODY_ELSE, cluster.address, node, str(gpus)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdin is not None
        assert user.stdout is not None
        try:
            assert user.stdout.readline() == b"ready\n"
            yield
        finally:
            user.stdin.close()


def actors(cluster: RayCluster, node: str) -> list[int]:
    """The processes of our actors on a node."""
    return [pid for pid in cluster.processes(node) if _title(pid).startswith("ray::PartActor")]


def job_processes(cluster: RayCluster, node: str) -> list[int]:
    """Supervisors, ranks, and what ties them to actors, on a node."""
    ray = _session(cluster, node)
    found = []
    for pid in cluster.processes(node):
        with suppress(ProcessLookupError):
            if os.getsid(pid) != ray:
                found.append(pid)
    return found


def supervisor_and_ranks(made: RayExecutor, job: str, generation: int = 1) -> list[int]:
    """The processes of a job's first part, the supervisor first; empty before they run."""
    who = JobFolder(made.folder(job)).processes(generation)
    return [] if who is None or not who.ranks else [who.pid, *who.ranks]


def kill(pids: list[int], number: signal.Signals = signal.SIGKILL) -> None:
    assert pids
    for pid in pids:
        os.kill(pid, number)


def _title(pid: int) -> str:
    with suppress(OSError):  # it may have ended
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""


def _session(cluster: RayCluster, node: str) -> int:
    """That of Ray itself; what jobs run has sessions of its own."""
    (raylet,) = (pid for pid in cluster.processes(node) if "/raylet/raylet" in _title(pid))
    return os.getsid(raylet)
