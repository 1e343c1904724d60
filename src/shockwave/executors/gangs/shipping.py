"""The supervisor's program beside the jobs, where every node finds it.

Nodes then need Python and the shared folder, but no installation of the scheduler; and gangs
that run are not disturbed when the scheduler is upgraded.
"""

from __future__ import annotations

import compileall
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from shockwave.model.errors import ExecutorError

_PACKAGE = Path(__file__).resolve().parents[2]
_SHIPPED = ("protocol", "executors/gangs/supervisor")  # nothing but the standard library


def ship_supervisor(root: Path) -> Path:
    """Copies the program below ``root`` unless it is there; returns where to import it from.

    Raises :class:`ExecutorError` if it cannot be written.
    """
    files = [file for folder in _SHIPPED for file in sorted((_PACKAGE / folder).glob("*.py"))]
    digest = hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]
    target = root / "supervisor" / digest
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.parent.chmod(0o711)
        temporary = Path(tempfile.mkdtemp(prefix=".", dir=target.parent))
        try:
            temporary.chmod(0o755)
            for file in files:
                copy = temporary / file.relative_to(_PACKAGE.parent)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
            # Compiled now: whoever runs it may not write here, and would compile it at every start.
            compileall.compile_dir(temporary, ddir=str(target), quiet=2)
            for path in temporary.rglob("*"):  # it may be another user who runs it
                path.chmod(0o755 if path.is_dir() else 0o644)
            os.replace(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        if not target.is_dir():  # else somebody else was faster
            raise ExecutorError(f"{target} cannot be written: {error}") from error
    return target
