"""``shockwave wait``: until jobs are over, for scripts."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from shockwave.cli.client import DEFAULT_URL, Client, JsonOption, TokenOption, UrlOption, print_json
from shockwave.cli.console import console, fail, one_line_errors
from shockwave.cli.queue import ACTIVE
from shockwave.model.errors import InputError

_FIRST_LOOK_SECONDS = 0.1
_LONGEST_LOOK_SECONDS = 2.0


def wait(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JOB]...", help="Ids or names.", show_default=False),
    ] = None,
    group: Annotated[str | None, typer.Option(help="For all jobs of this group.")] = None,
    timeout: Annotated[
        str | None, typer.Option(help="Seconds, or 1h30m, after which to give up.")
    ] = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Wait until jobs are over. Exit code 0 if all finished, 1 if any did not, or at a timeout."""
    with one_line_errors():
        if not jobs and group is None:
            raise InputError("for which jobs?", place="wait", hint="Name them, or use --group")
        client = Client(url, token)
        limit = _seconds(timeout)
        records = [client.get("jobs", job) for job in jobs or ()]
        looks: list[Callable[[], Any]] = [
            partial(client.get, "jobs", record["id"]) for record in records
        ]
        if group is not None:
            looks.append(lambda: client.get("groups", group))
        over = [until_over(look, limit) for look in looks]
        if as_json:
            print_json(over)
        else:
            for record in over:
                console.print(f"{record['id']}: {_said(record)}", markup=False, soft_wrap=True)
        if not all(map(_went_well, over)):
            raise typer.Exit(1)


def until_over(look: Callable[[], Any], deadline: float | None = None) -> Any:
    """Looks again and again; ``deadline`` is of the monotonic clock. Exits at that."""
    pause = _FIRST_LOOK_SECONDS
    while True:
        record = look()
        if not _is_active(record):
            return record
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            fail(f"{record['id']} is not over in time: it is {_said(record)}", code=1)
        time.sleep(pause if left is None else min(pause, left))
        pause = min(1.5 * pause, _LONGEST_LOOK_SECONDS)


def _seconds(timeout: str | None) -> float | None:
    if timeout is None:
        return None
    from pydantic import TypeAdapter, ValidationError

    from shockwave.server.records import Duration

    try:
        return time.monotonic() + float(TypeAdapter(Duration).validate_python(timeout))
    except ValidationError as error:
        said = "expected seconds, or a duration such as 1h30m"
        raise InputError(said, place="--timeout", value=timeout) from error


def _is_active(record: Any) -> bool:
    if "jobs" in record:
        return any(record["jobs"].get(state) for state in ACTIVE)
    return record["state"] in ACTIVE


def _went_well(record: Any) -> bool:
    if "jobs" in record:
        return all(state == "finished" or not count for state, count in record["jobs"].items())
    return bool(record["state"] == "finished")


def _said(record: Any) -> str:
    if "jobs" in record:
        return ", ".join(f"{count} {state}" for state, count in record["jobs"].items() if count)
    return str(record["why"]["reason"] if record["state"] == "failed" else record["state"])
