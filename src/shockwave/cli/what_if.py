"""``shockwave what-if``: what would be different, before and after."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
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
from shockwave.cli.late_flags import takes_late_flags
from shockwave.cli.submit import command_given, documents
from shockwave.cli.tenants import tenant_fields
from shockwave.model.errors import InputError
from shockwave.model.words import count_of

if TYPE_CHECKING:
    from shockwave.server.jobfile import JobDocument

_PATIENCE_SECONDS = 3600.0  # the scheduler has limits of its own
_SHOWN_JOBS = 20
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_FLAGS = {
    "more_gpus": "--more-gpus",
    "gpu_type": "--more-type",
    "gpus_per_node": "--gpus-per-node",
    "drain": "--drain",
    "policy": "--policy",
    "tenant_weights": "--tenant-weight",
    "tenants": "--promise",
}
_NAMES = {
    "makespan_seconds": "until all have finished",
    "mean_jct_seconds": "mean JCT",
    "worst_ftf_themis": "worst FTF (themis)",
    "unfair_fraction_themis": "unfairly late (themis)",
}


@takes_late_flags
def what_if(
    context: typer.Context,
    job_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[job.yaml|-] [-- COMMAND ...]",
            help="A job that would be submitted: a file, or the command after --.",
            show_default=False,
        ),
    ] = None,
    more_gpus: Annotated[
        int | None, typer.Option(help="So many GPUs more.", show_default=False)
    ] = None,
    more_type: Annotated[
        str | None, typer.Option(help="... of this type.", show_default=False)
    ] = None,
    gpus_per_node: Annotated[
        int | None, typer.Option(help="... on nodes of this size.", show_default=False)
    ] = None,
    drain: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE[@TIME]",
            help="The node is drained, now or at 22:00, in 2h, or at 2026-05-01T12:00. Repeat.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", "-p", help="Another policy decides.")
    ] = None,
    tenant_weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TENANT=FACTOR",
            help="A tenant's weight is multiplied. Repeat.",
            show_default=False,
        ),
    ] = None,
    promise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TENANT:FIELD=VALUE,...",
            help="A tenant is promised something else, as by `shockwave tenants`. Repeat.",
            show_default=False,
        ),
    ] = None,
    samples: Annotated[int, typer.Option(min=5, max=200, help="Futures to look at.")] = 16,
    journal: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Ask a journal, a state directory or a database instead of a running scheduler.",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="With --journal: how long it may take.")
    ] = 600.0,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
    **flags: Any,
) -> None:
    """Show what a change would do, before and after, without doing it.

    shockwave what-if job.yaml

    shockwave what-if --drain n3@22:00 --more-gpus 8 --more-type a100

    shockwave what-if --promise vision:weight=2,most=none

    shockwave what-if --policy srtf --journal /var/lib/shockwave
    """
    with one_line_errors():
        question: dict[str, Any] = {
            "more_gpus": more_gpus,
            "gpu_type": more_type,
            "gpus_per_node": gpus_per_node,
            "drain": [_drain(text, time.time()) for text in drain or ()],
            "policy": policy,
            "tenant_weights": dict(_factor(text) for text in tenant_weight or ()),
            "tenants": dict(_promise(text) for text in promise or ()),
            "samples": samples,
        }
        if job_file is not None or command_given(context) is not None:
            question["submit"] = submissions(documents(context, job_file, flags, "what-if"))
        if journal is None:
            ask_and_tell(Client(url, token), question, as_json)
        else:
            _tell(_ask_journal(journal, question, seconds), as_json)


def submissions(found: Sequence[JobDocument]) -> list[dict[str, Any]]:
    """The jobs of these documents, as the API takes them."""
    if any(document.matrix is not None for document in found):
        raise InputError("a sweep cannot be asked about", hint="Ask about one of its jobs")
    return [document.submission().model_dump(mode="json") for document in found]


def ask_and_tell(client: Client, question: Mapping[str, Any], as_json: bool) -> None:
    """Puts the question to a running scheduler."""
    given = {name: value for name, value in question.items() if value not in (None, [], {})}
    with console.status("rolling futures forward"):
        answer = client.post("what-if", body=given, timeout=_PATIENCE_SECONDS)
    _tell(answer, as_json)


def _ask_journal(run: str, question: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Answers from what a run left behind; times count from its last event."""
    from pydantic import ValidationError

    from shockwave.cli.journals import events_of
    from shockwave.measure.whatif import Limits, TooSlowError, ask
    from shockwave.measure.whatif.changes import specs as active_specs
    from shockwave.measure.whatif.memory import recall
    from shockwave.server.submissions import spec_of
    from shockwave.server.whatif_records import (
        NEW_JOB,
        WhatIfQuestion,
        changes_of,
        record_of,
    )

    try:
        asked = WhatIfQuestion.model_validate(dict(question))
    except ValidationError as error:
        wrong = error.errors()[0]
        field, *rest = map(str, wrong["loc"])
        place = ".".join((_FLAGS.get(field, field), *(part for part in rest if part != "[key]")))
        unknown = wrong["type"] == "extra_forbidden"
        problem = "there is no such field" if unknown else wrong["msg"]
        raise InputError(problem, place=place, value=wrong["input"]) from None
    past = recall(events_of(run), () if asked.policy is None else (asked.policy,))
    state = past.state
    specs = [
        spec_of(f"{NEW_JOB}{number}", state.time, submission)
        for number, submission in enumerate(asked.submit, start=1)
    ]
    origin_unix = 0.0 if state.run is None else state.run.started_unix or 0.0
    with console.status("rolling futures forward"):
        try:
            answer = ask(
                state,
                changes_of(asked, specs, state, origin_unix),
                limits=Limits(asked.samples, seconds),
                policies=past.policies,
                learner=past.learner,
                seed=asked.seed,
            )
        except TooSlowError as error:
            raise InputError(
                str(error), place="--seconds", value=seconds, hint="Allow more"
            ) from None
    known = {spec.id: spec for spec in (*active_specs(state), *specs)}
    return record_of(answer, known, origin_unix).model_dump(mode="json")


