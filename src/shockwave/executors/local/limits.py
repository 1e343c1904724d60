"""Memory and processors that a job may use at most, kept by control groups of the kernel.

Two ways: folders in ``/sys/fs/cgroup`` that we may write (as root, or where they were delegated
to us), or a scope of the user's own service manager (``systemd-run --user``). Where there is
neither, limits cannot be kept, and whoever asks for one is told so.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_PERIOD_MICROSECONDS = 100_000
_OURS = "shockwave-jobs"
NO_LIMITS = (
    "this machine cannot keep limits of memory or processors: there is no control group that the "
    "scheduler may write, and no service manager of its user"
)
ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Limits:
    """``cpus`` may be a part of one. None is no limit."""

    memory_bytes: int | None = None
    cpus: float | None = None

    @staticmethod
    def of(options: Mapping[str, str]) -> Limits:
        """What a job's options say."""
        memory, cpus = options.get("memory"), options.get("cpus")
        return Limits(
            None if memory is None else bytes_of(memory), None if cpus is None else float(cpus)
        )

    def __bool__(self) -> bool:
        return self.memory_bytes is not None or self.cpus is not None


def bytes_of(text: str) -> int:
    """An amount of memory in bytes. Raises :class:`ValueError`.

    >>> bytes_of("8G"), bytes_of("512M")
    (8589934592, 536870912)
    """
    found = re.fullmatch(r"([1-9][0-9]{0,14})([KMGT]?)", text)
    if found is None:
        raise ValueError("should be an amount of memory such as 8G or 512M")
    return int(found[1]) * _UNITS[found[2]]


class Keeper(Protocol):
    """One way to keep limits."""

    def wrap(self, argv: Sequence[str], name: str, limits: Limits) -> list[str]:
        """The command that starts ``argv`` within the limits, or waits until it is put there."""

    def admit(self, pid: int, name: str, limits: Limits) -> None:
        """Puts a process that waits within the limits. Raises :class:`OSError`."""


class Groups:
    """Folders of control groups: one for all controllers (v2), or one for each (v1)."""

    def __init__(self, folders: Mapping[str, Path], *, unified: bool) -> None:
        self._folders = folders  # by controller: where a job's own folder is made
        self._unified = unified

    def wrap(self, argv: Sequence[str], name: str, limits: Limits) -> list[str]:
        """It waits for a line, which comes when it is in its group, so nothing runs outside."""
        return ["/bin/sh", "-c", 'read -r _ && exec "$@" </dev/null', "sh", *argv]

    def admit(self, pid: int, name: str, limits: Limits) -> None:
        self._forget_empty()
        for controller, above in self._folders.items():
            folder = above / name
            folder.mkdir(exist_ok=True)
            for file, value in self._files(controller, limits):
                (folder / file).write_text(value)
            (folder / "cgroup.procs").write_text(str(pid))

    def _files(self, controller: str, limits: Limits) -> list[tuple[str, str]]:
        files: list[tuple[str, str]] = []
        if limits.memory_bytes is not None and controller in ("memory", "all"):
            amount = str(limits.memory_bytes)
            if self._unified:
                files += [("memory.max", amount), ("memory.oom.group", "0")]
            else:
                files.append(("memory.limit_in_bytes", amount))
        if limits.cpus is not None and controller in ("cpu", "all"):
            quota = str(max(round(limits.cpus * _PERIOD_MICROSECONDS), 1000))
            if self._unified:
                files.append(("cpu.max", f"{quota} {_PERIOD_MICROSECONDS}"))
            else:
                files.append(("cpu.cfs_period_us", str(_PERIOD_MICROSECONDS)))
                files.append(("cpu.cfs_quota_us", quota))
        return files

    def _forget_empty(self) -> None:
        for above in self._folders.values():
            for folder in above.iterdir():
                if folder.is_dir():
                    with suppress(OSError):  # somebody is in it
                        folder.rmdir()


class UserScopes:
    """Scopes of the user's own service manager."""

    def __init__(self, program: str) -> None:
        self._program = program

    def wrap(self, argv: Sequence[str], name: str, limits: Limits) -> list[str]:
        said = [self._program, "--user", "--scope", "--quiet", "--collect"]
        if limits.memory_bytes is not None:
            said += ["-p", f"MemoryMax={limits.memory_bytes}"]
        if limits.cpus is not None:
            said += ["-p", f"CPUQuota={max(round(limits.cpus * 100), 1)}%"]
        return [*said, "--", *argv]

    def admit(self, pid: int, name: str, limits: Limits) -> None:
        """It is there already."""


@dataclass(frozen=True, slots=True)
class Within:
    """The limits of one launch, and how they are kept."""

    keeper: Keeper
    name: str
    limits: Limits

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return self.keeper.wrap(argv, self.name, self.limits)

    def admit(self, pid: int) -> None:
        self.keeper.admit(pid, self.name, self.limits)


def find_keeper(root: Path = ROOT, own: Path = Path("/proc/self/cgroup")) -> Keeper | None:
    """How limits can be kept on this machine; None if they cannot."""
    manager = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}") / "systemd"
    program = shutil.which("systemd-run")
    if os.geteuid() != 0 and program is not None and manager.is_dir():
        return UserScopes(program)
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
        groups = {names: path.lstrip("/") for _, names, path in lines}  # by controllers
    except (OSError, ValueError):
        return None
    if (root / "cgroup.controllers").exists():
        return _unified(root, groups.get("", ""))
    return _legacy(root, groups)


def _unified(root: Path, own: str) -> Keeper | None:
    here = root / own
    for above in (here.parent, here) if here != root else (here,):
        with suppress(OSError):
            ours = above / _OURS
            ours.mkdir(exist_ok=True)
            for folder in (above, ours):  # fails where processes are in it
                (folder / "cgroup.subtree_control").write_text("+memory +cpu")
            return Groups({"all": ours}, unified=True)
    return None


def _legacy(root: Path, groups: Mapping[str, str]) -> Keeper | None:
    folders: dict[str, Path] = {}
    for names, path in groups.items():
        for controller in {"memory", "cpu"}.intersection(names.split(",")):
            ours = root / names / path / _OURS
            try:
                ours.mkdir(exist_ok=True)
            except OSError:
                return None
            folders[controller] = ours
    return Groups(folders, unified=False) if len(folders) == 2 else None
