"""A real PostgreSQL server in a temporary folder, for as long as a test session needs it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    program = shutil.which("initdb")
    return Path(program).parent if program else None


def _unprivileged() -> pwd.struct_passwd | None:
    """Whom the server runs as: it refuses to run as root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


def _missing(what: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}; install Debian's package postgresql")
    pytest.skip(f"{what}; install Debian's package postgresql to run this test")


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of an empty database. Skips where PostgreSQL is missing, fails then in CI."""
    binaries, user = _binaries(), _unprivileged()
    if binaries is None:
        _missing("PostgreSQL is not installed")
    if user is None:
        _missing("there is no unprivileged user to run PostgreSQL as")
    assert binaries is not None
    assert user is not None
    folder = Path(tempfile.mkdtemp(prefix="shockwave-pg-"))
    try:
        os.chown(folder, user.pw_uid, user.pw_gid)

        def run(program: str, *arguments: str) -> None:
            subprocess.run(
                [str(binaries / program), "-D", str(folder / "data"), *arguments],
                check=True,
                cwd=folder,
                user=user.pw_uid if os.geteuid() == 0 else None,
                group=user.pw_gid if os.geteuid() == 0 else None,
                extra_groups=[] if os.geteuid() == 0 else None,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(folder)},
                stdout=subprocess.DEVNULL,
                timeout=100,
            )

        run("initdb", "-A", "trust", "-U", "shockwave", "-E", "UTF8", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}'"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql://shockwave@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