def _drain(text: str, now_unix: float) -> dict[str, Any]:
    node, _, when = text.partition("@")
    if not node:
        raise InputError("expected NODE or NODE@TIME", place="--drain", value=text)
    at = moment_to_come(when, now_unix) if when else None
    if at is not None and at < now_unix:
        raise InputError(
            "lies in the past", place="--drain", value=text, hint="Without @TIME it is now"
        )
    return {"node": node, "at": at}


def moment_to_come(text: str, now_unix: float) -> float:
    """A time as people say it, in unix seconds: in so long, at an hour, or a date.

    >>> moment_to_come("2h", 1000.0), moment_to_come("1970-01-01T01:00+00:00", 0.0)
    (8200.0, 3600.0)
    """
    parts = re.fullmatch(r"\+?(\d+(?:\.\d+)?)([dhms])", text.strip())
    if parts is not None:
        return now_unix + float(parts[1]) * _UNITS[parts[2]]
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}", text):
            hour, minute = map(int, text.split(":"))
            today = datetime.fromtimestamp(now_unix)
            at = today.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return (at if at >= today else at + timedelta(days=1)).timestamp()
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise InputError(
            "expected 22:00, 2h or 2026-05-01T12:00", place="--drain", value=text
        ) from None


def _factor(text: str) -> tuple[str, float]:
    tenant, _, factor = text.partition("=")
    try:
        if tenant:
            return tenant, float(factor)
    except ValueError:
        pass
    raise InputError("expected TENANT=FACTOR", place="--tenant-weight", value=text)


def _promise(text: str) -> tuple[str, dict[str, Any]]:
    tenant, _, fields = text.partition(":")
    if not tenant or not fields:
        raise InputError("expected TENANT:FIELD=VALUE,...", place="--promise", value=text)
    return tenant, tenant_fields(fields.split(","))


# How it is told.


def _tell(answer: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    now = answer["now"]
    for job in answer["jobs"]:
        if job["is_new"]:
            console.print(_new_job(job, now), soft_wrap=True, markup=False)
    console.print(_figures(answer))
    affected = [job for job in answer["jobs"] if not job["is_new"]]
    if affected:
        console.print(_jobs(affected, now))
    if len(affected) > _SHOWN_JOBS:
        note(f"... and {len(affected) - _SHOWN_JOBS} more (--json has all)")
    if answer["hidden"]:
        note(f"{count_of(answer['hidden'], 'affected job')} of others cannot be shown.")
    if answer["never"]:
        note(f"Would not finish as things are: {', '.join(answer['never'][:8])}")
    if answer["guessed"]:
        note(
            f"How long {count_of(answer['guessed'], 'job')} will take is a mere guess: not known "
            "before a first epoch has ended."
        )
    note(
        f"{answer['samples']} sampled futures; in brackets what four in five lie between. "
        f"Not affected: {count_of(answer['unaffected'], 'job')}. Nothing was changed."
    )


def _new_job(job: Mapping[str, Any], now: float) -> str:
    name = job["name"] or job["id"]
    if job["finish_after"] is None:
        return f"{name}: would not finish"
    return (
        f"{name}: would start in {_span(job['start_after'], now)} "
        f"and finish in {_span(job['finish_after'], now)}"
    )


def _span(interval: Mapping[str, float] | None, since: float = 0.0) -> str:
    """The middle, with what it lies between."""
    if interval is None:
        return "-"
    low, middle, high = (interval[part] - since for part in ("low", "middle", "high"))
    if since:  # nothing that is to come lies in the past
        low = max(low, 0.0)
    return f"{_signed(middle)} ({_signed(low)} to {_signed(high)})"


def _signed(seconds: float) -> str:
    return f"-{duration(-seconds)}" if seconds <= -0.01 else duration(max(seconds, 0.0))


def _figures(answer: Mapping[str, Any]) -> Table:
    title = "The jobs that are there now, without and with the change"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("figure")
    for header in ("before", "after", "difference"):
        table.add_column(header, justify="right")
    for figure in answer["figures"]:
        cells = (_shown(figure, part) for part in ("before", "after", "difference"))
        table.add_row(_NAMES[figure["name"]], *cells)
    return table


def _shown(figure: Mapping[str, Any], part: str) -> str:
    interval = figure[part]
    if interval is None:
        return "-"
    if figure["unit"] == "seconds":
        return _span(interval)
    form = "{:+.2f}" if part == "difference" else "{:.2f}"
    if figure["unit"] == "fraction":
        form = form.replace(".2f", ".0%")
    low, middle, high = (form.format(interval[name]) for name in ("low", "middle", "high"))
    return f"{middle} ({low} to {high})"


def _jobs(affected: Sequence[Mapping[str, Any]], now: float) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Affected", title_justify="left", title_style="bold")
    for header in ("job", "owner"):
        table.add_column(header)
    for header in ("GPUs", "finishes in, before", "after", "later by"):
        table.add_column(header, justify="right")
    for job in affected[:_SHOWN_JOBS]:
        table.add_row(
            job["name"] or job["id"],
            job["owner"],
            str(job["gpus"]),
            _span(job["finish_before"], now),
            _span(job["finish_after"], now),
            _span(job["later_seconds"]),
        )
    return table
