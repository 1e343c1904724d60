"""The columns of ``shockwave queue``: those that are shown, and those that can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from shockwave.model.errors import InputError

Job = Mapping[str, Any]
# A heading for each name; what is in the cell is made by the function.
COLUMNS: dict[str, tuple[str, Callable[[Job], str]]] = {
    "id": ("id", lambda job: str(job["id"])),
    "name": ("name", lambda job: str(job["name"])),
    "owner": ("owner", lambda job: job["owner"] or "-"),
    "tenant": ("tenant", lambda job: str(job["tenant"])),
    "weight": ("weight", lambda job: f"{job['weight']:g}"),
    "group": ("group", lambda job: job["group"] or "-"),
    "state": ("state", lambda job: str(job["state"])),
    "gpus": ("GPUs", lambda job: str(job["gpus"])),
    "epochs": ("epochs", lambda job: f"{round(job['epochs_done'], 1):g}/{job['epochs']}"),
    "model": ("model", lambda job: job["model"] or "-"),
    "nodes": ("nodes", lambda job: ", ".join(job["nodes"]) or "-"),
    "starts": ("starts", lambda job: str(job["starts"])),
    "preemptions": ("preemptions", lambda job: str(job["preemptions"])),
    "crashes": ("crashes", lambda job: str(job["crashes"])),
    "ftf": ("FTF", lambda job: "-" if job["why"]["ftf"] is None else f"{job['why']['ftf']:.2f}"),
    "reason": ("reason", lambda job: str(job["why"]["reason"])),
}


def chosen_columns(text: str) -> list[str]:
    """The columns that a list names. Raises :class:`InputError` for one that there is not.

    >>> chosen_columns("id, owner")
    ['id', 'owner']
    """
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in COLUMNS:
            raise InputError(
                "there is no such column",
                place="--columns",
                value=name,
                hint=f"There are {', '.join(COLUMNS)}",
            )
    return names or ["id"]


def table_of(jobs: Sequence[Job], columns: Sequence[str]) -> Table:
    """One job a row, with these columns."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(COLUMNS[name][0], overflow="fold", no_wrap=name != "reason")
    for job in jobs:
        table.add_row(*(escape(COLUMNS[name][1](job)) for name in columns))
    return table
