"""The environment and the code that were there when somebody typed ``submit``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.people.users import Serve, log_of, serving, until

from shockwave.cli.client import Client
from shockwave.cli.surroundings import read_env_file, source_of, taken_by_default
from shockwave.model.errors import InputError

SHOW = "import json, os, sys; print(json.dumps([sys.executable, os.getcwd(), dict(os.environ)]))"


@pytest.fixture(scope="module")
def here() -> Iterator[Serve]:
    """A scheduler of whoever runs the tests."""
    with serving() as started:
        yield started


def shockwave(
    serve: Serve, *arguments: object, cwd: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shockwave.cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "SHOCKWAVE_URL": serve.url, "COLUMNS": "200", **variables},
    )


def submitted(serve: Serve, *arguments: object, cwd: Path, **variables: str) -> str:
    done = shockwave(serve, "submit", "--epochs", 1, *arguments, cwd=cwd, **variables)
    assert done.returncode == 0, done.stderr
    name = done.stdout.strip()
    until(serve.url, name, "finished")
    return name


def shown(serve: Serve, name: str) -> tuple[str, str, dict[str, str]]:
    python, cwd, environment = json.loads(log_of(Client(serve.url), name))
    return python, cwd, environment


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], capture_output=True, check=True
    )
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text("print('as it was submitted')\n")
    (tmp_path / "notes.txt").write_text("not tracked")
    git(tmp_path, "add", "package")
    git(tmp_path, "commit", "-qm", "a start")
    return tmp_path


def test_the_same_python_in_the_same_folder(here: Serve, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    python = programs / "python"
    python.symlink_to(Path(sys.executable).resolve())
    variables = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "VIRTUAL_ENV": str(tmp_path),
        "CONDA_DEFAULT_ENV": "lab",
        "UNASKED": "1",
    }
    name = submitted(here, "--", "python", "-I", "-S", "-c", SHOW, cwd=tmp_path, **variables)
    used, cwd, environment = shown(here, name)
    assert (used, cwd) == (str(python), str(tmp_path))
    assert {key: environment.get(key) for key in variables} == {**variables, "UNASKED": None}


def test_variables_by_name_by_value_and_from_a_file(here: Serve, tmp_path: Path) -> None:
    file = tmp_path / "variables.env"
    file.write_text("# of the lab\nexport FROM_FILE='a b'\nBOTH=file\n\n")
    job = tmp_path / "job.yaml"
    job.write_text(
        f"command: [{sys.executable}, -I, -S, -c, {json.dumps(SHOW)}]\nepochs: 1\n"
        "env: {FROM_JOB: job, BOTH: job}\n"
    )
    name = submitted(
        here, job, "--env-file", file, "--env", "TAKEN", "--env", "GIVEN=x=y",
        cwd=tmp_path, TAKEN="secret",
    )  # fmt: skip
    environment = shown(here, name)[2]
    wanted = {
        "FROM_FILE": "a b", "BOTH": "file", "FROM_JOB": "job", "TAKEN": "secret", "GIVEN": "x=y",
    }  # fmt: skip
    assert {key: environment.get(key) for key in wanted} == wanted
    missing = shockwave(here, "submit", job, "--env", "NOT_THERE", cwd=tmp_path)
    assert missing.returncode == 2
    assert "there is no such variable here" in missing.stderr


def test_why_tells_the_commit_and_whether_there_were_changes(here: Serve, repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    name = submitted(here, "--", "true", cwd=repository)
    assert Client(here.url).get("jobs", name, "why")["source"] == {"commit": commit, "dirty": False}
    (repository / "package" / "train.py").write_text("print('changed')\n")
    name = submitted(here, "--", "true", cwd=repository)
    assert Client(here.url).get("jobs", name, "why")["source"]["dirty"] is True
    told = shockwave(here, "why", name, cwd=repository).stdout
    assert f"commit {commit[:12]}, with changes" in told


def test_a_snapshot_runs_what_was_tracked_when_it_was_submitted(
    here: Serve, repository: Path
) -> None:
    (repository / "package" / "linked.py").symlink_to("train.py")
    git(repository, "add", "package")
    name = submitted(
        here, "--snapshot", "--",
        "sh", "-c", "pwd; python3 package/train.py; python3 package/linked.py; ls",
        cwd=repository,
    )  # fmt: skip
    (repository / "package" / "train.py").write_text("print('too late')\n")
    folder, *said = log_of(Client(here.url), name).splitlines()
    assert folder == str(here.state / "jobs" / name / "code")
    assert said == ["as it was submitted", "as it was submitted", "package"]
    outside = repository.parent / "no-repository"
    outside.mkdir(exist_ok=True)
    refused = shockwave(here, "submit", "--epochs", 1, "--snapshot", "--", "true", cwd=outside)
    assert refused.returncode == 2
    assert "git does not list its files" in refused.stderr


def test_what_is_taken_by_default_is_little() -> None:
    taken = taken_by_default({"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x", "CONDA_PREFIX": "/c"})
    assert taken == {"PATH": "/bin", "CONDA_PREFIX": "/c"}


def test_a_wrong_line_of_a_file_is_named_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "variables.env"
    file.write_text("GOOD=1\nhunter2\n")
    with pytest.raises(InputError) as caught:
        read_env_file(file)
    assert "line 2" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_folder_that_git_does_not_know_has_no_commit(tmp_path: Path) -> None:
    assert source_of(tmp_path) is None


def test_a_scheduler_that_is_not_there_says_where_was_looked(tmp_path: Path) -> None:
    environment: dict[str, Any] = {
        name: value for name, value in os.environ.items() if not name.startswith("SHOCKWAVE_")
    }
    done = subprocess.run(
        [sys.executable, "-m", "shockwave.cli.main", "queue"],
        capture_output=True,
        text=True,
        env={**environment, "XDG_STATE_HOME": str(tmp_path), "COLUMNS": "300"},
    )
    assert done.returncode == 1
    assert f"{tmp_path}/shockwave/shockwave.sock (No such file or directory)" in done.stderr
    assert "/run/shockwave/shockwave.sock" in done.stderr
