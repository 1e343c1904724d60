"""How the command line speaks: errors in one line, figures in units that people read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from shockwave.model.errors import InputError, ShockwaveError

# What comes with an extra, and with which.
_EXTRAS = {
    "fastapi": "server",
    "prometheus_client": "server",
    "sqlalchemy": "server",
    "uvicorn": "server",
    "psycopg": "postgres",
    "highspy": "milp",
    "ray": "ray",
}

HELP = {"help_option_names": ["-h", "--help"]}  # of every command
console = Console(highlight=False, width=None if sys.stdout.isatty() else 132)
errors = Console(stderr=True, highlight=False)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turns expected errors into one line and an exit code: 2 for bad input, else 1."""
    try:
        yield
    except InputError as error:
        fail(str(error), code=2)
    except ShockwaveError as error:
        fail(str(error), code=1)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        fail(f"this needs {error.name}. pip install 'shockwave-scheduler[{extra}]'", code=2)
    except KeyboardInterrupt:
        fail("interrupted", code=130)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fail(f"{where}{error.strerror or error}", code=2 if error.filename else 1)


def fail(message: str, code: int) -> None:
    errors.print(f"[bold red]error:[/] {_plain(message)}", soft_wrap=True)
    raise typer.Exit(code)


def note(message: str) -> None:
    errors.print(f"[dim]{_plain(message)}[/]", soft_wrap=True)


def progress_bar(unit: str = "jobs") -> Progress:
    """On standard error, so that results can be piped; silent where nobody watches."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def duration(seconds: float | None) -> str:
    """Seconds as people say them.

    >>> duration(31.25), duration(754), duration(20552), duration(400_000), duration(None)
    ('31.2 s', '12.6 min', '5.71 h', '4.63 d', '-')
    """
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.2g} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.2f} h" if seconds < 259_200 else f"{seconds / 86400:.2f} d"


def _plain(message: str) -> str:
    return message.replace("[", r"\[")
