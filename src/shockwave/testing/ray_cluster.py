"""A real Ray cluster on this machine alone, for tests, benchmarks and trying things out.

A head without GPUs and several nodes with GPUs that exist only in Ray's books, each on a loopback
address of its own. Everything is in one folder and in a network namespace that has nothing but
loopback: Ray's ports are open to whoever reaches them. :func:`isolated` makes the namespace, and
whatever runs in it ends with it. ::

    subprocess.run(isolated([sys.executable, "program.py"]))  # and in the program:

    with RayCluster(Path("/tmp/ray"), nodes=2, gpus=4) as cluster:
        ray.init(cluster.address)
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from shockwave.model.errors import ExecutorError
from shockwave.protocol.processes import environment_of, processes, signal_process

_PATIENCE_SECONDS = 120.0
_GLANCE_SECONDS = 0.05
_ATTEMPTS = 3
_LONGEST_FOLDER = 30  # bytes; sockets below it have about 75 more and may have 107
_PORT = 6379
_REDIS_PORT = 6380
_HEAD = "head"
_REDIS = "redis"
_OBJECT_STORE_BYTES = 80_000_000
# In the environment of the daemons, and so of what they start.
_CLUSTER_MARK = "SHOCKWAVE_TESTING_RAY"
_NODE_MARK = "SHOCKWAVE_TESTING_RAY_NODE"
# A node that was killed refuses connections and is dead after 2 s; one that is merely slow on a
# busy machine has 20.
_SYSTEM_CONFIG = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 4,
    "gcs_rpc_server_reconnect_timeout_s": 300,
    "worker_niceness": 0,  # the machine is shared with the tests themselves
}


def why_ray_cannot_run() -> str | None:
    """One line for a test that is skipped; None where :func:`isolated` leads to a cluster."""
    if find_spec("ray") is None:
        return "Ray is not installed"
    missing = [name for name in ("redis-server", "unshare", "ip") if shutil.which(name) is None]
    if missing:
        return f"a Ray cluster of its own needs {', '.join(missing)}"
    if os.geteuid() != 0:
        return "a network namespace for Ray needs root"
    done = subprocess.run(isolated(["true"]), capture_output=True, text=True)
    if done.returncode:
        return f"no network namespace can be made for Ray: {done.stderr.strip()}"
    return None


def isolated(argv: Sequence[str]) -> list[str]:
    """The command in namespaces of its own: only loopback, and all processes end with it."""
    namespaces = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
    return [*namespaces, "sh", "-c", 'ip link set lo up && "$@"', "sh", *argv]


def is_isolated() -> bool:
    """Whether this process has no network but loopback."""
    return [name for _, name in socket.if_nameindex()] == ["lo"]


class RayCluster:
    """A head, and ``nodes`` nodes ``n0``, ``n1``, ... with ``gpus`` GPUs each.

    ``gpu_types`` has one type for every node in turn. ``folder`` has a short path, is created and
    kept; a cluster that is started there again begins afresh. With ``redis`` the head remembers
    everything when it is restarted, without it nothing. What fails raises
    :class:`ExecutorError` with the last lines of the daemon's log.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 3,
        gpus: int = 4,
        gpu_types: Sequence[str] = ("V100",),
        redis: bool = True,
        system_config: Mapping[str, object] | None = None,
    ) -> None:
        self.folder = folder.resolve()
        self.node_names = tuple(f"n{number}" for number in range(nodes))
        self.gpus = gpus
        self._gpu_types = gpu_types
        self._redis = redis
        self._system_config = {**_SYSTEM_CONFIG, **(system_config or {})}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._sessions: dict[int, str] = {}  # of all daemons that were ever started

    @property
    def address(self) -> str:
        """Of the head, for ``ray.init`` and ``--ray-address``."""
        return f"127.0.0.1:{_PORT}"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # All of it.

    def start(self) -> None:
        """Returns when every node is up."""
        if not is_isolated():
            raise ExecutorError("Ray must not be reached from outside: run this by isolated()")
        if len(os.fsencode(self.folder)) > _LONGEST_FOLDER:
            raise ExecutorError(f"{self.folder}: too long a path for the sockets in it")
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "log").mkdir(parents=True)
        if self._redis:
            self._start_redis()
        self.start_controller()
        self._start_nodes(self.node_names)

    def stop(self) -> None:
        """Ends the daemons of this cluster and what they started. May be repeated."""
        self._end(lambda node: True)

    # Parts of it.

    def start_controller(self) -> None:
        """The head. Returns when it answers; with Redis it knows what it knew before."""
        self._start_until_up((_HEAD,), self._start_head)

    def kill_controller(self) -> None:
        """Ray's control process is gone at once, and the head goes down with it."""
        for pid in self._pids(lambda node: node == _HEAD):
            if _program(pid) == "gcs_server":
                signal_process(pid, signal.SIGKILL)
        self._end(lambda node: node == _HEAD)

    def start_node(self, name: str) -> None:
        """Returns when the node is up."""
        self._start_nodes((name,))

    def kill_node(self, name: str, *, with_jobs: bool = True) -> None:
        """The node is gone at once. Without its jobs only Ray is: they learn of it and end."""
        if with_jobs:
            self._end(lambda node: node == name)
            return
        for pid in self._pids(lambda node: node == name):
            if _program(pid) == "raylet":
                signal_process(pid, signal.SIGKILL)
        daemon = self._daemons.pop(name)
        daemon.kill()
        daemon.wait()

    def drain_node(self, ray_id: str) -> None:
        """Ray starts nothing on that node any more, and it may end by itself when it is empty."""
        words = ["drain-node", f"--address={self.address}", f"--node-id={ray_id}"]
        words += ["--reason=DRAIN_NODE_REASON_PREEMPTION", "--reason-message=new fans"]
        command = [sys.executable, "-m", "ray.scripts.scripts", *words]
        command += ["--deadline-remaining-seconds=3600"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ExecutorError(f"{ray_id} is not drained: {done.stderr[-500:]}")

    def heal(self) -> None:
        """Starts again whatever was killed, or ended by itself."""
        if not self._is_whole(_HEAD):
            self._end(lambda node: node == _HEAD)
            self.start_controller()
        down = [name for name in self.node_names if not self._is_whole(name)]
        self._end(down.__contains__)  # what is left of their jobs
        self._start_nodes(down)

    def processes(self, name: str) -> list[int]:
        """Every process of a node, those of jobs included."""
        return list(self._pids(lambda node: node == name))

    def wait_for(self, happened: Callable[[], bool], what: str) -> None:
        """Raises :class:`ExecutorError` if ``happened`` stays false for two minutes."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not happened():
            if time.monotonic() > deadline:
                raise ExecutorError(f"{what} did not happen; {self._tails()}")
            time.sleep(_GLANCE_SECONDS)

    # The daemons.

    def _start_redis(self) -> None:
        options = ["--port", str(_REDIS_PORT), "--bind", "127.0.0.1", "--save", ""]
        self._start(_REDIS, ["redis-server", *options, "--dir", str(self.folder)], {})

        def answers() -> bool:
            self._check(_REDIS)
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", _REDIS_PORT)).close()
                return True
            return False

        self.wait_for(answers, "the start of Redis")

    def _start_nodes(self, names: Sequence[str]) -> None:
        self._start_until_up(names, self._start_node)
        self._note_who_is_here()

    def _start_until_up(self, names: Sequence[str], start: Callable[[str], None]) -> None:
        """On a busy machine Ray may not start within the time that it gives itself: again."""
        for attempt in range(1, _ATTEMPTS + 1):
            for name in names:
                start(name)
            late = []
            for name in names:
                try:
                    self._wait_for_ray(name)
                except ExecutorError:
                    if attempt == _ATTEMPTS:
                        raise
                    late.append(name)
            self._end(late.__contains__)
            names = late

    def _note_who_is_here(self) -> None:
        """Clients attach to the head: in older releases to whoever was the last to write this."""
        for note in (self.folder / _HEAD).glob("session_*/node_ip_address.json"):
            note.write_text(json.dumps({"node_ip_address": "127.0.0.1"}))

    def _start_head(self, name: str) -> None:
        variables = {"RAY_REDIS_ADDRESS": f"127.0.0.1:{_REDIS_PORT}"} if self._redis else {}
        # Ray takes the nodes for the old head, because they run on the same machine.
        (self.folder / name / "ray_current_cluster").unlink(missing_ok=True)
        options = ["--head", f"--port={_PORT}", "--num-gpus=0", "--no-monitor"]
        options += [f"--system-config={json.dumps(self._system_config)}"]
        options += ["--include-dashboard=false"]
        self._start_ray(name, "127.0.0.1", options, variables)

    def _start_node(self, name: str) -> None:
        number = self.node_names.index(name)
        gpu_type = self._gpu_types[number % len(self._gpu_types)]
        options = [f"--address={self.address}", f"--node-name={name}", f"--num-gpus={self.gpus}"]
        # What Ray finds out by itself where the GPUs are real.
        options += [f"--labels=ray.io/accelerator-type={gpu_type}"]
        options += [f"--resources={json.dumps({f'accelerator_type:{gpu_type}': 1})}"]
        self._start_ray(name, f"127.0.0.{number + 2}", options, {})

    def _start_ray(
        self, name: str, address: str, options: Sequence[str], variables: Mapping[str, str]
    ) -> None:
        argv = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *options]
        argv += [f"--node-ip-address={address}", "--num-cpus=1", "--include-log-monitor=false"]
        argv += [f"--object-store-memory={_OBJECT_STORE_BYTES}", f"--temp-dir={self.folder}/{name}"]
        self._start(name, argv, {"RAY_USAGE_STATS_ENABLED": "0", **variables})

    def _start(self, name: str, argv: Sequence[str], variables: Mapping[str, str]) -> None:
        if self._runs(name):
            raise ExecutorError(f"{name} runs already")
        marks = {_CLUSTER_MARK: str(self.folder), _NODE_MARK: name}
        with self._log(name).open("wb") as output:
            self._daemons[name] = subprocess.Popen(
                argv,
                cwd=self.folder,
                env={**os.environ, **variables, **marks},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # an interrupt at the terminal is ours, not theirs
            )
        self._sessions[self._daemons[name].pid] = name

    def _wait_for_ray(self, name: str) -> None:
        def up() -> bool:
            self._check(name)
            return "Ray runtime started" in self._log(name).read_text(errors="replace")

        self.wait_for(up, f"the start of {name}")

    def _runs(self, name: str) -> bool:
        return name in self._daemons and self._daemons[name].poll() is None

    def _is_whole(self, name: str) -> bool:
        """``ray start`` outlives a raylet that ends in order."""
        pids = self._pids(lambda node: node == name)
        return self._runs(name) and any(_program(pid) == "raylet" for pid in pids)

    def _check(self, name: str) -> None:
        if not self._runs(name):
            raise ExecutorError(f"{name} has ended; {self._tails(name)}")

    def _end(self, is_meant: Callable[[str], bool]) -> None:
        """Like a machine that loses power: nothing of it can react to the end of the rest."""
        while found := list(self._pids(is_meant)):
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in found:
                    signal_process(pid, number)
            time.sleep(_GLANCE_SECONDS)
        for name in [name for name in self._daemons if is_meant(name)]:
            self._daemons.pop(name).wait()

    def _pids(self, is_meant: Callable[[str], bool]) -> Iterator[int]:
        """Living processes of this cluster, those of jobs included, by the node they are on."""
        for pid in processes():
            with suppress(ProcessLookupError):  # it has ended in the meantime
                node = None if pid == os.getpid() else self._node_of(pid)
                if node is not None and is_meant(node):
                    yield pid

    def _node_of(self, pid: int) -> str | None:
        session = os.getsid(pid)
        if session in self._sessions:  # Ray's processes overwrite their environment
            return self._sessions[session]
        variables = environment_of(pid)
        ours = variables.get(_CLUSTER_MARK) == str(self.folder)
        return variables.get(_NODE_MARK) if ours else None

    def _log(self, name: str) -> Path:
        return self.folder / "log" / f"{name}.out"

    def _tails(self, *names: str) -> str:
        """The last lines of what the daemons have written."""
        texts = []
        for name in names or tuple(self._daemons):
            with suppress(OSError):
                lines = self._log(name).read_text(errors="replace").splitlines()[-8:]
                texts += [f"{name}: {line}" for line in lines]
        return "\n".join(["the logs end with", *texts]) if texts else "there are no logs"


def _program(pid: int) -> str | None:
    """The name of the program file that a process runs."""
    with suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    return None
