"""The folder of a Slurm for tests: key, configuration, GPUs that are none, state, logs."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from shockwave.model.errors import ExecutorError

_LONGEST_SOCKET = 107  # bytes in the path of a unix socket
_LINES = 8  # of a log that are shown


def release() -> tuple[int, int]:
    """Of the Slurm that is installed: (22, 5)."""
    said = subprocess.run(["sbatch", "--version"], capture_output=True, text=True).stdout
    found = re.search(r"(\d+)\.(\d+)", said)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def host_name() -> str:
    """Of this machine, as Slurm wants it."""
    return socket.gethostname().split(".")[0]


@dataclass(frozen=True)
class SlurmFiles:
    """Everything of one cluster. ``settings`` replace those of the same name here."""

    folder: Path
    nodes: int
    gpus: int
    gpu_types: Sequence[str]  # one for every node in turn
    cpus: int
    node_timeout_seconds: int
    message_timeout_seconds: int
    settings: Mapping[str, str]

    @property
    def configuration(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        return self.folder / "munge.socket"

    @property
    def munge_options(self) -> list[str]:
        return [
            "--force",  # whoever may write to the folder above may forge: it is only a test
            f"--num-threads={10 + self.nodes}",  # a node that is slow stops no other
            f"--socket={self.munge_socket}",
            f"--key-file={self.folder}/munge.key",
            f"--log-file={self.folder}/log/munged.log",
            f"--pid-file={self.folder}/munged.pid",
            f"--seed-file={self.folder}/munged.seed",
        ]

    def make(self, port: int, more: Mapping[str, object]) -> None:
        """Afresh, with ``more`` settings.

        The controller listens on ``port``, the nodes on those that follow.
        """
        longest = self.folder / "spool" / f"n{self.nodes}" / f"n{self.nodes}_9999999.9"
        if len(os.fsencode(longest)) > _LONGEST_SOCKET:
            raise ExecutorError(f"{self.folder}: too long a path for the sockets in it")
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("state", "spool", "log", "gpus"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / name).mkdir()
        for path in (self.folder / "munge.key", self.munge_socket):
            path.unlink(missing_ok=True)
        key = os.open(self.folder / "munge.key", os.O_WRONLY | os.O_CREAT, 0o400)
        with open(key, "wb") as file:
            file.write(os.urandom(128))
        for number in range(self.gpus):  # plain files would do, but then no job is told of them
            device = self.folder / "gpus" / f"gpu{number}"
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # another /dev/null
        self.configuration.write_text(self._slurm_conf(port, more))
        plugin = "disabled" if release() >= (23, 11) else "cgroup/v1"
        (self.folder / "cgroup.conf").write_text(f"CgroupPlugin={plugin}\n")
        devices = f"{self.folder}/gpus/gpu[0-{self.gpus - 1}]"
        (self.folder / "gres.conf").write_text(
            "".join(
                f"NodeName={name} Name=gpu Type={kind} File={devices}\n"
                for name, kind in self._kinds
            )
        )

    def output(self, daemon: str) -> Path:
        return self.folder / "log" / f"{daemon}.out"

    def tails(self, *daemons: str) -> str:
        """The last lines of what they have written."""
        texts = []
        for daemon in daemons:
            for path in (self.output(daemon), self.folder / "log" / f"{daemon}.log"):
                with suppress(OSError):
                    lines = path.read_text(errors="replace").splitlines()[-_LINES:]
                    texts += [f"{path.name}: {line}" for line in lines]
        return "\n".join(["the logs end with", *texts]) if texts else "there are no logs"

    @property
    def _kinds(self) -> list[tuple[str, str]]:
        """Nodes, and the type of GPU that they have."""
        kinds = self.gpu_types
        return [(f"n{number}", kinds[number % len(kinds)]) for number in range(self.nodes)]

    def _node_lines(self, host: str, port: int) -> str:
        """Without the first ``NodeName=``."""
        common = f"NodeHostname={host} NodeAddr=127.0.0.1 CPUs={self.cpus} RealMemory=100000"
        return "\nNodeName=".join(
            f"{name} Port={port + number} {common} Gres=gpu:{kind}:{self.gpus} State=UNKNOWN"
            for number, (name, kind) in enumerate(self._kinds, start=1)
        )

    def _slurm_conf(self, port: int, more: Mapping[str, object]) -> str:
        host = host_name()
        settings = {
            "ClusterName": "test",
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "SlurmctldPort": port,
            "CommunicationParameters": "NoCtldInAddrAny,NoInAddrAny",
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self.munge_socket},cred_expire=5",
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
            "SlurmdTimeout": self.node_timeout_seconds,
            "MessageTimeout": self.message_timeout_seconds,
            "TreeWidth": 1024,  # nodes are reached directly, not through one that may be dead
            "KillWait": 5,
            "CompleteWait": 0,
            "SchedulerParameters": "sched_interval=1,bf_interval=1,sched_min_interval=0,"
            "batch_sched_delay=0",
            "NodeName": self._node_lines(host, port),
            "PartitionName": "gpus Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
            **more,
            **self.settings,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())
