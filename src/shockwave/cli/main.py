"""The command line: ``shockwave COMMAND``."""

from __future__ import annotations

from typing import Annotated

import typer

from shockwave.cli import live, reproduce, trace
from shockwave.cli.check import check
from shockwave.cli.config import config
from shockwave.cli.console import HELP
from shockwave.cli.leaderboard import leaderboard
from shockwave.cli.predict import predict
from shockwave.cli.replay import replay
from shockwave.cli.report import report
from shockwave.cli.serve import serve
from shockwave.cli.settings_flags import SettingsCommand
from shockwave.cli.shadow import shadow
from shockwave.cli.simulate import simulate
from shockwave.cli.token import token
from shockwave.version import __version__

app = typer.Typer(
    name="shockwave",
    help="Schedule training jobs that adapt while they run: plan ahead, share fairly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP,
)
app.command()(simulate)
app.command()(predict)
app.add_typer(trace.app, name="trace")
app.add_typer(reproduce.app, name="reproduce")
app.command()(leaderboard)
app.command(cls=SettingsCommand)(serve)
live.register(app)
app.command()(replay)
app.command()(report)
app.command()(shadow)
app.command()(check)
app.command(cls=SettingsCommand)(config)
app.command()(token)


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
    app()


if __name__ == "__main__":
    main()
