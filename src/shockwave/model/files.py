"""Where results may be written."""

from __future__ import annotations

import os
from pathlib import Path

from shockwave.model.errors import InputError


def check_writable(path: Path) -> None:
    """Raises :class:`InputError` now if ``path`` could not be written later, after long work."""
    folder = path.parent
    if path.is_dir():
        raise InputError("is a folder, expected a file to write", source=str(path))
    if not folder.is_dir():
        raise InputError("the folder does not exist", source=str(path), hint=f"mkdir -p {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InputError("cannot be written", source=str(path), hint="Check the permissions")
