"""``shockwave shell`` and ``attach``: a terminal on GPUs of one's own, for a limited time."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer

from shockwave.cli.client import DEFAULT_URL, Client, SchedulerRefused, TokenOption, UrlOption
from shockwave.cli.console import note, one_line_errors
from shockwave.cli.jobs import JobArgument
from shockwave.cli.late_flags import takes_late_flags
from shockwave.cli.queue import ACTIVE
from shockwave.cli.run import exit_code
from shockwave.cli.submit import command_given, documents, submit_one
from shockwave.cli.wait import until_over
from shockwave.model.errors import InputError
from shockwave.model.job import Preemptible

_LEAVE = b"\x1d"  # Ctrl-]
_CHUNK_BYTES = 1 << 16
_LOOK_SECONDS = 0.2


@takes_late_flags
def shell(
    context: typer.Context,
    detached: Annotated[
        bool, typer.Option("--detached", help="Start it, and attach later: shockwave attach JOB.")
    ] = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    **flags: Any,
) -> None:
    """Open a shell on GPUs. It is never preempted, and needs --time-limit.

    It goes on when you leave it with Ctrl-], and ends when you exit it, or with its time.

    shockwave shell --gpus 1 --time-limit 2h
    """
    with one_line_errors():
        if flags["time_limit"] is None:
            raise InputError("is needed for a shell, as in 2h", place="--time-limit")
        command = command_given(context) or [os.environ.get("SHELL") or "/bin/sh"]
        command_given(context, [sys.executable, "-m", "shockwave.train.shell", *command])
        flags |= {"preemptible": Preemptible.NEVER, "name": flags["name"] or "shell"}
        (document,) = documents(context, None, flags, "shell")
        document.fields.setdefault("epochs", 1)
        document.fields.setdefault("retries", 0)
        document.fields.setdefault("env", {}).setdefault("TERM", os.environ.get("TERM", "xterm"))
        client = Client(url, token)
        record = submit_one(client, document)
        note(f"{record['id']}: {record['why']['reason']}")
        if not detached:
            raise typer.Exit(_attach(client, record["id"]))


def attach(
    job: JobArgument,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
) -> None:
    """Go back to a shell that was started with shockwave shell."""
    with one_line_errors():
        client = Client(url, token)
        raise typer.Exit(_attach(client, client.get("jobs", job)["id"]))


def _attach(client: Client, job: str) -> int:
    """Until the shell is over, and then its exit code; 0 if the person left it."""
    with _connected(_address(client, job)) as connection:
        note("Leave with Ctrl-]; it goes on then.")
        left = _talk(connection)
    if left:
        note(f"\n{job} goes on. Back to it: shockwave attach {job}")
        return 0
    return exit_code(until_over(lambda: client.get("jobs", job)))


def _address(client: Client, job: str) -> str:
    """Waits for the shell to run and to say where it is."""
    while True:
        record = client.get("jobs", job)
        if record["state"] not in ACTIVE:
            raise SchedulerRefused(f"{job} is over: {record['why']['reason']}")
        address = record["links"].get("shell") if record["state"] == "running" else None
        if address is not None:
            return str(address).removeprefix("unix:")
        time.sleep(_LOOK_SECONDS)


@contextmanager
def _connected(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(address)
        except OSError as error:
            raise SchedulerRefused(
                f"the shell cannot be reached at {address} ({error.strerror}): it must run on "
                "this machine, and as the same user"
            ) from error
        yield connection


def _talk(connection: socket.socket) -> bool:
    """Copies between the terminal and the shell. Returns whether the person left."""
    from shockwave.train.shell import INPUT, RESIZE, SIZE, frame

    def resize(*_: object) -> None:
        columns, rows = shutil.get_terminal_size()
        _say(connection, frame(RESIZE, SIZE.pack(rows, columns)))

    source, sink = sys.stdin.fileno(), sys.stdout.fileno()
    resize()
    before = signal.signal(signal.SIGWINCH, resize)
    sources: list[Any] = [connection, source]
    try:
        with _raw(source):
            while True:
                ready, _, _ = select.select(sources, [], [])
                if connection in ready:
                    data = _received(connection)
                    if not data:
                        return False
                    os.write(sink, data)
                if source in ready:
                    typed = os.read(source, _CHUNK_BYTES)
                    if _LEAVE in typed:
                        return True
                    if typed:
                        _say(connection, frame(INPUT, typed))
                    else:
                        sources.remove(source)  # a script that has nothing more to say
    finally:
        signal.signal(signal.SIGWINCH, before)


def _say(connection: socket.socket, data: bytes) -> None:
    """To a shell that may be over: then what it said last is still to be read."""
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(data)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(_CHUNK_BYTES)
    except ConnectionResetError:
        return b""


@contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    """Every key goes to the shell, Ctrl-C too; where there is no terminal nothing changes."""
    if not os.isatty(descriptor):
        yield
        return
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
