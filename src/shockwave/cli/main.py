"""The command line: ``shockwave COMMAND``."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from shockwave.cli.console import HELP
from shockwave.cli.late_commands import Late, LateGroup
from shockwave.version import __version__

_SETTINGS, _LIKE_SUBMIT = "settings_flags.SettingsCommand", "submit.LikeSubmitCommand"


class Commands(LateGroup):
    """All commands, in the order of the list that people see."""

    late: ClassVar[dict[str, Late]] = {
        "simulate": Late("simulate", "simulate"),
        "predict": Late("predict", "predict"),
        "trace": Late("trace", "trace"),
        "reproduce": Late("reproduce", "reproduce"),
        "leaderboard": Late("leaderboard", "leaderboard"),
        "serve": Late("serve", "serve", _SETTINGS),
        "submit": Late("submit", "submit", "submit.JobCommand"),
        "sweep": Late("sweep", "sweep", _LIKE_SUBMIT),
        "run": Late("run", "run", _LIKE_SUBMIT),
        "shell": Late("shell", "shell", _LIKE_SUBMIT),
        "attach": Late("shell", "attach"),
        "queue": Late("queue", "queue"),
        "status": Late("jobs", "status"),
        "why": Late("jobs", "why"),
        "logs": Late("jobs", "logs"),
        "metrics": Late("metrics", "metrics"),
        "wait": Late("wait", "wait"),
        "what-if": Late("what_if", "what_if", _LIKE_SUBMIT),
        "set": Late("change", "set_"),
        "cancel": Late("change", "cancel"),
        "hold": Late("change", "hold"),
        "release": Late("change", "release"),
        "requeue": Late("change", "requeue"),
        "nodes": Late("nodes", "nodes"),
        "drain": Late("nodes", "drain"),
        "tenants": Late("tenants", "tenants"),
        "open": Late("open", "open_"),
        "replay": Late("replay", "replay"),
        "report": Late("report", "report"),
        "shadow": Late("shadow", "shadow"),
        "check": Late("check", "check"),
        "config": Late("config", "config", _SETTINGS),
        "token": Late("token", "token"),
    }


app = typer.Typer(
    name="shockwave",
    cls=Commands,
    help="Schedule training jobs that adapt while they run: plan ahead, share fairly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shockwave {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Version.")
    ] = False,
) -> None:
    """Options that come before the command."""


def main() -> None:
    app(prog_name="shockwave")


if __name__ == "__main__":
    main()
