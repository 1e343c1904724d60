"""``shockwave tenants``: what tenants were promised, have and had; operators change it."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from shockwave.cli.client import DEFAULT_URL, Client, JsonOption, TokenOption, UrlOption, print_json
from shockwave.cli.console import console, one_line_errors
from shockwave.model.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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
    by_person; for one type of GPU, as in A100.most=4, weight, guaranteed and most.
    """
    with one_line_errors():
        if tenant is not None and not _NAME.fullmatch(tenant):
            raise InputError("is no name of a tenant", place="TENANT", value=tenant)
        client = Client(url, token)
        found = (
            client.get("tenants")
            if tenant is None
            else client.patch("tenants", tenant, body=tenant_fields(changes or []))
        )["items"]
        if as_json:
            print_json(found)
            return
        console.print(_table(found))


def tenant_fields(changes: list[str]) -> dict[str, Any]:
    """What is promised to a tenant, from words such as ``most=16``."""
    fields: dict[str, Any] = {}
    for text in changes:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InputError("expected FIELD=VALUE", place="tenants", value=text)
        kind, _, of_type = name.rpartition(".")
        into = fields.setdefault("types", {}).setdefault(kind, {}) if kind else fields
        into[of_type.replace("-", "_")] = None if value == "none" else value
    if not fields:
        raise InputError(
            "nothing to change", place="tenants", hint="Say FIELD=VALUE, such as weight=2 most=16"
        )
    return fields


def _table(found: list[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    headings = ("tenant", "weight", "guaranteed", "most", "due", "busy", "waiting", "GPU hours",
                "carried over")  # fmt: skip
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "tenant" else "right")
    for one in found:
        table.add_row(
            escape(one["tenant"]),
            *_promise(one),
            str(one["waiting"]),
            f"{one['gpu_seconds'] / 3600:,.1f}",
            _hours(one["carry_over_gpu_hours"]),
        )
        for kind in one["types"]:
            carried = _hours(kind["carry_over_gpu_hours"])
            table.add_row(f"  {escape(kind['gpu_type'])}", *_promise(kind), "", "", carried)
    return table


def _promise(one: dict[str, Any]) -> tuple[str, ...]:
    """Of a tenant, or of it and one type of GPU: weight, guaranteed, most, due and busy."""
    weight, most, due = one["weight"], one["most"], one["due_gpus"]
    return (
        "" if weight is None else f"{weight:g}",
        str(one["guaranteed"]),
        "-" if most is None else str(most),
        "-" if due is None else f"{due:.1f}",
        str(one["gpus_busy"]),
    )


def _hours(gpu_hours: float | None) -> str:
    return "-" if gpu_hours is None else f"{gpu_hours:,.1f} h"
