"""``shockwave tenants``: what tenants were promised, have and had; operators change it."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from shockwave.cli.client import DEFAULT_URL, Client, JsonOption, TokenOption, UrlOption, print_json
from shockwave.cli.console import console, one_line_errors
from shockwave.model.errors import InputError


def tenants(
    tenant: Annotated[
        str | None, typer.Argument(metavar="[TENANT]", help="To change.", show_default=False)
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FIELD=VALUE]...", help="For instance weight=2 most=16."),
    ] = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show tenants, or change what one was promised (operators).

    Fields: weight, guaranteed, most (none for no limit), carry_over_hours, half_life_hours,
    by_person.
    """
    with one_line_errors():
        client = Client(url, token)
        found = (
            client.get("tenants")
            if tenant is None
            else client.patch("tenants", tenant, body=_fields(changes or []))
        )["items"]
        if as_json:
            print_json(found)
            return
        console.print(_table(found))


def _fields(changes: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for text in changes:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InputError("expected FIELD=VALUE", place="tenants", value=text)
        fields[name.replace("-", "_")] = None if value == "none" else value
    if not fields:
        raise InputError("nothing to change", place="tenants", hint="Say FIELD=VALUE")
    return fields


def _table(found: list[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    headings = ("tenant", "weight", "guaranteed", "most", "due", "busy", "waiting", "GPU hours",
                "carried over")  # fmt: skip
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "tenant" else "right")
    for one in found:
        due, carried = one["due_gpus"], one["carry_over_gpu_hours"]
        table.add_row(
            escape(one["tenant"]),
            f"{one['weight']:g}",
            str(one["guaranteed"]),
            "-" if one["most"] is None else str(one["most"]),
            "-" if due is None else f"{due:.1f}",
            str(one["gpus_busy"]),
            str(one["waiting"]),
            f"{one['gpu_seconds'] / 3600:,.1f}",
            "-" if carried is None else f"{carried:,.1f} h",
        )
    return table
