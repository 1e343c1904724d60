"""``shockwave serve``: the scheduler as a service."""

from __future__ import annotations

import logging
import signal
import socket
from typing import Any

from shockwave.cli.console import console, note, one_line_errors
from shockwave.cli.late_flags import takes_late_flags
from shockwave.cli.settings_flags import ConfigFile
from shockwave.model.errors import InputError


@takes_late_flags
def serve(config: ConfigFile = None, **flags: Any) -> None:
    """Run the scheduler on this machine, until Ctrl-C or SIGTERM."""
    with one_line_errors():
        # Imported here: the other commands need neither a database nor a web server.
        from shockwave.server.app import create_app
        from shockwave.server.config import load_config
        from shockwave.server.listener import Listener
        from shockwave.server.service import Service

        settings = load_config(config, flags=flags).config
        _log_to_stderr()
        service = Service(settings)
        service.claim()
        with _listening_socket(settings.host, settings.port) as listening:
            service.start()
            try:
                app = create_app(
                    service.desk,
                    token_hash=settings.token_hash,
                    max_body_bytes=settings.max_body_bytes,
                )
                listener = Listener(app, host=settings.host, port=settings.port)
                console.print(
                    f"Shockwave listens on {_url(settings.host, listening)}, "
                    f"state in {settings.state_dir}",
                    soft_wrap=True,
                )
                _expect_signals()
                listener.run(sockets=[listening])
            finally:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                service.stop()
        note("Jobs were stopped." if settings.stop_jobs else "Running jobs were left running.")


def _log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def _listening_socket(host: str, port: int) -> socket.socket:
    """Taken before anything starts, so that a port in use leaves nothing behind."""
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(1024)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        raise InputError(
            f"cannot listen there: {error.strerror or error}",
            place=f"{host}:{port}",
            hint="Choose another --port, or end the program that has it",
        ) from error
    return listening


def _url(host: str, listening: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


def _expect_signals() -> None:
    """The web server ends on these and raises them again; then we still have to clean up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
