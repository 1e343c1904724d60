"""``shockwave queue``: the jobs, how far they are, and when they are expected to finish."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer
from rich.live import Live
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
from shockwave.cli.console import console, duration, note, one_line_errors
from shockwave.cli.queue_columns import chosen_columns, gpus, table_of
from shockwave.model.errors import InputError
from shockwave.model.words import count_of

SHOWN = 100
_LONGEST_NAME = 25
ACTIVE = ("waiting", "running")
_STYLES = {
    "running": "green", "starting": "yellow", "suspended": "yellow", "failed": "red",
    "finished": "dim", "cancelled": "dim",
}  # fmt: skip


def queue(
    state: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these states. Repeat. Default: waiting, running.", show_default=False
        ),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    group: Annotated[str | None, typer.Option(help="Only the jobs of this group.")] = None,
    expand: Annotated[
        bool, typer.Option("--expand", help="Every job of a group, not one line for all.")
    ] = False,
    mine: Annotated[bool, typer.Option("--mine", help="Only your own jobs.")] = False,
    columns: Annotated[
        str | None,
        typer.Option(help="Which, as in id,owner,tenant,state,gpus.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Jobs that are over too.")] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help=f"At most so many. Default: {SHOWN}, JSON all.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again and again.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between, with --watch.")] = 2.0,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the jobs: state, progress, fairness, why, and when they will start and finish."""
    with one_line_errors():
        if watch and as_json:
            raise InputError("cannot be combined with --json", place="--watch")
        client = Client(url, token)
        states = state or (None if everything else list(ACTIVE))
        folded = group is None and tenant is None and not (expand or state or everything)
        folded = folded and not mine and columns is None
        chosen = None if columns is None else chosen_columns(columns)

        def jobs(most: int | None) -> list[Any]:
            of = "" if folded else group
            own = "true" if mine else None
            return list(
                client.pages("jobs", limit=most, state=states, tenant=tenant, group=of, mine=own)
            )

        def groups() -> list[Any]:
            if group is not None:
                return [client.get("groups", group)]
            return client.get("groups")["items"] if folded else []

        def table(found: list[Any], swept: list[Any]) -> Table:
            if chosen is not None:
                return table_of(found, chosen)
            return queue_table(found, time.time(), swept)

        if as_json:
            folded = False  # a program gets every job
            print_json(jobs(limit))
            return
        shown = limit or SHOWN
        if watch:
            _watch(lambda: table(jobs(shown), groups()), every)
            return
        found, swept = jobs(shown + 1), groups()
        if not found and not swept:
            note("No jobs. Submit one: shockwave submit --epochs 3 -- python train.py")
            return
        console.print(table(found[:shown], swept))
        if len(found) > shown:
            note(f"There are more: --limit {10 * shown}")


def _watch(table: Any, every_seconds: float) -> None:
    if not console.is_terminal:  # for a file or a program: one plain table after the other
        with suppress(KeyboardInterrupt, BrokenPipeError):
            while True:
                console.print(table())
                console.print()
                sys.stdout.flush()
                time.sleep(every_seconds)
        return
    with suppress(KeyboardInterrupt), Live(table(), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(every_seconds)
            live.update(table(), refresh=True)


def queue_table(
    jobs: Sequence[Mapping[str, Any]], now_unix: float, groups: Sequence[Mapping[str, Any]] = ()
) -> Table:
    """Jobs as ``GET /jobs`` gives them, one a row, and groups; times from ``now_unix`` on."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading, right in (
        ("id", False), ("name", False), ("state", False), ("GPUs", True), ("progress", True),
        ("FTF", True), ("start", True), ("finish", True), ("reason", False),
    ):  # fmt: skip
        table.add_column(
            heading,
            justify="right" if right else "left",
            no_wrap=heading != "reason",
            overflow="fold" if heading in ("id", "reason") else "ellipsis",
        )
    for group in groups:
        table.add_row(*_group_row(group))
    for job in jobs:
        why = job["why"]
        state = shown_state(job)
        style = _STYLES.get(state, "")
        table.add_row(
            escape(job["id"]),
            escape(short(job["name"])),
            f"[{style}]{state}[/]" if style else state,
            gpus(job),
            progress(job),
            "-" if why["ftf"] is None else f"{why['ftf']:.2f}",
            "-" if job["state"] != "waiting" else moment(why["expected_start"], now_unix),
            "-" if job["state"] not in ACTIVE else moment(why["finish"], now_unix),
            escape(why["reason"]),
        )
    return table


def _group_row(group: Mapping[str, Any]) -> list[str]:
    counts = group["jobs"]
    total = sum(counts.values())
    left = sum(counts.get(state, 0) for state in ACTIVE)
    state = next((state for state in ("running", "waiting") if counts.get(state)), "over")
    said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    if group["parallel"]:
        said += f"; at most {group['parallel']} at once"
    if group["silent"]:
        said += f"; {group['silent']} may hang"
    style = _STYLES.get(state, "")
    return [
        escape(group["id"]),
        count_of(total, "job"),
        f"[{style}]{state}[/]" if style else state,
        str(group["gpus"]),
        f"{total - left}/{total} {group['progress']:.0%}",
        "-",
        "-",
        "-",
        escape(said),
    ]


def shown_state(job: Mapping[str, Any]) -> str:
    """A job that was ordered but is not seen to run is only starting.

    >>> shown_state({"state": "running", "starting": True})
    'starting'
    """
    if job["state"] == "running" and job.get("starting"):
        return "starting"
    if job["state"] == "running" and str(job.get("note", "")).startswith("suspended"):
        return "suspended"
    return str(job["state"])


def short(name: str) -> str:
    """A name that leaves room for the rest of the row; both of its ends tell names apart.

    >>> short("resnet-18"), short("a-very-long-name-of-a-sweep-over-learning-rates-0042")
    ('resnet-18', 'a-very-long-na…rates-0042')
    """
    return name if len(name) <= _LONGEST_NAME else f"{name[:14]}…{name[-10:]}"


def progress(job: Mapping[str, Any]) -> str:
    """Epochs done of all.

    >>> progress({"epochs_done": 7.5, "epochs": 10})
    '7.5/10 75%'
    """
    share = job["epochs_done"] / job["epochs"]
    return f"{round(job['epochs_done'], 1):g}/{job['epochs']} {share:.0%}"


def moment(unix: float | None, now_unix: float) -> str:
    """A time from now on, as people say it.

    >>> moment(1000.0, 400.0), moment(100.0, 400.0), moment(None, 400.0)
    ('in 10.0 min', 'now', '-')
    """
    if unix is None:
        return "-"
    return f"in {duration(unix - now_unix)}" if unix > now_unix + 1 else "now"
