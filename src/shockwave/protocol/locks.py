"""Locks that the operating system gives back when the last process that holds them ends.

A lock lives as long as any process has the file open that took it, and children inherit open
files. So a lock that was handed to a gang says whether any of it is still alive: no process id
that may be used again, no race with a process that is only just starting.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO)


def open_lock(path: Path) -> int:
    """A descriptor to lock; created where it does not exist, never inherited by accident."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)  # or others could take it


def try_lock(descriptor: int) -> bool:
    """Takes the lock if it is free; it is given back by closing the descriptor everywhere."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(path: Path) -> bool:
    """Whether some process holds the lock. What is missing or no file is held by nobody."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _NO_FILE:
            return False
        raise
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)
