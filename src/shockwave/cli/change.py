"""``shockwave cancel, hold, release, requeue, set``: many jobs at once, or what one declares."""

from __future__ import annotations

import fnmatch
import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.markup import escape

from shockwave.cli.client import DEFAULT_URL, Client, JsonOption, TokenOption, UrlOption, print_json
from shockwave.cli.console import console, errors, one_line_errors
from shockwave.cli.queue import ACTIVE
from shockwave.model.errors import InputError

JobsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[JOB]...", help="Ids or names.", show_default=False),
]
NameOption = Annotated[
    str | None, typer.Option("--name", help="All whose name fits, as in 'resnet-*'.")
]
GroupOption = Annotated[str | None, typer.Option("--group", help="All of this group.")]
TenantOption = Annotated[str | None, typer.Option("--tenant", help="All of this tenant.")]
OwnerOption = Annotated[str | None, typer.Option("--owner", help="All of this user.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, however many.")]

_DONE = {
    "cancel": "will be cancelled",
    "hold": "is held",
    "release": "is released",
    "requeue": "gives up its GPUs and waits again",
}


def cancel(**chosen: Any) -> None:
    """Take jobs back; what runs is stopped."""
    _act("cancel", **chosen)


def hold(**chosen: Any) -> None:
    """Keep waiting jobs from starting; a running one goes on until it is preempted."""
    _act("hold", **chosen)


def release(**chosen: Any) -> None:
    """Let jobs start that were held, or that wait after a crash."""
    _act("release", **chosen)


def requeue(**chosen: Any) -> None:
    """Let running jobs save, give up their GPUs and wait again."""
    _act("requeue", **chosen)


def set_(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its id or name, or a group's id.")],
    changes: Annotated[
        list[str],
        typer.Argument(metavar="FIELD=VALUE...", help="For instance weight=2 gpus=4."),
    ],
    group: Annotated[
        bool, typer.Option("--group", help="JOB is a group, as in: set --group G parallel=8.")
    ] = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change what a job declares.

    gpus, gpu_types, gpu_memory and epochs while it waits; preferred_type, weight, name,
    time_limit, preemptible, on_hang and retries at any time.
    """
    with one_line_errors():
        fields: dict[str, Any] = {}
        for text in changes:
            name, equals, value = text.partition("=")
            if not (name and equals):
                raise InputError("expected FIELD=VALUE", place="set", value=text)
            fields[name.replace("-", "_")] = value
        client = Client(url, token)
        path = ("groups" if group else "jobs", job)
        record = client.patch(*path, body=fields)
        if as_json:
            print_json(record)
            return
        said = ", ".join(f"{name} {value}" for name, value in fields.items())
        console.print(f"{record['id']}: {said}", markup=False)


def _act(
    action: str,
    jobs: JobsArgument = None,
    name: NameOption = None,
    group: GroupOption = None,
    tenant: TenantOption = None,
    owner: OwnerOption = None,
    yes: YesOption = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    with one_line_errors():
        client = Client(url, token)
        chosen = list(dict.fromkeys(jobs or ()))
        wanted = (name, group, tenant, owner)
        if any(word is not None for word in wanted):
            chosen += [job for job in _matching(client, *wanted) if job not in chosen]
        elif not chosen:
            raise InputError(
                "which jobs?", place=action, hint="Name them, or use --name, --group or --tenant"
            )
        if not chosen:
            raise InputError("no job that is not over fits", place=action)
        if len(chosen) > 1 and not yes:
            _confirm(action, len(chosen))
        outcomes = client.post("jobs", "actions", body={"action": action, "jobs": chosen})["items"]
        if as_json:
            print_json(outcomes)
        else:
            _tell(action, outcomes)
        if any(outcome["problem"] for outcome in outcomes):
            raise typer.Exit(1)


def _matching(
    client: Client, name: str | None, group: str | None, tenant: str | None, owner: str | None
) -> list[str]:
    found = client.pages("jobs", state=list(ACTIVE), tenant=tenant, group=group)
    return [
        job["id"]
        for job in found
        if (name is None or fnmatch.fnmatchcase(job["name"], name))
        and owner in (None, job["owner"])
    ]


def _confirm(action: str, count: int) -> None:
    if not sys.stdin.isatty():
        raise InputError(f"{count} jobs at once need --yes", place=action)
    if not typer.confirm(f"{action} {count} jobs?", err=True):
        raise typer.Exit(1)


def _tell(action: str, outcomes: list[Any]) -> None:
    done = [outcome for outcome in outcomes if not outcome["problem"]]
    if len(done) > 20:
        console.print(f"{len(done)} jobs: each {_DONE[action]}")
    else:
        for outcome in done:
            is_over = outcome["state"] not in ACTIVE
            said = outcome["state"] if is_over else _DONE[action]
            console.print(f"{outcome['id']}: {said}", markup=False)
    for outcome in outcomes:
        if outcome["problem"]:
            said = f"[bold red]error:[/] {outcome['id']}: {escape(outcome['problem'])}"
            errors.print(said, soft_wrap=True)


def _like_act(verb: Callable[..., None]) -> None:
    """Gives a verb the flags of :func:`_act`, which all of them have."""
    signature = inspect.signature(_act, eval_str=True)
    flags = [flag for flag in signature.parameters.values() if flag.name != "action"]
    verb.__signature__ = signature.replace(parameters=flags)  # type: ignore[attr-defined]


for _verb in (cancel, hold, release, requeue):
    _like_act(_verb)
