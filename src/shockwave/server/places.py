"""Where a scheduler keeps its things and can be spoken to, unless somebody says otherwise.

Server and command line agree on it here, without importing anything of each other.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SOCKET_NAME = "shockwave.sock"
SYSTEM_STATE_DIR = Path("/var/lib/shockwave")
SYSTEM_SOCKET = Path("/run/shockwave") / SOCKET_NAME


def default_state_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """A person's own; of root, the one of the system."""
    base = environment.get("XDG_STATE_HOME")
    if base:
        return Path(base) / "shockwave"
    if os.geteuid() == 0:
        return SYSTEM_STATE_DIR
    return Path.home() / ".local" / "state" / "shockwave"


def default_socket(state_dir: Path) -> Path:
    """In the state folder; that of the system's scheduler is where everybody looks for it."""
    return SYSTEM_SOCKET if state_dir == SYSTEM_STATE_DIR else state_dir / SOCKET_NAME


def sockets_to_try(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Where a client looks for a scheduler, in this order."""
    named = environment.get("SHOCKWAVE_SOCKET")
    if named:
        return [Path(named)]
    state_dir = environment.get("SHOCKWAVE_STATE_DIR")
    own = Path(state_dir).absolute() if state_dir else default_state_dir(environment)
    return list(dict.fromkeys([default_socket(own), SYSTEM_SOCKET]))


def connect(path: Path, timeout: float | None = None) -> socket.socket:
    """A connection to a Unix socket. Raises :class:`OSError`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        with short_name(path) as name:
            connection.connect(name)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """A name for a socket whose path may be longer than the 107 bytes that an address holds."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
