"""What a job brings with it, kept in its folder: its environment, and a copy of its code.

Neither is in the journal: values of variables may be secrets, and the journal is forever. The
folder is made before the job is in the journal, under a name that means nothing yet, and belongs
to the job's owner where jobs run as their owners. What is read or copied on behalf of an owner is
read and copied by a process of that owner.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from shockwave.executors.gangs.errors import LaunchError
from shockwave.executors.local.accounts import Account, python_for_everybody
from shockwave.model.errors import InputError
from shockwave.protocol.environment import base_environment
from shockwave.protocol.files import read_json, write_json
from shockwave.protocol.paths import JobPaths
from shockwave.server.records import Submission

ENVIRONMENT_FILE = "environment.json"
CODE_FOLDER = "code"
_UNNAMED = ".new-"
_COPY_SECONDS = 300.0
_MOST_ONE_BY_ONE = 8  # files that are made durable one after the other
_NOTHING_TO_COPY = 3
# Runs as the owner, with the standard library alone. Links stay links: they lead where they led.
_COPY = f"""
import os, shutil, subprocess, sys
source, target = sys.argv[1:]
listed = subprocess.run(["git", "-C", source, "ls-files", "-z"], capture_output=True)
if listed.returncode:
    sys.stderr.write(listed.stderr.decode(errors="replace"))
    sys.exit({_NOTHING_TO_COPY})
for name in filter(None, listed.stdout.split(b"\\0")):
    path = os.path.join(os.fsencode(source), name)
    if not os.path.lexists(path) or (os.path.isdir(path) and not os.path.islink(path)):
        continue
    copy = os.path.join(os.fsencode(target), name)
    os.makedirs(os.path.dirname(copy), exist_ok=True)
    shutil.copy2(path, copy, follow_symlinks=False)
"""


class Belongings:
    """Those of all jobs of a scheduler, below its state folder."""

    def __init__(self, state_dir: Path) -> None:
        self._root = state_dir
        for left in (state_dir / "jobs").glob(f"{_UNNAMED}*"):  # of a scheduler that was killed
            shutil.rmtree(left, ignore_errors=True)

    def prepare_all(self, submissions: Sequence[Submission], account: Account | None) -> list[Path]:
        """A folder for each. Raises :class:`InputError` if one cannot be; then there are none."""
        folders: list[Path] = []
        one_by_one = len(submissions) <= _MOST_ONE_BY_ONE
        try:
            for item in submissions:
                code = Path(item.workdir) if item.snapshot else None
                folders.append(self.prepare(item.env, account, code, durable=one_by_one))
        except BaseException:
            for folder in folders:
                self.discard(folder)
            raise
        if not one_by_one:
            os.sync()  # faster than every file by itself
        return folders

    def prepare(
        self,
        environment: Mapping[str, str],
        account: Account | None,
        code: Path | None = None,
        *,
        durable: bool = True,
    ) -> Path:
        """A folder for a job that has no id yet. ``account`` is its owner, None if we are.

        ``code`` is a folder of which the files that git tracks are copied. Raises
        :class:`InputError` if that cannot be.
        """
        folder = self._root / "jobs" / f"{_UNNAMED}{secrets.token_hex(8)}"
        try:
            folder.parent.mkdir(mode=0o711 if account else 0o755, exist_ok=True)
            folder.mkdir(mode=0o700)
            if account is not None:
                os.chown(folder, account.uid, account.gid)
            write_json(
                folder / ENVIRONMENT_FILE,
                {"variables": dict(environment)},
                private=True,
                durable=durable,
            )
            if code is not None:
                _copy_code(code, folder, account)
        except OSError as error:
            self.discard(folder)
            raise InputError(
                f"the job's folder cannot be made: {error.strerror or error}", source=str(folder)
            ) from error
        except BaseException:
            self.discard(folder)
            raise
        return folder

    def give(self, folder: Path, job: str) -> Path:
        """Where the folder is, now that the job has its id. Raises :class:`OSError`."""
        return folder.rename(JobPaths.of(self._root, job).path)

    def discard(self, folder: Path) -> None:
        """It will never be a job, unless it has an id already: then it may be in the journal."""
        if folder.name.startswith(_UNNAMED):
            shutil.rmtree(folder, ignore_errors=True)

    def environment(self, job: str) -> dict[str, str]:
        """The variables that the job was submitted with."""
        path = JobPaths.of(self._root, job).path / ENVIRONMENT_FILE
        record = read_json(path)
        variables = None if record is None else record.get("variables")
        if not isinstance(variables, dict):
            raise InputError("the job's environment is gone", source=str(path))
        return {str(name): str(value) for name, value in variables.items()}

    def code(self, job: str) -> Path:
        """Where the copy of its code is, if it has one."""
        return JobPaths.of(self._root, job).path / CODE_FOLDER


def _copy_code(source: Path, folder: Path, account: Account | None) -> None:
    target = folder / CODE_FOLDER
    target.mkdir(mode=0o700)
    python, environment, who = sys.executable, base_environment(os.environ), {}
    if account is not None:
        try:
            python = python_for_everybody()
        except LaunchError as error:
            raise InputError(str(error), place="snapshot") from error
        os.chown(target, account.uid, account.gid)
        environment |= account.variables
        who = account.identity
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", _COPY, str(source), str(target)],
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COPY_SECONDS,
            **who,
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(
            f"copying the code takes longer than {_COPY_SECONDS:g} s", place="snapshot"
        ) from error
    if done.returncode == 0:
        return
    said = " ".join(done.stderr.decode(errors="replace").split())[-200:]
    if done.returncode == _NOTHING_TO_COPY:
        raise InputError(
            f"git does not list its files: {said}",
            place="snapshot",
            value=str(source),
            hint="Submit from a folder that git tracks, or without --snapshot",
        )
    raise InputError(f"the code cannot be copied: {said}", place="snapshot", value=str(source))
