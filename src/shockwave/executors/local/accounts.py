"""Unix users: as whom a job runs, and with what."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shockwave.executors.gangs.errors import LaunchError
from shockwave.executors.gangs.folder import JobFolder


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine, with the groups that a login would give."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    @property
    def identity(self) -> dict[str, Any]:
        """What makes a process theirs, as :class:`subprocess.Popen` takes it."""
        return {"user": self.uid, "group": self.gid, "extra_groups": self.groups}

    @property
    def variables(self) -> dict[str, str]:
        """What a login would set."""
        shell = self.shell or "/bin/sh"
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": shell}


def account_of(name: str) -> Account:
    """Raises :class:`KeyError` if there is no such user."""
    found = pwd.getpwnam(name)
    groups = tuple(os.getgrouplist(name, found.pw_gid))
    return Account(name, found.pw_uid, found.pw_gid, groups, found.pw_dir, found.pw_shell)


def account_to_run_as(name: str) -> Account | None:
    """Whom a job of that user is started as; None if that is who we are.

    Raises :class:`LaunchError` if it cannot be.
    """
    if not name:
        return None
    try:
        account = account_of(name)
    except KeyError:
        raise LaunchError(f"there is no user {name} on this machine any more") from None
    if account.uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise LaunchError(f"only root may start jobs as {name}")
    return account


def hand_over(folder: JobFolder, account: Account) -> None:
    """Makes the job's folder that of its user, and closes it to everybody else."""
    for path in (folder.path, folder.logs):
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    folder.path.chmod(0o700)


def python_for_everybody() -> str:
    """An interpreter that any user may start: ours, or else that of the system.

    Raises :class:`LaunchError` if there is none.
    """
    of_the_system = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    for path in (sys.executable, of_the_system):
        if path and _open_to_everybody(Path(path)) and _open_to_everybody(Path(path).resolve()):
            return path
    raise LaunchError(
        f"other users cannot start {Path(sys.executable).resolve()}; "
        "install where everybody may read, for instance in /opt/shockwave"
    )


def _open_to_everybody(path: Path) -> bool:
    try:
        return all(part.stat().st_mode & 0o001 for part in (path, *path.absolute().parents))
    except OSError:
        return False
