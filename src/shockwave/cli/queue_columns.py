"""The columns of ``shockwave queue``: those that are shown, and those that can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from shockwave.model.errors import InputError

Job = Mapping[str, Any]
NO_TYPE = ("", "gpu")  # where nobody has told types apart


def gpus(job: Job) -> str:
    """What it holds, or the numbers that would do.

    >>> gpus({"gpus": 2, "gpu_counts": [1, 2, 4], "gpus_held": 4, "gpu_type": "A100"})
    '4 A100'
    >>> gpus({"gpus": 1, "gpu_counts": [1, 2, 4], "gpus_held": 0, "gpu_type": ""})
    '1-4'
    """
    if job["gpus_held"]:
        return f"{job['gpus_held']} {'' if job['gpu_type'] in NO_TYPE else job['gpu_type']}".strip()
    counts = job["gpu_counts"] or [job["gpus"]]
    return f"{counts[0]}-{counts[-1]}" if len(counts) > 1 else str(counts[0])


# A heading for each name; what is in the cell is made by the function.
COLUMNS: dict[str, tuple[str, Callable[[Job], str]]] = {
    "id": ("id", lambda job: str(job["id"])),
    "name": ("name", lambda job: str(job["name"])),
    "owner": ("owner", lambda job: job["owner"] or "-"),
    "tenant": ("tenant", lambda job: str(job["tenant"])),
    "weight": ("weight", lambda job: f"{job['weight']:g}"),
    "group": ("group", lambda job: job["group"] or "-"),
    "state": ("state", lambda job: str(job["state"])),
    "gpus": ("GPUs", lambda job: gpus(job)),
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
