"""One scheduler per state directory, and the directory itself."""

from __future__ import annotations

import fcntl
import os
import pwd
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path

from shockwave.model.errors import InputError

LOCK_FILE = "serve.lock"


def prepare_state_dir(folder: Path, *, others_pass: bool = False) -> None:
    """Makes the directory, readable by its owner only. Raises :class:`InputError`.

    One that is there is closed to others, if it is ours. ``others_pass``: other users have
    folders below it, so they may pass, but see nothing on the way.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_owner(folder)
        if os.access(folder, os.W_OK | os.X_OK):
            _close(folder, others_pass)
    except OSError as error:
        raise InputError(
            f"the state directory cannot be made: {error.strerror}",
            source=str(folder),
            hint="Choose another one by --state-dir",
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(
            "the state directory cannot be written",
            source=str(folder),
            hint="Check its permissions, or choose another one by --state-dir",
        )


def _check_owner(folder: Path) -> None:
    owner, we = folder.stat().st_uid, os.geteuid()
    if owner != we:
        raise InputError(
            f"the state directory belongs to {_user_name(owner)}, not to {_user_name(we)}",
            source=str(folder),
            hint="Secrets are kept there: choose another one by --state-dir, or change its owner",
        )


def _close(folder: Path, others_pass: bool) -> None:
    """Whatever is in it is for us, but for the folders of jobs and the program that runs them."""
    jobs, programs = folder / "jobs", folder / "supervisor"
    for path in (jobs, folder / "snapshots", folder / "archive"):
        path.mkdir(mode=0o700, exist_ok=True)
    for entry in os.scandir(folder):
        if not entry.is_symlink() and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
            is_open = Path(entry.path) in (jobs, programs)
            mode = 0o600 if not entry.is_dir() else 0o711 if is_open and others_pass else 0o700
            if not stat.S_ISSOCK(entry.stat().st_mode):
                os.chmod(entry.path, mode)
    folder.chmod(0o711 if others_pass else 0o700)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


class LockHeld(InputError):  # noqa: N818  (a state of affairs)
    """Another scheduler, ``holder``, uses the directory."""

    def __init__(self, folder: Path, holder: str) -> None:
        super().__init__(
            f"another scheduler ({holder}) uses this state directory",
            source=str(folder),
            hint="Stop that one, choose another --state-dir, or wait for it with --standby",
        )
        self.holder = holder


class StateLock:
    """Held for as long as a scheduler uses a state directory.

    The kernel lets go of it when the process ends, however it ends, so that a lock is
    never left behind. The file says who holds it, for whoever finds it held.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def wait(self, tell: Callable[[str], None], glance_seconds: float = 1.0) -> None:
        """Acquires it as soon as nobody holds it; ``tell`` hears once who does."""
        told = False
        while True:
            try:
                return self.acquire()
            except LockHeld as error:
                if not told:
                    tell(error.holder)
                    told = True
                time.sleep(glance_seconds)

    def acquire(self) -> None:
        """Raises :class:`LockHeld` that names the process that holds it."""
        path = self._folder / LOCK_FILE
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise InputError(
                f"cannot be written: {error.strerror}",
                source=str(path),
                hint="Check the permissions, or choose another --state-dir",
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 256).decode("utf-8", "replace").strip() or "unknown"
            os.close(descriptor)
            raise LockHeld(self._folder, holder) from error
        os.ftruncate(descriptor, 0)
        since = time.strftime("%Y-%m-%d %H:%M:%S %Z")
        who = f"process {os.getpid()} on {socket.gethostname()}, since {since}\n"
        os.pwrite(descriptor, who.encode(), 0)
        self._descriptor = descriptor

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
