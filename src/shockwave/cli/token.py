"""``shockwave token``: a token for a scheduler that others can reach."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from shockwave.server.tokens import hash_token, new_token


def token(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a token, and the hash of it that a settings file may hold."""
    fresh = new_token()
    if as_json:
        typer.echo(json.dumps({"token": fresh, "token_sha256": hash_token(fresh)}))
        return
    typer.echo(f"SHOCKWAVE_TOKEN={fresh}")
    typer.echo(f'token_sha256 = "{hash_token(fresh)}"')
