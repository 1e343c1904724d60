"""The command line as a whole: what it lists, and that it loads no more than it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from shockwave.cli.main import Commands, app


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shockwave.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def loaded_by(*words: str) -> set[str]:
    """The modules that a command imports before it does anything."""
    script = (
        f"import sys, atexit; sys.argv = ['shockwave', *{words!r}]\n"
        "atexit.register(lambda: print('\\n', *sys.modules))\n"
        "from shockwave.cli.main import main; main()"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    return set(told.stdout.splitlines()[-1].split())


def test_a_command_that_speaks_to_a_scheduler_does_not_wait_for_a_simulator() -> None:
    modules = loaded_by("queue", "--help")
    assert "shockwave.cli.queue" in modules
    assert not {"numpy", "shockwave.cli.simulate", "shockwave.policies.base"} & modules


def test_the_list_of_commands_imports_none_of_them() -> None:
    commands = {f"shockwave.cli.{late.module}" for late in Commands.late.values()}
    assert not {"numpy", *commands} & loaded_by("--help")


@pytest.mark.parametrize("name", Commands.late)
def test_the_list_says_of_a_command_what_its_own_help_says(name: str) -> None:
    late = Commands.late[name]
    command = late.load(name)
    assert command.help
    assert (command.name, command.help) == (name, late.outline(name).help)


def test_who_mistypes_a_command_is_told_what_there_is() -> None:
    result = CliRunner().invoke(app, ["quue"])
    assert result.exit_code == 2
    assert "Did you mean 'queue'" in result.output


@pytest.mark.parametrize("words", [[], ["queue"], ["simulate"], ["trace", "generate"], ["serve"]])
def test_the_short_flag_for_help_works_everywhere(words: list[str]) -> None:
    assert "Usage: shockwave" in run(*words, "-h").stdout


def test_shells_can_complete() -> None:
    group = typer.main.get_command(app)
    assert {"--install-completion", "--show-completion"} <= {
        flag for parameter in group.params for flag in parameter.opts
    }


def test_shells_complete_commands_and_their_flags() -> None:
    def completed(words: str) -> str:
        environment = {"_SHOCKWAVE_COMPLETE": "complete_bash", "COMP_WORDS": words}
        environment["COMP_CWORD"] = str(len(words.split(" ")) - 1)
        return CliRunner().invoke(app, [], env=environment, prog_name="shockwave").output

    assert "simulate" in completed("shockwave sim")
    assert "--restart" in completed("shockwave simulate --rest")
