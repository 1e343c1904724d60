"""An executor from outside of the package, with options of its own, run by ``shockwave serve``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from shockwave.executors.live import EXECUTORS
from shockwave.model.errors import InputError
from shockwave.server.config import load_config

ROOT = Path(__file__).resolve().parents[2]
NAME = "tests.plugins.scripted_executor:ScriptedExecutor"
COUNT = (
    'echo "$GREETING from $WRAPPED"; for i in 1 2 3; do sleep 0.1; echo $i > "$EPOCHS_FILE"; done'
)
PATIENCE_SECONDS = 90.0


def environment() -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SHOCKWAVE_")}
    return {**clean, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "OMP_NUM_THREADS": "1"}


def shockwave(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shockwave.cli.main", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(),
        timeout=PATIENCE_SECONDS,
    )


@contextmanager
def serving(folder: Path, *flags: str) -> Iterator[str]:
    """The URL of a scheduler."""
    state = ("--state-dir", str(folder / "state"))
    process = subprocess.Popen(
        [sys.executable, "-m", "shockwave.cli.main", "serve", *state, *flags],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[3].rstrip(",")
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.communicate()


def finished(url: str, job: str, cwd: Path) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        record: dict[str, Any] = json.loads(
            shockwave("status", job, "--url", url, "--json", cwd=cwd).stdout
        )
        if record["state"] not in ("waiting", "running"):
            return record
        assert time.monotonic() < deadline, record
        time.sleep(0.2)


def test_it_serves_with_options_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        f"command: [sh, -c, {json.dumps(COUNT)}]\nepochs: 3\nscripted: {{greeting: hello}}\n"
    )
    quick = ("--round", "0.5", "--restart", "0.1", "--slots", "2", "--policy", "fifo")
    own = ("--executor", NAME, "--scripted-wrapper", "env WRAPPED=outside")
    with serving(tmp_path, *quick, *own) as url:
        done = shockwave("submit", "job.yaml", "--url", url, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        job = done.stdout.strip()
        record = finished(url, job, tmp_path)
        assert (record["state"], record["epochs_done"]) == ("finished", 3.0), record
        assert "hello from outside" in shockwave("logs", job, "--url", url, cwd=tmp_path).stdout
        for section, said in (
            ("scripted: {greetings: hello}", ["scripted.greetings", "The options are greeting"]),
            ("scriptd: {greeting: hello}", ["scriptd: this scheduler", "Did you mean scripted?"]),
        ):
            (tmp_path / "job.yaml").write_text(f"command: ['true']\nepochs: 3\n{section}\n")
            wrong = shockwave("submit", "job.yaml", "--url", url, cwd=tmp_path)
            assert wrong.returncode == 2
            for part in said:
                assert part in wrong.stderr


def test_its_flags_are_in_the_help_where_it_is_named(tmp_path: Path) -> None:
    named = shockwave("serve", "--executor", NAME, "--help", cwd=tmp_path).stdout
    assert "--scripted-wrapper" in named
    assert "What every job is started by. Default: env." in named
    assert "--scripted-wrapper" not in shockwave("serve", "--help", cwd=tmp_path).stdout
    unknown = shockwave("config", "--scripted-wrapper", "nice", cwd=tmp_path)
    assert unknown.returncode == 2
    assert "--scripted-wrapper" in unknown.stderr


def test_its_options_come_from_every_source(tmp_path: Path) -> None:
    file = tmp_path / "shockwave.toml"
    file.write_text(f'executor = "{NAME}"\n\n[scripted]\nwrapper = "nice"\n')
    effective = load_config(file, environment={})
    assert effective.config.site_options.given() == {"wrapper": "nice"}
    assert 'scripted_wrapper = "nice"' in effective.to_toml()
    nearer = load_config(file, environment={"SHOCKWAVE_SCRIPTED_WRAPPER": "ionice"})
    assert nearer.config.site_options.given() == {"wrapper": "ionice"}
    file.write_text(file.read_text().replace("nice", ""))
    with pytest.raises(InputError, match=r"line 4, scripted_wrapper: .*at least 1 character"):
        load_config(file, environment={})


def test_it_is_short() -> None:
    file = Path(__file__).with_name("scripted_executor.py")
    assert len(file.read_text().splitlines()) <= 150
    assert EXECUTORS.load(NAME).name == "scripted"
