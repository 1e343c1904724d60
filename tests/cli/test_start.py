"""Where the command line begins."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from shockwave.cli import live
from shockwave.cli.main import app
from shockwave.cli.start import app_of


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shockwave.cli.start", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_command_that_speaks_to_a_scheduler_does_not_wait_for_a_simulator() -> None:
    loaded = (
        "import sys; from shockwave.cli.start import app_of; app_of('queue'); print(*sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
    )
    modules = told.stdout.split()
    assert "shockwave.cli.queue" in modules
    assert not {"numpy", "shockwave.cli.simulate", "shockwave.policies.base"} & set(modules)


def test_every_command_is_found() -> None:
    assert app_of("submit") is live.app
    for word in ("simulate", "serve", "trace", "--version", "no-such", None):
        assert app_of(word) is app


@pytest.mark.parametrize("words", [[], ["queue"], ["simulate"], ["trace", "generate"], ["serve"]])
def test_the_short_flag_for_help_works_everywhere(words: list[str]) -> None:
    assert "Usage: shockwave" in run(*words, "-h").stdout


def test_shells_can_complete() -> None:
    group = typer.main.get_command(app)
    assert {"--install-completion", "--show-completion"} <= {
        flag for parameter in group.params for flag in parameter.opts
    }
