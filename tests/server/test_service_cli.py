"""``shockwave serve`` and ``shockwave config``: they start, they stop, or say why not."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from shockwave.cli.client import Client
from shockwave.cli.config import config as config_command
from shockwave.cli.serve import serve
from shockwave.cli.settings_flags import SettingsCommand
from shockwave.executors.local.executor import LocalExecutor
from shockwave.server.lock import StateLock

runner = CliRunner()
app = typer.Typer()
app.command("serve", cls=SettingsCommand)(serve)
app.command("config", cls=SettingsCommand)(config_command)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SHOCKWAVE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def refused(*arguments: str) -> str:
    """The one line that is said; the exit code is 2."""
    done = runner.invoke(app, list(arguments))
    assert done.exit_code == 2, done.output
    assert done.output.count("\n") == 1, done.output
    return done.output


def test_a_second_scheduler_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    lock = StateLock(state)
    lock.acquire()
    said = refused("serve", "--state-dir", str(state))
    lock.release()
    assert f"another scheduler (process {os.getpid()} on " in said


def test_who_only_watches_takes_no_flags_of_a_scheduler(tmp_path: Path) -> None:
    said = refused("serve", "--shadow", "slurm", "--slots", "4")
    assert "--slots: is of no use with --shadow" in said
    assert "only slurm can be watched" in refused("serve", "--shadow", "k8s")
    assert "expected seconds" in refused("serve", "--shadow", "slurm", "--round", "soon")


def test_a_first_start_without_its_backend_fails_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LocalExecutor, "nodes", lambda self: None)
    monkeypatch.setattr(LocalExecutor, "away", lambda self: "nobody answers at 10.0.0.1")
    done = runner.invoke(app, ["serve", "--state-dir", "state"])
    assert done.exit_code == 1, done.output
    assert done.output.count("\n") == 1, done.output
    assert "executor local cannot be reached: nobody answers at 10.0.0.1" in done.output


def test_a_port_in_use_is_refused_and_leaves_nothing_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOCKWAVE_TOKEN", "a token of an operator")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"127.0.0.1:{port}" in refused("serve", "--state-dir", "state", "--port", port)
    assert not (tmp_path / "state" / "shockwave.db").exists()


def test_a_directory_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be made" in refused("serve", "--state-dir", str(tmp_path / "file" / "state"))


def test_a_broken_configuration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shockwave.toml").write_text("slots = 'many'\n")
    assert "shockwave.toml, line 1, slots" in refused("serve")
    assert "shockwave.toml, line 1, slots" in refused("config")


def test_a_broken_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "shockwave.db").write_bytes(b"nothing that could be a database" * 99)
    done = runner.invoke(app, ["serve", "--state-dir", "state"])
    assert done.exit_code == 1
    assert "not a database" in done.output
    assert done.output.count("\n") == 1


def test_settings_are_printed() -> None:
    done = runner.invoke(app, ["config", "--slots", "3", "--round", "30", "--stop-jobs"])
    assert done.exit_code == 0
    for line in ("slots = 3  # --slots", "round_seconds = 30.0  # --round-seconds"):
        assert line in done.output.splitlines()
    document = json.loads(runner.invoke(app, ["config", "--slots", "3", "--json"]).output)
    assert document["settings"]["slots"] == 3
    assert document["sources"] == {"slots": "--slots"}


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "shockwave.cli.main",
            "serve",
            "--state-dir",
            "state",
            "--policy",
            "las",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "300"},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"Shockwave listens on unix:{tmp_path / 'state'}")
        assert str(tmp_path / "state") in line
        me = Client(line.split()[3].rstrip(",")).get("me")
        assert me["operator"] is True
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=90)
        assert process.returncode == 0, errors
        assert "left running" in errors
    finally:
        process.kill()
        process.communicate()
