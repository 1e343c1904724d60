"""``shockwave submit``: a job from a file, or a command with flags."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from shockwave.cli.surroundings import add_surroundings
from shockwave.model.errors import InputError
from shockwave.model.job import Adaptation, OnHang, Preemptible

if TYPE_CHECKING:
    from shockwave.server.jobfile import JobDocument

_COMMAND = "shockwave.submit.command"
# Parameters of ``submit`` that do not describe the job.
_NOT_OF_THE_JOB = {
    "context",
    "job_file",
    "key",
    "dry_run",
    "schema",
    "url",
    "token",
    "as_json",
    "sections",
}


class JobCommand(LateFlagsCommand):
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


class LikeSubmitCommand(JobCommand):
    """A command that also has all flags of ``submit`` that describe a job."""

    def late_flags(self, args: list[str]) -> list[inspect.Parameter]:
        declared = inspect.signature(submit, eval_str=True).parameters.values()
        of_the_job = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in declared
            if parameter.name not in _NOT_OF_THE_JOB
        ]
        return [*of_the_job, *super().late_flags(args)]


@takes_late_flags
def submit(
    context: typer.Context,
    job_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[job.yaml|-] [-- COMMAND ...]",
            help="A job file, - for standard input, or the command after --. Flags win.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="To recognise the job by.")] = None,
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="N|MIN-MAX|N,N",
            help="GPUs, all at once; numbers that would do, where it can use several.",
        ),
    ] = None,
    gpu_type: Annotated[
        list[str] | None,
        typer.Option(help="TYPE[,TYPE] of GPUs that it can use.", show_default=False),
    ] = None,
    preferred_type: Annotated[str | None, typer.Option(help="The one it likes best.")] = None,
    gpu_memory: Annotated[str | None, typer.Option(help="That each GPU must have: 40G.")] = None,
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
    preemptible: Annotated[
        Preemptible | None,
        typer.Option(help="Whether it may be stopped for others. Default: when-saved."),
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option(help="Seconds, or 1h30m, that it may hold GPUs.")
    ] = None,
    on_hang: Annotated[
        OnHang | None, typer.Option(help="When it has gone silent. Default: nothing but tell.")
    ] = None,
    retries: Annotated[
        int | None, typer.Option(help="After crashes. Default: as the scheduler is set.")
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(help="JOB[,JOB] that must have finished before.", show_default=False),
    ] = None,
    after_any: Annotated[
        list[str] | None,
        typer.Option(help="JOB[,JOB] that must have ended before.", show_default=False),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Submitting twice with one key gives one job.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Submit nothing; say when it would start and finish, and who waits."
        ),
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of job files and exit.")
    ] = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
    **sections: list[str] | None,
) -> None:
    """Submit jobs: a file, or a command with flags.

    shockwave submit job.yaml

    shockwave submit --epochs 20 --gpus 2 -- python train.py --lr 0.1
    """
    with one_line_errors():
        from shockwave.server.jobfile import schema_text

        if schema:
            typer.echo(schema_text(), nl=False)
            return
        flags: dict[str, Any] = {
            "name": name,
            "gpus": gpus,
            "gpu_type": gpu_type,
            "preferred_type": preferred_type,
            "gpu_memory": gpu_memory,
            "epochs": epochs,
            "adaptation": adaptation,
            "batch_size": batch_size,
            "epoch_seconds": epoch_seconds,
            "model": model,
            "tenant": tenant,
            "weight": weight,
            "workdir": workdir,
            "env": env,
            "env_file": env_file,
            "snapshot": snapshot,
            "notify": notify,
            "notify_on": notify_on,
            "preemptible": preemptible,
            "time_limit": time_limit,
            "on_hang": on_hang,
            "retries": retries,
            "after": after,
            "after_any": after_any,
        }
        found = documents(context, job_file, flags | sections, "submit")
        if dry_run:
            from shockwave.cli.what_if import ask_and_tell, submissions

            question = {"submit": submissions(found)}
            ask_and_tell(Client(url, token), question, as_json)
            return
        client = Client(url, token)
        tell_whom_jobs_run_as(client)
        if len(found) > 1 or found[0].matrix is not None:
            from shockwave.cli.batches import submit_documents, tell

            tell(submit_documents(client, found, None if key is None else _sendable(key)), as_json)
            return
        record = submit_one(client, found[0], key)
        if as_json:
            print_json(record)
            return
        console.print(record["id"], markup=False)
        for warning in record["warnings"]:
            note(f"{record['name']}: {warning}")
        note(
            f"{record['name']}: {record['state']}. What it waits for: shockwave why {record['id']}"
        )
        _tell_what_preemption_does(record)


def tell_whom_jobs_run_as(client: Client) -> None:
    """Where that is somebody else than the person."""
    me = client.get("me")
    if me["user"] and me["runs_as"] != me["user"]:
        note(f"Jobs run as {me['runs_as']}, with that user's files and rights, not as you.")


def documents(
    context: typer.Context, job_file: Path | None, flags: Mapping[str, Any], verb: str
) -> list[JobDocument]:
    """The jobs of a file, or of the command after ``--``; flags win over the file."""
    from shockwave.server.jobfile import JobDocument, read_documents

    flags = dict(flags)
    env, env_file = flags.pop("env") or (), flags.pop("env_file")
    given = _fields(context.meta.get(_COMMAND), flags)
    if job_file is not None:
        found = read_documents(job_file, given)
    elif "command" in given:
        found = [JobDocument({"workdir": os.getcwd(), **given}, verb)]
    else:
        raise InputError(
            "nothing to submit",
            hint="Name a job file, or put the command after --: "
            f"shockwave {verb} --epochs 3 -- python train.py",
        )
    for document in found:
        add_surroundings(document.fields, env, env_file)
    return found


def command_given(context: typer.Context, command: list[str] | None = None) -> list[str] | None:
    """What followed ``--``, or ``command`` in its place from now on."""
    if command is not None:
        context.meta[_COMMAND] = command
    given: list[str] | None = context.meta.get(_COMMAND)
    return given


def submit_one(client: Client, document: JobDocument, key: str | None = None) -> Any:
    """The record of the job."""
    return client.post(
        "jobs",
        body=document.submission().model_dump(mode="json"),
        headers=None if key is None else {"Idempotency-Key": _sendable(key)},
    )


def _fields(command: list[str] | None, flags: dict[str, Any]) -> dict[str, Any]:
    """The fields of a job that were given as flags."""
    workdir = flags.pop("workdir")
    fields: dict[str, Any] = {
        "command": command,
        "batch_sizes": flags.pop("batch_size") or None,
        "epoch_seconds": _pairs(flags.pop("epoch_seconds"), "--epoch-seconds", "SIZE=SECONDS"),
        "workdir": None if workdir is None else os.path.abspath(workdir),
        "gpu_types": _names(flags.pop("gpu_type")),
        "after": _names(flags.pop("after")),
        "after_any": _names(flags.pop("after_any")),
    }
    for name in ("name", "gpus", "preferred_type", "gpu_memory", "epochs", "adaptation", "model",
                 "tenant", "weight", "snapshot", "preemptible", "time_limit", "on_hang", "retries",
                 "notify", "notify_on"):  # fmt: skip
        fields[name] = flags.pop(name)
    for section, options in flags.items():  # what is left is for executors
        fields[section] = _pairs(options, f"--{section}", "OPTION=VALUE")
    return {field: value for field, value in fields.items() if value not in (None, [])}


def _names(given: list[str] | None) -> list[str] | None:
    names = [name for text in given or () for name in text.split(",") if name]
    return names or None


def _tell_what_preemption_does(record: Mapping[str, Any]) -> None:
    if record["preemptible"] == Preemptible.WHEN_SAVED:
        note("It is not preempted before it has saved a checkpoint (--preemptible).")
    elif record["preemptible"] == Preemptible.ALWAYS:
        note("It may be preempted at any time, and goes on from its last checkpoint, if any.")


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
