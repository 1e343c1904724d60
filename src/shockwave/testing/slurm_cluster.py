"""A real Slurm on this machine alone, for tests, benchmarks and trying things out.

Several ``slurmd`` play the nodes, their GPUs are device files that nobody opens, and everything
stays on loopback and inside one folder: key, sockets, configuration, state, logs. Two clusters
live side by side. It needs root, because Slurm does. ::

    with SlurmCluster(Path("/tmp/slurm"), nodes=2, gpus=4) as cluster:
        subprocess.run(["sinfo"], env={**os.environ, **cluster.environment})
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from shockwave.model.errors import ExecutorError
from shockwave.testing.slurm_accounts import SlurmAccounts, why_there_are_no_accounts
from shockwave.testing.slurm_files import SlurmFiles, host_name
from shockwave.testing.slurm_machine import (
    CLUSTER_MARK,
    NODE_MARK,
    end_leftovers,
    take_ports,
    yielding_group,
)

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


def why_slurm_cannot_run(*, accounts: bool = False) -> str | None:
    """One line for a test that is skipped; None where a cluster can be started."""
    if os.name != "posix" or os.geteuid() != 0:
        return "Slurm's daemons need root"
    path = _search_path(os.environ)
    missing = [program for program in _PROGRAMS if shutil.which(program, path=path) is None]
    if missing:
        return f"Slurm is not installed: no {', '.join(missing)}"
    return why_there_are_no_accounts(path) if accounts else None


class SlurmCluster:
    """``nodes`` nodes ``n0``, ``n1``, ... with ``gpus`` GPUs each.

    ``gpu_types`` has one type for every node in turn.
    ``folder`` is created and kept; a cluster that is started there again begins afresh. A node
    that does not answer for ``node_timeout_seconds`` is down. Where ``nodes_yield``, nodes and
    jobs get the processor time that nothing else wants: they stand for other machines, which
    would not slow this one down. With ``accounts`` nobody may submit who was not added by running
    ``sacctmgr``. ``settings`` go into ``slurm.conf``, in place of those of the same name here. What
    fails raises :class:`ExecutorError` with the last lines of the daemon's log.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 4,
        gpus: int = 4,
        gpu_types: Sequence[str] = ("v100",),
        cpus: int = 64,
        node_timeout_seconds: int = 30,
        nodes_yield: bool = False,
        accounts: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder.resolve()
        self.node_names = tuple(f"n{number}" for number in range(nodes))
        self._files = SlurmFiles(
            self.folder,
            nodes,
            gpus,
            gpu_types,
            cpus,
            node_timeout_seconds,
            # Clients try as long to reach the controller; so does that to reach nodes. As long as
            # the timeout of nodes, a dead one would keep pings from those that live.
            message_timeout_seconds=60
            if nodes_yield
            else max(min(node_timeout_seconds // 2, 5), 1),
            settings=settings or {},
        )
        self._accounts = (
            SlurmAccounts(self.folder, host_name(), self._files.munge_socket) if accounts else None
        )
        self._nodes_yield = nodes_yield
        self._yielding: Path | None = None  # the control group of the nodes
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._ports: int | None = None  # the lock on them

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs in its environment to speak to this cluster."""
        return {"SLURM_CONF": str(self._files.configuration), "PATH": _search_path(os.environ)}

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
        problem = why_slurm_cannot_run(accounts=self._accounts is not None)
        if problem is not None:
            raise ExecutorError(problem)
        self._end_leftovers()  # of somebody before us in this folder
        port, self._ports = take_ports(len(self.node_names) + 2)
        accounting = port + len(self.node_names) + 1
        self._files.make(
            port, {} if self._accounts is None else self._accounts.settings(accounting)
        )
        self._start("munged", ["munged", "--foreground", *self._files.munge_options])
        self._wait("munged", self._files.munge_socket.exists)
        if self._accounts is not None:
            self._start_accounting(self._accounts, accounting)
        self.start_controller(afresh=True)
        if self._nodes_yield:
            self._yielding = yielding_group(f"shockwave-slurm-{port}")
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
            with suppress(OSError):  # it is used again, or empty and costs nothing
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
        now = time.time()  # what it writes from now on has all that it knows
        news = self.run("sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap=true")
        self.run("scancel", news.strip())  # it writes only if something has changed
        state = self.folder / "state" / "job_state"
        self.wait_for(lambda: state.exists() and state.stat().st_mtime > now, "a saved state")

    def heal(self) -> None:
        """Ends all jobs, and brings back whatever was killed, stopped or drained."""
        if "slurmctld" not in self._daemons:
            self.start_controller()
        numbers = self.run("squeue", "--noheader", "--format=%A").split()
        for how in (["--full", "--signal=KILL"], []) if numbers else ():
            with suppress(ExecutorError):  # some of them have ended in the meantime
                self.run("scancel", *how, *numbers)
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
                raise ExecutorError(
                    f"{what} did not happen; {self._files.tails('munged', 'slurmctld', 'n0')}"
                )
            time.sleep(_GLANCE_SECONDS)

    # The daemons.

    def _start_accounting(self, accounts: SlurmAccounts, port: int) -> None:
        accounts.start(port, lambda name, argv: self._start(name, list(argv)))
        self._wait("mariadbd", accounts.database_socket.exists)
        self._start("slurmdbd", ["slurmdbd", "-D"])

        def answers() -> bool:
            with suppress(ExecutorError):
                self.run("sacctmgr", "--immediate", "show", "cluster")
                return True
            return False

        self._wait("slurmdbd", answers)

    def _start_slurmd(self, name: str) -> None:
        enter = [] if self._yielding is None else [*_ENTER, str(self._yielding / "cgroup.procs")]
        self._start(name, [*enter, "slurmd", "-D", "-N", name])

    def _start(self, name: str, argv: list[str]) -> None:
        running = self._daemons.get(name)
        if running is not None and running.poll() is None:
            raise ExecutorError(f"{name} runs already")
        marks = {CLUSTER_MARK: str(self.folder), NODE_MARK: name}
        if self._accounts is not None:
            marks["MYSQL_UNIX_PORT"] = str(self._accounts.database_socket)
        with self._files.output(name).open("wb") as output:
            self._daemons[name] = subprocess.Popen(
                [*_DIES_WITH_US, *argv],
                cwd=self.folder,
                env={**os.environ, **self.environment, **marks},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # an interrupt at the terminal is ours, not theirs
            )

    def _end_leftovers(self, node: str | None = None) -> None:
        end_leftovers(self.folder, (daemon.pid for daemon in self._daemons.values()), node)

    def _kill_daemon(self, name: str) -> None:
        daemon = self._daemons.pop(name)
        daemon.kill()
        daemon.wait()

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        def happened() -> bool:
            if self._daemons[name].poll() is not None:
                raise ExecutorError(f"{name} has ended; {self._files.tails(name)}")
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
                    raise ExecutorError(f"slurmd of {name} has ended; {self._files.tails(name)}")
            states = self.node_states()
            return all(states.get(name) in wanted for name in names)

        self.wait_for(idle, f"the start of {', '.join(names[:3])} ...")


def _search_path(variables: Mapping[str, str]) -> str:
    """Where programs are; daemons are where the paths of ordinary people do not lead."""
    return os.pathsep.join([variables.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin"])
