"""Locks that the operating system gives back when the last process that holds them ends.

A lock lives as long as any process has the file open that took it, and children inherit open
files. So a lock that was handed to a gang says whether any of it is still alive: no process id
that may be used again, no race with a process that is only just starting.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def open_lock(path: Path) -> int:
    """A descriptor to lock; created where it does not exist, never inherited by accident."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def try_lock(descriptor: int) -> bool:
    """Takes the lock if it is free; it is given back by closing the descriptor everywhere."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(path: Path) -> bool:
    """Whether some process holds the lock. A missing file is held by nobody."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)
