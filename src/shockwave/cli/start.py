"""Where ``shockwave`` begins: only what the command needs is imported.

Whoever types ``shockwave queue`` waits for the scheduler's answer, not for a simulator to load.
"""

from __future__ import annotations

import sys

import typer

from shockwave.cli import live


def app_of(command: str | None) -> typer.Typer:
    """The commands that speak to a running scheduler, if it is one of them; else all."""
    if command in {found.name or _name(found.callback) for found in live.app.registered_commands}:
        return live.app
    from shockwave.cli.main import app

    return app


def _name(callback: object) -> str:
    return str(getattr(callback, "__name__", "")).replace("_", "-")


def main() -> None:
    app_of(sys.argv[1] if len(sys.argv) > 1 else None)(prog_name="shockwave")


if __name__ == "__main__":
    main()
