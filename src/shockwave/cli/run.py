"""``shockwave run``: submit a job, follow what it writes, and exit as it does."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from shockwave.cli.client import DEFAULT_URL, Client, TokenOption, UrlOption
from shockwave.cli.console import errors, note, one_line_errors
from shockwave.cli.late_flags import takes_late_flags
from shockwave.cli.submit import documents, submit_one
from shockwave.cli.wait import until_over
from shockwave.model.errors import InputError, ShockwaveError
from shockwave.model.job import Preemptible

_INTERRUPTED = 130
_GLANCE_SECONDS = 0.1
_ANSWERS = {"c": "cancel", "d": "detach", "g": "go on"}


@takes_late_flags
def run(
    context: typer.Context,
    job_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[job.yaml|-] [-- COMMAND ...]",
            help="A job file, or the command after --.",
            show_default=False,
        ),
    ] = None,
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive", help="As for a notebook: never preempted, needs --time-limit."
        ),
    ] = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    **flags: Any,
) -> None:
    """Submit a job, print what it writes, and exit with its exit code.

    Ctrl-C asks whether to cancel the job, to leave it alone, or to go on.

    shockwave run --gpus 1 -- python train.py

    shockwave run --interactive --time-limit 2h -- jupyter lab --no-browser
    """
    with one_line_errors():
        if interactive:
            flags["preemptible"] = Preemptible.NEVER
            if flags["time_limit"] is None:
                raise InputError("is needed with --interactive, as in 2h", place="--time-limit")
        found = documents(context, job_file, flags, "run")
        if len(found) > 1 or found[0].matrix is not None:
            raise InputError("expected one job", source=found[0].source, hint="Use submit")
        found[0].fields.setdefault("epochs", 1)
        found[0].fields.setdefault("retries", 0)
        client = Client(url, token)
        record = submit_one(client, found[0])
        note(f"{record['id']}: {record['why']['reason']}")
        raise typer.Exit(follow(client, record["id"]))


def follow(client: Client, job: str) -> int:
    """Prints what a job writes until it is over; the exit code of the job, or of the person."""
    output = _Output(client, job)
    output.start()
    pressed = threading.Event()
    with _on_interrupt(lambda *_: pressed.set()):
        while not output.over.wait(_GLANCE_SECONDS):
            if not pressed.is_set():
                continue
            pressed.clear()
            answer = output.while_silent(_ask)
            if answer == "cancel":
                client.delete("jobs", job)
                note(f"{job}: will be cancelled")
                return _INTERRUPTED
            if answer == "detach":
                note(f"{job} goes on. What it writes: shockwave logs -f {job}")
                return 0
            note("Going on.")
    if output.problem is not None:
        raise output.problem
    return exit_code(until_over(lambda: client.get("jobs", job)))


class _Output(threading.Thread):
    """Copies the log of a job to standard output; can be silent for a while."""

    def __init__(self, client: Client, job: str) -> None:
        super().__init__(daemon=True)
        self._chunks = client.stream("jobs", job, "logs", follow="true")
        self._speaking = threading.Lock()
        self.problem: ShockwaveError | None = None
        self.over = threading.Event()

    def run(self) -> None:
        try:
            for chunk in self._chunks:
                with self._speaking:
                    sys.stdout.buffer.write(chunk)
                    sys.stdout.buffer.flush()
        except ShockwaveError as error:
            self.problem = error
        except BrokenPipeError:  # the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        finally:
            self.over.set()

    def while_silent(self, act: Any) -> Any:
        with self._speaking:
            return act()


def _ask() -> str:
    """What a person wants who pressed Ctrl-C; without a terminal nobody can be asked."""
    if not sys.stdin.isatty():
        return "detach"
    errors.print()
    answer = None
    while answer is None:
        try:
            with _on_interrupt(signal.default_int_handler):
                typed = errors.input("[bold]c[/]ancel it, [bold]d[/]etach, or [bold]g[/]o on? ")
        except (KeyboardInterrupt, EOFError):
            return "detach"
        answer = _ANSWERS.get(typed.strip().lower()[:1])
    return answer


@contextmanager
def _on_interrupt(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """What Ctrl-C does meanwhile; elsewhere than in the main thread nothing can be set."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def exit_code(record: Any) -> int:
    """0, the job's own, or 128 and the signal, as a shell has it; 1 where nobody knows.

    >>> exit_code({"id": "j", "state": "finished", "why": {}, "exit_code": 0})
    0
    """
    if record["state"] == "finished":
        return 0
    note(f"{record['id']}: {record['why']['reason']}")
    code = record["exit_code"]
    if not code:
        return 1
    return int(code) if code > 0 else 128 - int(code)
