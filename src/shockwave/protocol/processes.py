"""Processes of this machine, read from ``/proc``.

A number alone may be somebody else's by now, so a process goes by its number and its start.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_SET_PARENT_DEATH_SIGNAL = 1  # prctl(2)
_SET_CHILD_SUBREAPER = 36
_STATE, _PARENT, _GROUP, _SESSION, _START_TICKS = (
    0,
    1,
    2,
    3,
    19,
)  # fields of /proc/<pid>/stat after the name
_ENDED = ("Z", "X")


def boot_id() -> str:
    """Changes with every start of the machine; empty where the system does not tell."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot. None if it has ended.

    A zombie has ended. Where there is no ``/proc``, 0 for every process that exists.
    """
    if not _PROC.joinpath("self").exists():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        return 0
    fields = _stat(pid)
    if fields is None or fields[_STATE] in _ENDED:
        return None
    return int(fields[_START_TICKS])


def is_same(pid: int, ticks: int) -> bool:
    """Whether ``pid`` is still the process that started at ``ticks``."""
    return start_ticks(pid) == ticks


def processes() -> list[int]:
    """All living processes."""
    return [pid for pid, _ in _living()]


def children(parent: int) -> list[int]:
    """The living processes whose parent is ``parent``."""
    return [pid for pid, fields in _living() if int(fields[_PARENT]) == parent]


def descendants(ancestor: int) -> list[int]:
    """The living processes below ``ancestor``, also below those that have just ended."""
    below: dict[int, list[int]] = {}
    for pid, fields in _all():
        below.setdefault(int(fields[_PARENT]), []).append(pid)
    found = list(below.get(ancestor, []))
    for pid in found:  # grows meanwhile
        found += below.get(pid, [])
    return [pid for pid in found if start_ticks(pid) is not None]


def session_members(leader: int) -> list[int]:
    """The living processes of a session."""
    return [pid for pid, fields in _living() if int(fields[_SESSION]) == leader]


def environment_of(pid: int) -> dict[str, str]:
    """What a process was started with; empty where that cannot be read."""
    try:
        raw = (_PROC / str(pid) / "environ").read_bytes().decode(errors="surrogateescape")
    except OSError:
        return {}
    return dict(pair.split("=", 1) for pair in raw.split("\0") if "=" in pair)


def out_of_memory_kills() -> int:
    """How many processes the system has killed because memory ran out.

    Of this process's control group, so that nobody is blamed for the greed of another; of the
    whole machine where the group does not say.
    """
    for path in _where_kills_are_counted():
        with suppress(OSError, ValueError):
            for line in path.read_text().splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
    return 0


def _where_kills_are_counted() -> Iterator[Path]:
    """Each has a line ``oom_kill``, in version 1 and 2 of control groups and for the machine."""
    with suppress(OSError, ValueError):
        for line in (_PROC / "self" / "cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if "memory" in controllers.split(","):
                yield _CONTROL_GROUPS / controllers / group.lstrip("/") / "memory.oom_control"
            elif not controllers:
                yield _CONTROL_GROUPS / group.lstrip("/") / "memory.events.local"
    yield _PROC / "vmstat"


def adopt_orphans() -> None:
    """Makes this process the parent of descendants whose own parent ends, where possible."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent() -> None:
    """Has this process killed when its parent ends, where possible."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def signal_group(group: int, number: signal.Signals, *, only_of: int | None = None) -> None:
    """Signals a process group; one that is gone needs no signal.

    ``only_of`` is the user whose processes may be meant, for root that is told a number by one.
    """
    if only_of is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
        return
    for pid, fields in _living():
        if int(fields[_GROUP]) == group:
            signal_process(pid, number, only_of=only_of)


def signal_process(pid: int, number: signal.Signals, *, only_of: int | None = None) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if only_of is None:
            os.kill(pid, number)
            return
        handle = os.pidfd_open(pid)  # stays the same process, whoever has the number next
        try:
            if (_PROC / str(pid)).stat().st_uid == only_of:
                signal.pidfd_send_signal(handle, number)
        except FileNotFoundError:
            pass
        finally:
            os.close(handle)


def _living() -> Iterator[tuple[int, list[str]]]:
    return ((pid, fields) for pid, fields in _all() if fields[_STATE] not in _ENDED)


def _all() -> Iterator[tuple[int, list[str]]]:
    """Every process with its fields of ``stat``."""
    with suppress(OSError):
        for entry in os.listdir(_PROC):
            fields = _stat(int(entry)) if entry.isdigit() else None
            if fields is not None:
                yield int(entry), fields


def _stat(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name is in brackets and may hold anything, brackets and spaces too.
    return text[text.rindex(")") + 2 :].split()
