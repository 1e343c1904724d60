"""``shockwave open``: the dashboard in a browser, signed in as oneself."""

from __future__ import annotations

import os
import socket
import sys
import webbrowser
from typing import Annotated
from urllib.parse import urlsplit

import typer

from shockwave.cli.client import (
    DEFAULT_URL,
    Client,
    JsonOption,
    TokenOption,
    UrlOption,
    print_json,
)
from shockwave.cli.console import note, one_line_errors


def open_(
    browser: Annotated[bool, typer.Option(help="Open it in a browser, where there is one.")] = True,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a link to the dashboard that signs you in, once, within two minutes."""
    with one_line_errors():
        client = Client(url, token)
        link = client.post("links")
        if client.url.startswith("http"):  # as we reach it, and not as it calls itself
            link["url"] = client.url.rstrip("/") + link["url"][link["url"].index("/#") :]
        if as_json:
            print_json(link)
            return
        typer.echo(link["url"])
        note(f"It works once, for {link['seconds']:.0f} seconds.")
        if browser and _has_screen():
            webbrowser.open(link["url"])
        elif "SSH_CONNECTION" in os.environ:
            port = urlsplit(link["url"]).port
            note(f"From your own machine: ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}")


def _has_screen() -> bool:
    if not sys.stdout.isatty() or "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
