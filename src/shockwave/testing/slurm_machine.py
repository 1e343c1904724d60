"""What clusters for tests share on one machine: ports, processor time, processes."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from shockwave.model.errors import ExecutorError
from shockwave.protocol.processes import environment_of, processes, signal_process

# In the environment of a cluster's daemons, and so of what they start.
CLUSTER_MARK = "SHOCKWAVE_TESTING_SLURM"
NODE_MARK = "SHOCKWAVE_TESTING_SLURM_NODE"
_PORTS = range(20_000, 32_000, 400)  # below those that the system hands out by itself
_GLANCE_SECONDS = 0.05


def take_ports(count: int) -> tuple[int, int]:
    """The first of that many ports, and a lock to be closed when they are not needed any more."""
    for first in _PORTS:
        path = Path(tempfile.gettempdir()) / f"shockwave-slurm-{first}.lock"
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        if all(_is_free(first + offset) for offset in range(count)):
            return first, lock
        os.close(lock)
    raise ExecutorError("no range of ports is free for another Slurm")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def yielding_group(name: str) -> Path | None:
    """A control group that gets what all others leave; None where none can be made.

    Priorities alone would not do: Linux shares out between sessions first, and every job is one.
    """
    for folder, setting, value in (
        (Path("/sys/fs/cgroup/cpu"), "cpu.shares", "2"),
        (Path("/sys/fs/cgroup"), "cpu.idle", "1"),
    ):
        group = folder / name
        with suppress(OSError):
            group.mkdir(exist_ok=True)
            (group / setting).write_text(value)
            return group
        with suppress(OSError):
            group.rmdir()
    return None


def end_leftovers(folder: Path, daemons: Iterable[int], node: str | None = None) -> None:
    """Kills what a cluster (or a node of it) started, but for those of its daemons.

    Like a machine that loses power: nothing of it can react to the end of the rest.
    """
    spared = {os.getpid(), *daemons}
    while found := set(_processes(folder, node)) - spared:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                signal_process(pid, number)
        time.sleep(_GLANCE_SECONDS)


def _processes(folder: Path, node: str | None) -> Iterator[int]:
    for pid in processes():
        variables = environment_of(pid)
        on = {variables.get("SLURMD_NODENAME"), variables.get(NODE_MARK)}
        if _belongs_to(folder, variables) and (node is None or node in on):
            yield pid


def _belongs_to(folder: Path, variables: Mapping[str, str]) -> bool:
    of_a_daemon = variables.get(CLUSTER_MARK) == str(folder)
    of_a_job = "SLURM_JOB_ID" in variables
    return of_a_daemon or (of_a_job and variables.get("SLURM_CONF") == f"{folder}/slurm.conf")
