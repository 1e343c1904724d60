"""``shockwave config``: which settings are in force, and where each came from."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shockwave.cli.console import one_line_errors
from shockwave.cli.late_flags import takes_late_flags
from shockwave.cli.settings_flags import ConfigFile


@takes_late_flags
def config(
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print what every setting means instead.")
    ] = False,
    **flags: Any,
) -> None:
    """Print the settings that ``serve`` would use with the same flags, as TOML."""
    with one_line_errors():
        from shockwave.server.config import load_config
        from shockwave.server.settings_page import settings_page

        if markdown:
            typer.echo(settings_page(), nl=False)
            return
        effective = load_config(config, flags=flags)
        if as_json:
            typer.echo(effective.to_json())
        else:
            typer.echo(effective.to_toml(), nl=False)
