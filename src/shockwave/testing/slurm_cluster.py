"""A real Slurm on this machine alone, for tests, benchmarks and trying things out.

Several ``slurmd`` play the nodes, their GPUs are device files that nobody opens, and everything
stays on loopback and inside one folder: key, sockets, configuration, state, logs. Two clusters
live side by side. It needs root, because Slurm does. ::

    with SlurmCluster(Path("/tmp/slurm"), nodes=2, gpus=4) as cluster:
        subprocess.run(["sinfo"], env={**os.environ, **cluster.environment})
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from shockwave.model.errors import ExecutorError

_PROGRAMS = (
    "munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo",
    "setpriv",
)  # fmt: skip
_DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")  # with the thread that started the cluster
_ENTER = ("sh", "-c", 'echo $$ > "$0"; exec "$@"')  # a control group, and a program in it
_PATIENCE_SECONDS = 60.0
_GLANCE_SECONDS = 0.05
_CLIENT_SECONDS = 20.0
_STOP_SECONDS = 5.0  # until a daemon that does not end is killed
_LONGEST_SOCKET = 107  # bytes in the path of a unix socket
_PORTS = range(20_000, 32_000, 400)  # below those that the system hands out by itself
# In the environment of the daemons, and so of what they start.
_CLUSTER_MARK = "SHOCKWAVE_TESTING_SLURM"
_NODE_MARK = "SHOCKWAVE_TESTING_SLURM_NODE"


def why_slurm_cannot_run() -> str | None:
    """One line for a test that is skipped; None where a cluster can be started."""
    if os.name != "posix" or os.geteuid() != 0:
        return "Slurm's daemons need root"
    path = _search_path(os.environ)
    missing = [program for program in _PROGRAMS if shutil.which(program, path=path) is None]
    if missing:
        return f"Slurm is not installed: no {', '.join(missing)}"
    return None


class SlurmCluster:
    """``nodes`` nodes ``n0``, ``n1``, ... with ``gpus`` GPUs of ``gpu_type`` each.

    ``folder`` is created and kept; a cluster that is started there again begins afresh. A node
    that does not answer for ``node_timeout_seconds`` is down. Where ``nodes_yield``, nodes and
    jobs get the processor time that nothing else wants: they stand for other machines, which
    would not slow this one down. ``settings`` go into ``slurm.conf``, in place of the settings
    of the same name here. What fails raises :class:`ExecutorError` with the last lines of the
    daemon's log.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 4,
        gpus: int = 4,
        gpu_type: str = "v100",
        cpus: int = 64,
        node_timeout_seconds: int = 30,
        nodes_yield: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder.resolve()
        self.node_names = tuple(f"n{number}" for number in range(nodes))
        self.gpus = gpus
        self.gpu_type = gpu_type
        self._cpus = cpus
        self._node_timeout = node_timeout_seconds
        self._nodes_yield = nodes_yield
        self._yielding: Path | None = None  # the control group of the nodes
        self._settings = dict(settings or {})
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._ports: int | None = None  # the lock on our range of ports

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs in its environment to speak to this cluster."""
        return {"SLURM_CONF": self._conf, "PATH": _search_path(os.environ)}

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
        """Returns when every node is idle."""
        problem = why_slurm_cannot_run()
        if problem is not None:
            raise ExecutorError(problem)
        self._end_leftovers()  # of somebody before us in this folder
        self._make_folder()
        self._start("munged", ["munged", "--foreground", *self._munge_options()])
        self._wait("munged", self._socket.exists)
        self.start_controller(afresh=True)
        if self._nodes_yield:
            self._yielding = _yielding_group(f"shockwave-slurm-{os.getpid()}-{id(self)}")
        for name in self.node_names:
            self._start_slurmd(name)
        self._wait_for_nodes(self.node_names)

    def stop(self) -> None:
        """Ends the jobs and the daemons of this cluster, and nothing else. May be repeated."""
        for name in reversed(self._daemons):
            self._daemons[name].send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        for daemon in self._daemons.values():
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(max(deadline - time.monotonic(), 0.01))
            daemon.kill()
            daemon.wait()
        self._daemons.clear()
        self._end_leftovers()
        if self._yielding is not None:
            self._yielding.rmdir()
            self._yielding = None
        if self._ports is not None:
            os.close(self._ports)
            self._ports = None

    # Parts of it.

    def start_controller(self, *, afresh: bool = False) -> None:
        """Returns when it answers. It knows what it knew before, unless it begins ``afresh``."""
        self._start("slurmctld", ["slurmctld", "-D", *(["-c"] if afresh else [])])
        self._wait("slurmctld", self._controller_answers)

    def kill_controller(self) -> None:
        self._kill_daemon("slurmctld")

    @contextmanager
    def hanging_controller(self) -> Iterator[None]:
        """It is there, but does not answer."""
        self._daemons["slurmctld"].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._daemons["slurmctld"].send_signal(signal.SIGCONT)

    def start_node(self, name: str) -> None:
        """Returns when the node can be used again."""
        self._start_slurmd(name)
        self._wait_for_nodes((name,))

    def kill_node(self, name: str, *, with_jobs: bool = True, noticed: bool = True) -> None:
        """The node is gone at once. Without its jobs it only looks so: they run on.

        Slurm is told, as by an operator, unless it is to notice by itself.
        """
        self._kill_daemon(name)
        if with_jobs:
            self._end_leftovers(name)
        if noticed:
            self.run("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=killed")

    def wait_until_saved(self) -> None:
        """Until the controller has written down what it knows now: that survives its death."""
        news = self.run("sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap=true")
        self.run("scancel", news.strip())  # it writes only if something has changed
        now = time.time()
        state = self.folder / "state" / "job_state"
        self.wait_for(lambda: state.exists() and state.stat().st_mtime > now, "a saved state")

    def heal(self) -> None:
        """Ends all jobs, and brings back whatever was killed, stopped or drained."""
        if "slurmctld" not in self._daemons:
            self.start_controller()
        self.run("scancel", f"--user={os.getuid()}", "--full", "--signal=KILL")
        self.run("scancel", f"--user={os.getuid()}")
        for name in self.node_names:
            if name not in self._daemons:
                self._start_slurmd(name)
        withheld = [name for name, state in self.node_states().items() if state.startswith("dr")]
        if withheld:
            self.run("scontrol", "update", f"NodeName={','.join(withheld)}", "State=RESUME")
        self._wait_for_nodes(self.node_names, ("idle",))

    def run(self, *argv: str) -> str:
        """The output of a client program, for example ``run("squeue")``."""
        try:
            done = subprocess.run(
                argv,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_CLIENT_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise ExecutorError(f"{argv[0]} did not answer") from error
        if done.returncode:
            raise ExecutorError(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def node_states(self) -> dict[str, str]:
        """Such as ``idle``, ``mix``, ``alloc``, ``down*`` by the name of the node."""
        rows = self.run("sinfo", "--noheader", "--Node", "--format=%N %t").split()
        return dict(zip(rows[::2], rows[1::2], strict=True))

    def wait_for(self, happened: Callable[[], bool], what: str) -> None:
        """Raises :class:`ExecutorError` if ``happened`` stays false for a minute."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not happened():
            if time.monotonic() > deadline:
                raise ExecutorError(f"{what} did not happen; {self._tails()}")
            time.sleep(_GLANCE_SECONDS)

    # The folder.

    @property
    def _conf(self) -> str:
        return str(self.folder / "slurm.conf")

    @property
    def _socket(self) -> Path:
        return self.folder / "munge.socket"

    def _make_folder(self) -> None:
        longest = self.folder / "spool" / self.node_names[-1] / f"{self.node_names[-1]}_9999999.9"
        if len(os.fsencode(longest)) > _LONGEST_SOCKET:
            raise ExecutorError(f"{self.folder}: too long a path for the sockets in it")
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("state", "spool"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for name in ("state", "spool", "log", "gpus"):
            (self.folder / name).mkdir(exist_ok=True)
        for log in (self.folder / "log").iterdir():
            log.unlink()
        key = self.folder / "munge.key"
        key.unlink(missing_ok=True)
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o400), "wb") as file:
            file.write(os.urandom(128))
        self._socket.unlink(missing_ok=True)
        for number in range(self.gpus):
            device = self.folder / "gpus" / f"gpu{number}"
            device.unlink(missing_ok=True)
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # another /dev/null
        (self.folder / "slurm.conf").write_text(self._slurm_conf(self._take_ports()))
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "gres.conf").write_text(
            f"NodeName={self._node_range} Name=gpu Type={self.gpu_type} "
            f"File={self.folder}/gpus/gpu[0-{self.gpus - 1}]\n"
        )

    @property
    def _node_range(self) -> str:
        return f"n[0-{len(self.node_names) - 1}]"

    def _slurm_conf(self, port: int) -> str:
        host = socket.gethostname().split(".")[0]
        settings = {
            "ClusterName": "test",
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "SlurmctldPort": port,
            "CommunicationParameters": "NoCtldInAddrAny,NoInAddrAny",
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self._socket},cred_expire=5",
            "CredType": "cred/munge",
            "StateSaveLocation": self.folder / "state",
            "SlurmdSpoolDir": self.folder / "spool" / "%n",
            "SlurmctldPidFile": self.folder / "slurmctld.pid",
            "SlurmdPidFile": self.folder / "slurmd-%n.pid",
            "SlurmctldLogFile": self.folder / "log" / "slurmctld.log",
            "SlurmdLogFile": self.folder / "log" / "%n.log",
            "SlurmctldDebug": "info",
            "SlurmdDebug": "info",
            "MailProg": "/bin/true",
            "MpiDefault": "none",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "JobAcctGatherType": "jobacct_gather/none",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core",
            "GresTypes": "gpu",
            "SlurmdParameters": "config_overrides",
            "ReturnToService": 2,
            "SlurmdTimeout": self._node_timeout,
            "MessageTimeout": min(self._node_timeout, 5),  # clients try as long to reach it
            "TreeWidth": 1024,  # nodes are reached directly, not through one that may be dead
            "KillWait": 5,
            "CompleteWait": 0,
            "SchedulerParameters": "sched_interval=1,bf_interval=1,sched_min_interval=0,"
            "batch_sched_delay=0",
            "NodeName": f"{self._node_range} NodeHostname={host} NodeAddr=127.0.0.1 "
            f"Port={port + 1}-{port + len(self.node_names)} CPUs={self._cpus} "
            f"RealMemory=100000 Gres=gpu:{self.gpu_type}:{self.gpus} State=UNKNOWN",
            "PartitionName": "gpus Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
            **self._settings,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _munge_options(self) -> list[str]:
        return [
            "--force",  # whoever may write to the folder above may forge: it is only a test
            f"--num-threads={10 + len(self.node_names)}",  # a node that is slow stops no other
            f"--socket={self._socket}",
            f"--key-file={self.folder}/munge.key",
            f"--log-file={self.folder}/log/munged.log",
            f"--pid-file={self.folder}/munged.pid",
            f"--seed-file={self.folder}/munged.seed",
        ]

    def _take_ports(self) -> int:
        """The first of a range of ports that is ours until the cluster is stopped."""
        if self._ports is not None:
            os.close(self._ports)
        for first in _PORTS:
            path = Path(tempfile.gettempdir()) / f"shockwave-slurm-{first}.lock"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                continue
            if all(_is_free(first + offset) for offset in range(len(self.node_names) + 1)):
                self._ports = descriptor
                return first
            os.close(descriptor)
        raise ExecutorError("no range of ports is free for another Slurm")

    # The daemons.

    def _start_slurmd(self, name: str) -> None:
        enter = [] if self._yielding is None else [*_ENTER, str(self._yielding / "cgroup.procs")]
        self._start(name, [*enter, "slurmd", "-D", "-N", name])

    def _start(self, name: str, argv: list[str]) -> None:
        running = self._daemons.get(name)
        if running is not None and running.poll() is None:
            raise ExecutorError(f"{name} runs already")
        marks = {_CLUSTER_MARK: str(self.folder), _NODE_MARK: name}
        with (self.folder / "log" / f"{name}.out").open("wb") as output:
            self._daemons[name] = subprocess.Popen(
                [*_DIES_WITH_US, *argv],
                cwd=self.folder,
                env={**os.environ, **self.environment, **marks},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # an interrupt at the terminal is ours, not theirs
            )

    def _kill_daemon(self, name: str) -> None:
        daemon = self._daemons.pop(name)
        daemon.kill()
        daemon.wait()

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        def happened() -> bool:
            if self._daemons[name].poll() is not None:
                raise ExecutorError(f"{name} has ended; {self._tails(name)}")
            return ready()

        self.wait_for(happened, f"the start of {name}")

    def _controller_answers(self) -> bool:
        with suppress(ExecutorError):
            return " is UP" in self.run("scontrol", "ping")
        return False

    def _wait_for_nodes(
        self, names: Sequence[str], wanted: Sequence[str] = ("idle", "mix", "alloc")
    ) -> None:
        def idle() -> bool:
            for name in names:
                if self._daemons[name].poll() is not None:
                    raise ExecutorError(f"slurmd of {name} has ended; {self._tails(name)}")
            states = self.node_states()
            return all(states.get(name) in wanted for name in names)

        self.wait_for(idle, f"the start of {', '.join(names[:3])} ...")

    def _end_leftovers(self, node: str | None = None) -> None:
        while found := list(self._leftovers(node)):
            for pid in found:
                _kill(pid)
            time.sleep(_GLANCE_SECONDS)

    def _leftovers(self, node: str | None = None) -> Iterator[int]:
        """Processes that daemons of this cluster (of this node) started, without the daemons."""
        known = {os.getpid(), *(daemon.pid for daemon in self._daemons.values())}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) in known:
                continue
            with suppress(OSError):
                pairs = (entry / "environ").read_text(errors="replace").split("\0")
                variables = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
                if self._is_ours(variables) and (node is None or node in _nodes_of(variables)):
                    yield int(entry.name)

    def _is_ours(self, variables: Mapping[str, str]) -> bool:
        of_a_daemon = variables.get(_CLUSTER_MARK) == str(self.folder)
        of_a_job = "SLURM_JOB_ID" in variables
        return of_a_daemon or (of_a_job and variables.get("SLURM_CONF") == self._conf)

    def _tails(self, *names: str) -> str:
        """The last lines of what the daemons have written."""
        texts = []
        for name in names or ("munged", "slurmctld", self.node_names[0]):
            for path in (self.folder / "log" / f"{name}.out", self.folder / "log" / f"{name}.log"):
                with suppress(OSError):
                    lines = path.read_text(errors="replace").splitlines()[-8:]
                    texts += [f"{path.name}: {line}" for line in lines]
        return "\n".join(["the logs end with", *texts]) if texts else "there are no logs"


def _search_path(variables: Mapping[str, str]) -> str:
    """Where programs are; daemons are where the paths of ordinary people do not lead."""
    return os.pathsep.join([variables.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin"])


def _nodes_of(variables: Mapping[str, str]) -> set[str | None]:
    return {variables.get("SLURMD_NODENAME"), variables.get(_NODE_MARK)}


def _yielding_group(name: str) -> Path | None:
    """A control group that gets what all others leave; None where none can be made.

    Priorities alone would not do: Linux shares out between sessions first, and every job is one.
    """
    for folder, setting, value in (
        (Path("/sys/fs/cgroup/cpu"), "cpu.shares", "2"),
        (Path("/sys/fs/cgroup"), "cpu.idle", "1"),
    ):
        group = folder / name
        with suppress(OSError):
            group.mkdir()
            (group / setting).write_text(value)
            return group
        with suppress(OSError):
            group.rmdir()
    return None


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
