"""The folder of all jobs belongs to one executor at a time."""

from __future__ import annotations

import os
from pathlib import Path

from shockwave.model.errors import ExecutorError
from shockwave.protocol.locks import open_lock, try_lock


def take_root(root: Path) -> int:
    """A lock, given back by closing it. Raises :class:`ExecutorError` if another has it."""
    path = root / "executor.lock"
    try:
        root.mkdir(parents=True, exist_ok=True)
        descriptor = open_lock(path)
    except OSError as error:
        raise ExecutorError(f"{path} cannot be created: {error}") from error
    if not try_lock(descriptor):
        os.close(descriptor)
        raise ExecutorError(f"{root} is in use by another scheduler")
    return descriptor
