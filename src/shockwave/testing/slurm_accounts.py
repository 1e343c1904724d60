"""Slurm's accounting for a cluster of tests: slurmdbd with a MariaDB of its own, on a socket."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shockwave.model.errors import ExecutorError

_PROGRAMS = ("mariadbd", "slurmdbd", "sacctmgr")
_SYSTEM_TABLES = (
    Path("/usr/share/mysql/mysql_system_tables.sql"),
    Path("/usr/share/mariadb/mariadb_system_tables.sql"),
)
_PLUGIN = "accounting_storage_mysql.so"
_SMALL = (  # what is kept here is worth nothing when the cluster ends
    "--no-defaults", "--user=root", "--skip-log-bin", "--innodb-buffer-pool-size=16M",
    "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0",
)  # fmt: skip


def why_there_are_no_accounts(path: str) -> str | None:
    """One line for a test that is skipped; None where slurmdbd can be started."""
    missing = [program for program in _PROGRAMS if shutil.which(program, path=path) is None]
    if not any(file.exists() for file in _SYSTEM_TABLES):
        missing.append("the tables of MariaDB")
    if not any(Path("/usr/lib").glob(f"*/slurm*/{_PLUGIN}")):
        missing.append(_PLUGIN)
    return f"Slurm's accounting is not installed: no {', '.join(missing)}" if missing else None


@dataclass(frozen=True)
class SlurmAccounts:
    """Files and daemons below ``folder``; slurmdbd listens on ``port``."""

    folder: Path
    host: str
    munge_socket: Path

    @property
    def database_socket(self) -> Path:
        return self.folder / "mariadb.socket"

    def settings(self, port: int) -> dict[str, object]:
        """What ``slurm.conf`` says of it: limits are kept, and nobody is in unless named."""
        return {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": port,
            "AccountingStoragePass": self.munge_socket,
            "AccountingStorageEnforce": "associations,limits,qos",
            "AccountingStorageTRES": "gres/gpu",
        }

    def start(self, port: int, run: Callable[[str, Sequence[str]], None]) -> None:
        """``run`` starts a daemon by its name and command."""
        data = self.folder / "mariadb"
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        tables = next(file for file in _SYSTEM_TABLES if file.exists()).read_bytes()
        made = subprocess.run(
            ["mariadbd", *_SMALL, "--bootstrap", f"--datadir={data}"],
            input=b"CREATE DATABASE mysql;\nUSE mysql;\n" + tables,
            capture_output=True,
        )
        if made.returncode:
            raise ExecutorError(f"MariaDB makes no database: {made.stderr.decode()[-500:]}")
        self._configure(port)
        database = ["mariadbd", *_SMALL, f"--datadir={data}", f"--socket={self.database_socket}"]
        run("mariadbd", [*database, "--skip-networking", "--skip-grant-tables"])

    def _configure(self, port: int) -> None:
        settings = {
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self.munge_socket}",
            "DbdHost": self.host,
            "DbdAddr": "127.0.0.1",
            "DbdPort": port,
            "SlurmUser": "root",
            "LogFile": self.folder / "log" / "slurmdbd.log",
            "PidFile": self.folder / "slurmdbd.pid",
            "StorageType": "accounting_storage/mysql",
            "StorageHost": "localhost",
            "StorageUser": "root",
            "StoragePass": "none",
        }
        file = self.folder / "slurmdbd.conf"
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # or it refuses
        with open(descriptor, "w") as output:
            output.writelines(f"{name}={value}\n" for name, value in settings.items())
