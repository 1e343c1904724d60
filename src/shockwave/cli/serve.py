"""``shockwave serve``: the scheduler as a service."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shockwave.cli.console import console, note, one_line_errors
from shockwave.cli.late_flags import takes_late_flags
from shockwave.cli.settings_flags import ConfigFile
from shockwave.model.errors import InputError

if TYPE_CHECKING:
    from shockwave.server.people import People
    from shockwave.server.settings import ServeConfig


@takes_late_flags
def serve(
    config: ConfigFile = None,
    shadow: Annotated[
        str | None,
        typer.Option(
            metavar="slurm", help="Schedule nothing: watch, as shockwave shadow slurm does."
        ),
    ] = None,
    **flags: Any,
) -> None:
    """Run the scheduler on this machine, until Ctrl-C or SIGTERM."""
    with one_line_errors():
        if shadow is not None:
            _watch(shadow, config, flags)
            return
        # Imported here: the other commands need neither a database nor a web server.
        from shockwave.server.app import create_app
        from shockwave.server.config import load_config
        from shockwave.server.listener import Listener
        from shockwave.server.people import People
        from shockwave.server.service import Service
        from shockwave.server.whatifs import WhatIfs

        settings = load_config(config, flags=flags).config
        _log_to_stderr()
        people = People.of(settings)
        service = Service(settings)
        service.claim()
        with ExitStack() as stack:
            # Taken before anything starts, so that a place in use leaves nothing behind.
            listening = _listen(settings, people, stack)
            service.start()
            try:
                app = create_app(
                    service.desk,
                    people=people,
                    max_body_bytes=settings.max_body_bytes,
                    whatifs=WhatIfs.of(settings),
                )
                listener = Listener(app)
                _say_where(settings, people, listening)
                _expect_signals()
                listener.run(sockets=listening)
            finally:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                service.stop()
        note("Jobs were stopped." if settings.stop_jobs else "Running jobs were left running.")


def _watch(cluster: str, config: Path | None, flags: Mapping[str, Any]) -> None:
    """Until Ctrl-C, with those of the flags that mean something to whoever only watches."""
    from shockwave.cli.shadow import watch_and_report

    said = {name: value for name, value in flags.items() if value is not None}
    policy = said.pop("policy", None)
    folder = Path(said.pop("state_dir", "shadow"))
    round_seconds = _seconds("--round-seconds", said.pop("round_seconds", "60"))
    restart_seconds = _seconds("--restart-seconds", said.pop("restart_seconds", "20"))
    unused = [f"--{name.replace('_', '-')}" for name in said] + (["--config"] if config else [])
    if unused:
        raise InputError(
            "is of no use with --shadow, which runs no jobs",
            place=unused[0],
            hint=f"See shockwave shadow {cluster} --help",
        )
    watch_and_report(cluster, folder, policy and [policy], None, round_seconds, restart_seconds)


def _seconds(place: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError("expected seconds", place=place, value=text) from None


def _log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def _listen(settings: ServeConfig, people: People, stack: ExitStack) -> list[socket.socket]:
    from shockwave.server.listener import tcp_socket, unix_socket

    open_to_all = people.as_owner or bool(settings.allow_users)
    door = unix_socket(settings.socket_path, open_to_all=open_to_all)
    listening = [stack.enter_context(door)]
    if settings.port is not None:
        if not people.has_tokens:
            raise InputError(
                "over TCP a token says who you are, and there is none yet",
                place="--port",
                value=settings.port,
                hint="Make one: shockwave token --user NAME, or set SHOCKWAVE_TOKEN; "
                "without --port only the Unix socket is open until somebody says shockwave open",
            )
        listening.append(stack.enter_context(tcp_socket(settings.host, settings.port)))
    return listening


def _say_where(settings: ServeConfig, people: People, listening: list[socket.socket]) -> None:
    from shockwave.server.listener import url_of

    places = [f"unix:{settings.socket_path}", *map(url_of, listening[1:])]
    whom = "their owners" if people.as_owner else people.server_user
    console.print(
        f"Shockwave listens on {' and '.join(places)}, state in {settings.state_dir}, "
        f"jobs run as {whom}",
        soft_wrap=True,
        markup=False,
    )


def _expect_signals() -> None:
    """The web server ends on these and raises them again; then we still have to clean up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
