"""``shockwave token``: for those who come over TCP."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from typing import Annotated

import typer

from shockwave.cli.console import note, one_line_errors
from shockwave.model.errors import InputError
from shockwave.server.places import default_state_dir
from shockwave.server.tokens import UserTokens, hash_token, new_token


def token(
    user: Annotated[
        str | None,
        typer.Option(help="The user that it belongs to. Without it, the operator's token."),
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            envvar="SHOCKWAVE_STATE_DIR",
            help="Of the scheduler that is to know it, with --user.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a token: a user's, which the scheduler knows at once, or the operator's.

    The operator's is printed with the hash of it that a settings file may hold.
    """
    with one_line_errors():
        fresh = new_token()
        if user is not None:
            file = _add(fresh, user, state_dir or default_state_dir())
            if as_json:
                typer.echo(json.dumps({"token": fresh, "user": user}))
                return
            typer.echo(f"SHOCKWAVE_TOKEN={fresh}")
            note(f"It is {user}'s, and shown only now. Take its line out of {file} to revoke it.")
            return
        if as_json:
            typer.echo(json.dumps({"token": fresh, "token_sha256": hash_token(fresh)}))
            return
        typer.echo(f"SHOCKWAVE_TOKEN={fresh}")
        typer.echo(f'token_sha256 = "{hash_token(fresh)}"')


def _add(fresh: str, user: str, state_dir: Path) -> Path:
    try:
        pwd.getpwnam(user)
    except KeyError:
        raise InputError("there is no such user here", place="--user", value=user) from None
    if not os.access(state_dir, os.W_OK | os.X_OK):
        raise InputError(
            "not a state directory that you may write in",
            source=str(state_dir),
            hint="Name that of the scheduler by --state-dir, as the user that it runs as",
        )
    tokens = UserTokens(state_dir)
    tokens.add(fresh, user)
    return tokens.path
