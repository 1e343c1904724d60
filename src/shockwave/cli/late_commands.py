"""Commands that are imported when they are used.

Whoever types ``shockwave queue`` waits for the scheduler's answer, not for a simulator to load.
The list of all commands needs none of them either: what it says of each is the docstring of its
function, read from the source.
"""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

_PACKAGE = "shockwave.cli"


@dataclass(frozen=True)
class Late:
    """Where a command is: a function of a module, or the function of a group of commands.

    A group is the ``app`` of its module. ``cls`` is the class of a command with flags of its own
    kind, as ``module.Class``.
    """

    module: str
    function: str
    cls: str = ""

    def load(self, name: str) -> Any:
        """The command itself."""
        module = import_module(f"{_PACKAGE}.{self.module}")
        app: typer.Typer | None = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(add_completion=False)
            app.command(name, cls=self._class())(getattr(module, self.function))
        command = typer.main.get_command(app)
        command.name = name
        return command

    def outline(self, name: str) -> TyperCommand:
        """Its name and what it is for: all that a list of commands shows."""
        return TyperCommand(name, help=self._docstring())

    def _class(self) -> type[TyperCommand] | None:
        if not self.cls:
            return None
        module, _, name = self.cls.partition(".")
        found: type[TyperCommand] = getattr(import_module(f"{_PACKAGE}.{module}"), name)
        return found

    def _docstring(self) -> str:
        spec = find_spec(f"{_PACKAGE}.{self.module}")
        assert spec is not None
        assert spec.origin is not None
        for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name == self.function:
                return inspect.cleandoc(ast.get_docstring(node) or "")
        raise LookupError(f"{self.module} has no function {self.function}")


class LateGroup(TyperGroup):
    """A group whose commands are ``late``: outlines until one of them is called."""

    late: ClassVar[dict[str, Late]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        for name, late in self.late.items():
            if name not in self.commands:
                self.commands[name] = late.outline(name)
        return list(self.late)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in self.late:
            self.commands[args[0]] = self.late[args[0]].load(args[0])
        else:
            self.list_commands(ctx)  # to suggest those that are nearly what was typed
        return super().resolve_command(ctx, args)
