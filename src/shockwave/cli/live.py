"""The commands that speak to a running scheduler."""

from __future__ import annotations

import typer

from shockwave.cli.console import HELP
from shockwave.cli.jobs import cancel, logs, status, why
from shockwave.cli.nodes import drain, nodes
from shockwave.cli.queue import queue
from shockwave.cli.submit import SubmitCommand, submit

app = typer.Typer(pretty_exceptions_enable=False, context_settings=HELP)  # these alone


def register(app: typer.Typer) -> None:
    """Adds them to the command line."""
    app.command(cls=SubmitCommand)(submit)
    for command in (queue, status, why, logs, cancel, nodes, drain):
        app.command()(command)


register(app)
