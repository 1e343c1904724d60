"""``shockwave submit``: a job from a file, or a command with flags."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from shockwave.cli.client import (
    DEFAULT_URL,
    Client,
    JsonOption,
    TokenOption,
    UrlOption,
    print_json,
)
from shockwave.cli.console import console, note, one_line_errors
from shockwave.cli.late_flags import LateFlagsCommand, flag, takes_late_flags
from shockwave.cli.surroundings import with_surroundings
from shockwave.model.errors import InputError
from shockwave.model.job import Adaptation

_COMMAND = "shockwave.submit.command"


class SubmitCommand(LateFlagsCommand):
    """Keeps what follows ``--`` apart, flags and all: it is the job's command.

    There is a flag for every built-in executor that a job can be given options for.
    """

    def late_flags(self, args: list[str]) -> list[inspect.Parameter]:
        from shockwave.server.job_sections import known_sections

        flags = []
        for name, options in known_sections():
            known = ", ".join(options.model_fields)
            said = f"OPTION=VALUE for the executor {name}, with the options {known}. Repeat."
            option = typer.Option(f"--{name}", help=said, show_default=False)
            flags.append(flag(name, list[str] | None, option))
        return flags

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            ctx.meta[_COMMAND] = args[cut + 1 :]
            args = args[:cut]
        return super().parse_args(ctx, args)


@takes_late_flags
def submit(
    context: typer.Context,
    job_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[job.yaml] [-- COMMAND ...]",
            help="A job file, or the command after --. Flags win over the file.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="To recognise the job by.")] = None,
    gpus: Annotated[int | None, typer.Option(help="GPUs, all at once.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs in total.")] = None,
    adaptation: Annotated[
        Adaptation | None, typer.Option(help="How it moves between batch sizes.")
    ] = None,
    batch_size: Annotated[
        list[int] | None,
        typer.Option(help="Batch sizes it may use, in order. Repeat.", show_default=False),
    ] = None,
    epoch_seconds: Annotated[
        list[str] | None,
        typer.Option(help="SIZE=SECONDS of an epoch, where known. Repeat.", show_default=False),
    ] = None,
    model: Annotated[str | None, typer.Option(help="What it trains.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Who it belongs to.")] = None,
    weight: Annotated[float | None, typer.Option(help="Its share against others.")] = None,
    workdir: Annotated[Path | None, typer.Option(help="Where the command starts.")] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VALUE for its environment, or NAME with the value that it has here. "
            "PATH, VIRTUAL_ENV, PYTHONPATH and CONDA_* are taken anyway. Repeat.",
            show_default=False,
        ),
    ] = None,
    env_file: Annotated[
        Path | None, typer.Option(help="A file of NAME=VALUE lines.", show_default=False)
    ] = None,
    snapshot: Annotated[
        bool | None,
        typer.Option(
            "--snapshot",
            help="Run in a copy of the files that git tracks in the working folder.",
            show_default=False,
        ),
    ] = None,
    notify: Annotated[
        list[str] | None,
        typer.Option(help="Who is told: https://... or mailto:... Repeat.", show_default=False),
    ] = None,
    notify_on: Annotated[
        list[str] | None,
        typer.Option(
            help="When: started, finished, failed, cancelled, preempted, late. Repeat. "
            "Default: finished, failed, late.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Submitting twice with one key gives one job.")
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of job files and exit.")
    ] = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
    **sections: list[str] | None,
) -> None:
    """Submit a job: a file, or a command with flags.

    shockwave submit job.yaml

    shockwave submit --epochs 20 --gpus 2 -- python train.py --lr 0.1
    """
    with one_line_errors():
        from shockwave.server.jobfile import checked_submission, read_job_file, schema_text

        if schema:
            typer.echo(schema_text(), nl=False)
            return
        fields: dict[str, Any] = {
            "name": name,
            "command": context.meta.get(_COMMAND),
            "gpus": gpus,
            "epochs": epochs,
            "adaptation": adaptation,
            "batch_sizes": batch_size or None,
            "epoch_seconds": _pairs(epoch_seconds, "--epoch-seconds", "SIZE=SECONDS"),
            "model": model,
            "tenant": tenant,
            "weight": weight,
            "workdir": None if workdir is None else os.path.abspath(workdir),
            "snapshot": snapshot,
            "notify": notify or None,
            "notify_on": notify_on or None,
        }
        fields |= {
            section: _pairs(options, f"--{section}", "OPTION=VALUE")
            for section, options in sections.items()
        }
        given = {field: value for field, value in fields.items() if value is not None}
        if job_file is not None:
            submission = read_job_file(job_file, given)
        elif "command" in given:
            submission = checked_submission({"workdir": os.getcwd(), **given}, "submit")
        else:
            raise InputError(
                "nothing to submit",
                hint="Name a job file, or put the command after --: "
                "shockwave submit --epochs 3 -- python train.py",
            )
        submission = with_surroundings(submission, env or (), env_file)
        client = Client(url, token)
        me = client.get("me")
        record = client.post(
            "jobs",
            body=submission.model_dump(mode="json"),
            headers=None if key is None else {"Idempotency-Key": _sendable(key)},
        )
        if as_json:
            print_json(record)
            return
        console.print(record["id"], markup=False)
        note(
            f"{record['name']}: {record['state']}. What it waits for: shockwave why {record['id']}"
        )
        if me["runs_as"] != (me["user"] or me["runs_as"]):
            note(f"It runs as {me['runs_as']}, with that user's files and rights, not as you.")


def _pairs(given: list[str] | None, option: str, form: str) -> dict[str, str] | None:
    if not given:
        return None
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InputError(f"expected {form}", place=option, value=text)
        pairs[name] = value
    return pairs


def _sendable(key: str) -> str:
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise InputError("a key is plain text without spaces", place="--key", value=key)
    return key
