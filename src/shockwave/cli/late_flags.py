"""Commands with flags that are made when the command is used.

They are made late for two reasons: other commands need not import what the flags are made from,
and what an executor of another package brings is known only where it is named.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from shockwave.cli.console import one_line_errors

Command = TypeVar("Command", bound=Callable[..., None])


def takes_late_flags(command: Command) -> Command:
    """For a function that takes them as ``**keywords``, and is added with ``cls=`` its command."""
    signature = inspect.signature(command, eval_str=True)
    fixed = [item for item in signature.parameters.values() if item.kind is not item.VAR_KEYWORD]
    command.__signature__ = signature.replace(parameters=fixed)  # type: ignore[attr-defined]
    return command


def flag(name: str, kind: Any, option: Any) -> inspect.Parameter:
    """A flag that is passed to the command as the keyword ``name``, None where it is not given."""
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
    )


class LateFlagsCommand(TyperCommand):
    """A command that has the flags of its function, and those that :meth:`late_flags` makes."""

    @abstractmethod
    def late_flags(self, args: list[str]) -> list[inspect.Parameter]:
        """The flags, given the arguments of the command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with one_line_errors():
            flags = self.late_flags(args)
        made = _with_flags(inspect.unwrap(self.callback), flags)  # type: ignore[arg-type]
        self.params, self.callback = made.params, made.callback
        return super().parse_args(ctx, args)


def _with_flags(command: Callable[..., None], flags: list[inspect.Parameter]) -> Any:
    """The command, as typer makes it of a function that has all flags as parameters."""

    @wraps(command)
    def whole(*args: Any, **given: Any) -> None:
        command(*args, **given)

    signature = inspect.signature(command)
    parameters = [*signature.parameters.values(), *flags]
    whole.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False)
    app.command()(whole)
    return typer.main.get_command(app)
