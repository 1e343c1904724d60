"""``shockwave sweep``: one command, many values."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shockwave.cli.batches import submit_documents, tell
from shockwave.cli.client import DEFAULT_URL, Client, JsonOption, TokenOption, UrlOption, print_json
from shockwave.cli.console import console, one_line_errors
from shockwave.cli.late_flags import takes_late_flags
from shockwave.cli.submit import documents
from shockwave.model.errors import InputError

if TYPE_CHECKING:
    from shockwave.server.jobfile import JobDocument

_MOST_STEPS = 10_000


@takes_late_flags
def sweep(
    context: typer.Context,
    job_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[job.yaml|-] [-- COMMAND ...]",
            help="A job file with a matrix, or the command after --, with {NAME} for values.",
            show_default=False,
        ),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE,VALUE or NAME=1..5: all combinations. Repeat."),
    ] = None,
    listed: Annotated[
        list[str] | None,
        typer.Option("--list", help="'NAME=VALUE NAME=VALUE': the values of one job. Repeat."),
    ] = None,
    randomly: Annotated[
        list[str] | None,
        typer.Option("--random", help="NAME=log:0.001:1, uniform:0:1, int:1:9 or A,B. Repeat."),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Jobs, with --random.")] = None,
    seed: Annotated[int, typer.Option(help="Of --random: the same gives the same jobs.")] = 0,
    parallel: Annotated[
        int | None, typer.Option(min=0, help="So many run at once at most; 0 for no limit.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the jobs, and submit nothing.")
    ] = False,
    key: Annotated[
        str | None, typer.Option(help="Submitting twice with one key gives one sweep.")
    ] = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
    **flags: Any,
) -> None:
    """Submit a group of jobs that differ in some values.

    shockwave sweep --grid lr=0.1,0.01 --grid seed=1..3 --parallel 2 --epochs 20 --
    python train.py --lr {lr} --seed {seed}

    shockwave sweep job.yaml --parallel 4
    """
    with one_line_errors():
        matrix = _matrix(grid, listed, randomly, count, seed)
        found = [
            _with(document, matrix, parallel)
            for document in documents(context, job_file, flags, "sweep")
        ]
        if dry_run:
            _print(found, as_json)
            return
        tell(submit_documents(Client(url, token), found, key), as_json)


def _with(
    document: JobDocument, matrix: dict[str, Any] | None, parallel: int | None
) -> JobDocument:
    if matrix is not None:
        document = replace(document, matrix=matrix)
    if document.matrix is None:
        raise InputError(
            "there is nothing to vary",
            source=document.source,
            hint="Say --grid lr=0.1,0.01 and write {lr} in the command, or matrix: in the file",
        )
    return document if parallel is None else replace(document, parallel=parallel)


def _print(found: list[JobDocument], as_json: bool) -> None:
    from shockwave.server.matrix import expand

    jobs = [job for one in found for job in expand(one.fields, one.matrix, one.source)]
    if as_json:
        print_json(jobs)
        return
    for job in jobs:
        console.print(" ".join(map(str, job.get("command", ()))), markup=False, soft_wrap=True)


def _matrix(
    grid: list[str] | None,
    listed: list[str] | None,
    randomly: list[str] | None,
    count: int | None,
    seed: int,
) -> dict[str, Any] | None:
    if sum(map(bool, (grid, listed, randomly))) > 1:
        raise InputError("use one of --grid, --list and --random", place="sweep")
    if count is not None and not randomly:
        raise InputError("is for --random", place="--count", value=count)
    if grid:
        return {"grid": {name: _values(text) for name, text in _named(grid, "--grid")}}
    if listed:
        rows = [dict(_named(text.split(), "--list")) for text in listed]
        return {"list": [{name: _value(text) for name, text in row.items()} for row in rows]}
    if randomly:
        ranges = {name: _range(text) for name, text in _named(randomly, "--random")}
        return {"random": ranges, "count": count, "seed": seed}
    return None


def _named(given: list[str], option: str) -> list[tuple[str, str]]:
    pairs = []
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError("expected NAME=VALUE", place=option, value=text)
        pairs.append((name, value))
    return pairs


def _values(text: str) -> list[Any]:
    """Values as they are written on the command line.

    >>> _values("0.1,sgd"), _values("1..3")
    ([0.1, 'sgd'], [1, 2, 3])
    """
    steps = re.fullmatch(r"(-?\d+)\.\.(-?\d+)", text)
    if steps is None:
        return [_value(part) for part in text.split(",")]
    first, last = int(steps[1]), int(steps[2])
    if not 0 <= last - first < _MOST_STEPS:
        raise InputError("expected FIRST..LAST", place="--grid", value=text)
    return list(range(first, last + 1))


def _value(text: str) -> Any:
    """A number where it is one, so that YAML and the command line mean the same."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _range(text: str) -> Any:
    kind, *ends = text.split(":")
    if len(ends) != 2:
        return _values(text)
    return {kind: [_value(end) for end in ends]}
