"""``shockwave status, why, logs``: one job."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any

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
from shockwave.cli.console import console, duration, one_line_errors
from shockwave.cli.queue import moment, progress
from shockwave.cli.queue_columns import gpus
from shockwave.model.errors import InputError
from shockwave.model.words import count_of

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="Its id, or its name.", show_default=False)
]


def status(
    job: JobArgument,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one job: where it is, how far, what happened to it."""
    with one_line_errors():
        record = Client(url, token).get("jobs", job)
        if as_json:
            print_json(record)
            return
        configuration = record["configuration"]
        facts = {
            "job": record["id"],
            "name": record["name"],
            "state": record["state"],
            "owner": record["owner"] or "-",
            "tenant": record["tenant"],
            "model": record["model"] or "-",
            "GPUs": _gpus(record),
            "progress": progress(record),
            "adaptation": record["adaptation"],
            "configuration": "-" if configuration is None else str(configuration),
            "submitted": _date(record["submitted"]),
            "started": _date(record["started"]),
            "finished": _date(record["finished"]),
            "starts": f"{record['starts']}, {count_of(record['preemptions'], 'preemption')}, "
            f"{count_of(record['crashes'], 'crash', 'crashes')}",
            "why": record["why"]["reason"],
            **_further(record),
        }
        console.print(_facts(facts))


def why(
    job: JobArgument,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say why a job runs, waits or failed, and what is expected of it."""
    with one_line_errors():
        client = Client(url, token)
        told = client.get("jobs", job, "why")
        if as_json:
            print_json(told)
            return
        console.print(told["reason"], markup=False)
        record = client.get("jobs", job)
        about = {"GPUs": _gpus(record)} if record["state"] in ("waiting", "running") else {}
        console.print(_facts(about | _forecast(told, time.time()) | record["links"]))
        if told["last_log_lines"]:
            console.print("\n[bold]The last lines it wrote[/]")
            for line in told["last_log_lines"]:
                console.print(f"  {line}", markup=False)


def logs(
    job: JobArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it writes.")] = False,
    rank: Annotated[int, typer.Option(min=0, help="Of this process of the job.")] = 0,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, help="Only the last lines.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only since then: 10m ago, or 2026-05-01T12:00.")
    ] = None,
    times: Annotated[bool, typer.Option("--times", help="The time in front of lines.")] = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a job wrote, launch by launch. With --json, an object a line."""
    with one_line_errors():
        query = {
            "rank": rank,
            "tail": tail,
            "since": None if since is None else _moment_of(since, time.time()),
            "follow": "true" if follow else None,
            "times": "true" if times else None,
            "launches": None if as_json else "true",
        }
        chunks = Client(url, token).stream("jobs", job, "logs", **query)
        out = sys.stdout.buffer
        try:
            for piece in _as_objects(chunks) if as_json else chunks:
                out.write(piece)
                out.flush()
        except BrokenPipeError:  # the reader has seen enough, as in `logs JOB | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            if not follow:
                raise


def _moment_of(text: str, now_unix: float) -> float:
    """A time as people say it, in unix seconds: so long ago, or a date.

    >>> _moment_of("10m", 1000.0), _moment_of("90", 1000.0), _moment_of("1970-01-01T00:01Z", 0.0)
    (400.0, 910.0, 60.0)
    """
    parts = re.fullmatch(r"(\d+(?:\.\d+)?)([dhms]?)", text.removesuffix(" ago").strip())
    if parts is not None:
        return max(now_unix - float(parts[1]) * _UNITS[parts[2]], 0.0)
    try:
        return max(datetime.fromisoformat(text).timestamp(), 0.0)
    except ValueError:
        raise InputError(
            "expected a duration such as 10m, or a time such as 2026-05-01T12:00",
            place="--since",
            value=text,
        ) from None


def _as_objects(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield b"".join(map(_object, lines))
    if rest:
        yield _object(rest)


def _object(line: bytes) -> bytes:
    return json.dumps({"line": line.decode(errors="replace")}).encode() + b"\n"


def _further(record: Mapping[str, Any]) -> dict[str, str]:
    """What only some jobs have."""
    limit = record["time_limit"]
    facts = {
        "group": record["group"],
        "owner": record["owner"],
        "preemptible": record["preemptible"],
        "time limit": "" if limit is None else duration(limit),
        "after": ", ".join(record["after"]),
        "after the end of": ", ".join(record["after_any"]),
        "exit code": "" if record["exit_code"] is None else str(record["exit_code"]),
        **record["links"],
    }
    return {name: value for name, value in facts.items() if value}


def _forecast(told: Mapping[str, Any], now_unix: float) -> dict[str, str]:
    """What the policy knows; it may know nothing."""
    facts = {
        "starts": moment(told["expected_start"], now_unix),
        "finishes": moment(told["finish"], now_unix),
        "at the earliest": moment(told["finish_low"], now_unix),
        "at the latest": moment(told["finish_high"], now_unix),
        "its fair share would": moment(told["fair_finish"], now_unix),
        "fairness (FTF)": _ftf(told),
        "bid": "-" if told["bid"] is None else f"{told['bid']:.4g}",
        "price": "-" if told["price"] is None else f"{told['price']:.4g}",
        "jobs ahead": "-" if told["ahead"] is None else str(told["ahead"]),
        "code": _code(told.get("source")),
    }
    return {name: value for name, value in facts.items() if value != "-"}


def _code(source: Mapping[str, Any] | None) -> str:
    """The state of the code that a job was submitted from."""
    if source is None:
        return "-"
    return f"commit {source['commit'][:12]}" + (", with changes" if source["dirty"] else "")


def _ftf(told: Mapping[str, Any]) -> str:
    return "-" if told["ftf"] is None else f"{told['ftf']:.3f} ({told['ftf_definition']})"


def _gpus(record: Mapping[str, Any]) -> str:
    """What it holds and where, and what else it could use."""
    said = gpus(record)
    if record["nodes"]:
        said += f" on {', '.join(record['nodes'])}"
    if record["gpu_counts"]:
        said += f"; {', '.join(map(str, record['gpu_counts']))} would do"
    return said + (f", of {' or '.join(record['gpu_types'])}" if record["gpu_types"] else "")


def _facts(facts: Mapping[str, str]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, escape(value))
    return table


def _date(unix: float | None) -> str:
    if unix is None:
        return "-"
    return datetime.fromtimestamp(unix).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
