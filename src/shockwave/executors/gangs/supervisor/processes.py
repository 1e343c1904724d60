"""Which process is meant: a number alone may be somebody else's by now."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_SET_CHILD_SUBREAPER = 36  # prctl(2)
_STATE, _PARENT, _START_TICKS = 0, 1, 19  # fields of /proc/<pid>/stat after the name


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
    if fields is None or fields[_STATE] in ("Z", "X"):
        return None
    return int(fields[_START_TICKS])


def is_same(pid: int, ticks: int) -> bool:
    """Whether ``pid`` is still the process that started at ``ticks``."""
    return start_ticks(pid) == ticks


def children(parent: int) -> list[int]:
    """The processes whose parent is ``parent``."""
    found = []
    with suppress(OSError):
        for entry in os.listdir(_PROC):
            if entry.isdigit():
                fields = _stat(int(entry))
                if fields is not None and int(fields[_PARENT]) == parent:
                    found.append(int(entry))
    return found


def adopt_orphans() -> None:
    """Makes this process the parent of descendants whose own parent ends, where possible."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def signal_group(group: int, number: signal.Signals) -> None:
    """Signals a process group; one that is gone needs no signal."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def signal_process(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _stat(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name is in brackets and may hold anything, brackets and spaces too.
    return text[text.rindex(")") + 2 :].split()
