"""The commands that speak to a running scheduler."""

from __future__ import annotations

import typer

from shockwave.cli.change import cancel, hold, release, requeue, set_
from shockwave.cli.console import HELP
from shockwave.cli.jobs import logs, status, why
from shockwave.cli.metrics import metrics
from shockwave.cli.nodes import drain, nodes
from shockwave.cli.open import open_
from shockwave.cli.queue import queue
from shockwave.cli.run import run
from shockwave.cli.shell import attach, shell
from shockwave.cli.submit import JobCommand, LikeSubmitCommand, submit
from shockwave.cli.sweep import sweep
from shockwave.cli.tenants import tenants
from shockwave.cli.wait import wait
from shockwave.cli.what_if import what_if

app = typer.Typer(pretty_exceptions_enable=False, context_settings=HELP)  # these alone


def register(app: typer.Typer) -> None:
    """Adds them to the command line."""
    app.command(cls=JobCommand)(submit)
    app.command(cls=LikeSubmitCommand)(sweep)
    app.command(cls=LikeSubmitCommand)(run)
    app.command(cls=LikeSubmitCommand)(shell)
    app.command("what-if", cls=LikeSubmitCommand)(what_if)
    app.command("set")(set_)
    app.command("open")(open_)
    looks = (queue, status, why, logs, metrics, wait, attach, nodes, tenants)
    for command in (*looks, cancel, hold, release, requeue, drain):
        app.command()(command)


register(app)
