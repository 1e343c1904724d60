"""``shockwave nodes`` and ``drain``: the machines."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from shockwave.cli.client import (
    DEFAULT_URL,
    Client,
    JsonOption,
    TokenOption,
    UrlOption,
    print_json,
)
from shockwave.cli.console import console, one_line_errors
from shockwave.cli.queue_columns import NO_TYPE
from shockwave.model.words import count_of


def nodes(
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the nodes and how many of their GPUs are busy."""
    with one_line_errors():
        found = Client(url, token).get("nodes")["items"]
        if as_json:
            print_json(found)
            return
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("node")
        table.add_column("state")
        table.add_column("GPUs", justify="right")
        table.add_column("busy", justify="right")
        types = any(node["gpu_type"] not in NO_TYPE for node in found)
        if types:
            table.add_column("type")
        shared = any(node["gpus_others"] for node in found)
        if shared:
            table.add_column("held by others", justify="right")
        reasons = any(node.get("reason") for node in found)
        if reasons:
            table.add_column("reason", overflow="fold")
        for node in found:
            row = [escape(node["id"]), node["state"], str(node["gpus"]), str(node["gpus_busy"])]
            row += [escape(node["gpu_type"])] if types else []
            row += [str(node["gpus_others"])] if shared else []
            table.add_row(*row, *([escape(node.get("reason", ""))] if reasons else []))
        console.print(table)


def drain(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Its id.", show_default=False)],
    resume: Annotated[bool, typer.Option("--resume", help="Put it back into service.")] = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a node out of service: its jobs move, nothing starts there again."""
    with one_line_errors():
        record = Client(url, token).post("nodes", node, "resume" if resume else "drain")
        if as_json:
            print_json(record)
            return
        doing = "goes back into service" if resume else "is being drained"
        console.print(
            f"{record['id']}: {doing}, {count_of(record['gpus_busy'], 'GPU')} busy", markup=False
        )
