"""The flags of ``serve`` and ``config``: one for every setting."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shockwave.cli.late_flags import LateFlagsCommand, flag

if TYPE_CHECKING:
    from shockwave.server.settings_catalogue import Setting

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file with settings. Default: ./shockwave.toml, if any."),
]
_METAVARS = {int: "INTEGER", float: "NUMBER", Path: "PATH"}


class SettingsCommand(LateFlagsCommand):
    """Has the settings of all built-in executors, and those of the one that is named."""

    def late_flags(self, args: list[str]) -> list[inspect.Parameter]:
        from shockwave.server.settings_catalogue import known_settings

        settings = known_settings(_named_executor(args)).values()
        return [_flag(item) for item in settings if not (item.is_secret or item.is_table)]


def _named_executor(args: list[str]) -> str | None:
    for position, argument in enumerate(args):
        if argument == "--executor":
            return args[position + 1] if position + 1 < len(args) else None
        if argument.startswith("--executor="):
            return argument.partition("=")[2]
    return os.environ.get("SHOCKWAVE_EXECUTOR") or None


def _flag(setting: Setting) -> inspect.Parameter:
    """Values are text, so that the settings say what is wrong with them, as everywhere else."""
    default = f" Default: {setting.default}." if setting.default else ""
    option = typer.Option(
        *setting.flags,
        help=setting.description + default,
        metavar=None if setting.kind is bool else _METAVARS.get(setting.kind, "TEXT"),
        rich_help_panel=setting.panel,
        show_default=False,
    )
    return flag(setting.name, bool | None if setting.kind is bool else str | None, option)
