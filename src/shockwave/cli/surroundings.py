"""What was there when somebody typed ``submit``: the environment, and the state of the code."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shockwave.model.errors import InputError

_GIT_SECONDS = 10.0
_NAMES = ("PATH", "VIRTUAL_ENV", "PYTHONPATH")  # what makes 'python' the same python
_PREFIXES = ("CONDA_",)


def add_surroundings(
    fields: dict[str, Any],
    env: Sequence[str] = (),
    env_file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Gives the fields of a job the environment that is there now, and its code's commit.

    ``env`` are NAME or NAME=VALUE. Rising precedence: what is taken by default, the job file, the
    file of variables, ``env``. Raises :class:`InputError`.
    """
    own = fields.get("env") or {}
    if isinstance(own, dict):  # else it is told as what it is, a mistake in the file
        fields["env"] = {
            **taken_by_default(environment),
            **own,
            **({} if env_file is None else read_env_file(env_file)),
            **_given(env, environment),
        }
    if "source" not in fields and isinstance(fields.get("workdir"), str):
        fields["source"] = source_of(Path(fields["workdir"]))


def taken_by_default(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that make ``python`` mean the same as here.

    >>> taken_by_default({"PATH": "/env/bin:/bin", "CONDA_PREFIX": "/env", "SECRET": "x"})
    {'PATH': '/env/bin:/bin', 'CONDA_PREFIX': '/env'}
    """
    return {
        name: value
        for name, value in environment.items()
        if name in _NAMES or name.startswith(_PREFIXES)
    }


def _given(env: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    given = {}
    for text in env:
        name, equals, value = text.partition("=")
        if not name:
            raise InputError("expected NAME or NAME=VALUE", place="--env", value=text)
        if not equals:
            if name not in environment:
                raise InputError(
                    "there is no such variable here",
                    place="--env",
                    value=name,
                    hint="Set it, or say NAME=VALUE",
                )
            value = environment[name]
        given[name] = value
    return given


def read_env_file(path: Path) -> dict[str, str]:
    """``NAME=VALUE`` a line; a value may be in quotes; empty lines and ``#`` lines are left out.

    Raises :class:`InputError` that names the line, and not what is in it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=str(path)) from error
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", source=str(path)) from error
    variables = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if not name or not equals:
            raise InputError("expected NAME=VALUE", source=str(path), place=f"line {number}")
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        variables[name] = value
    return variables


def source_of(folder: Path) -> dict[str, Any] | None:
    """The commit that a folder is at; None where git knows of none."""
    commit = _git(folder, "rev-parse", "--verify", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": bool(changes)} if commit else None


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""
