"""``shockwave report``: the report of any run, a live one included."""

from __future__ import annotations

from datetime import datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Annotated

import typer

from shockwave.cli.console import note, one_line_errors
from shockwave.cli.journals import StateDirOption, events_of
from shockwave.measure import fold_history, summarize, write_report
from shockwave.model.errors import InputError, ShockwaveError
from shockwave.model.events import RunStarted
from shockwave.model.files import check_writable
from shockwave.protocol.files import atomic_writer


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Journals (JSON Lines), state directories, or URLs of databases.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write the report to this HTML file.")
    ] = Path("report.html"),
    state_dir: StateDirOption = None,
    weekly: Annotated[
        bool, typer.Option("--weekly", help="Of the last seven days: use, waiting, who got what.")
    ] = False,
    against: Annotated[
        list[str] | None,
        typer.Option(help="With --weekly: what this policy would have done. Repeat."),
    ] = None,
    mail_to: Annotated[
        list[str] | None,
        typer.Option(help="With --weekly: mail it to this address, by the smtp settings. Repeat."),
    ] = None,
) -> None:
    """Make the report of runs that happened, live or simulated; several are compared.

    shockwave report --weekly /var/lib/shockwave --against srtf --mail-to boss@example.org
    """
    with one_line_errors():
        check_writable(output)
        if weekly:
            _weekly(runs, output, state_dir, against or [], mail_to or [])
            return
        if against or mail_to:
            raise InputError("is only of use with --weekly", place="--against, --mail-to")
        histories = [fold_history(events_of(run, state_dir)) for run in runs]
        write_report(
            output, [(summarize(history), history) for history in histories], title=", ".join(runs)
        )
        note(f"Open {output}.")


def _weekly(
    runs: list[str], output: Path, state_dir: Path | None, against: list[str], to: list[str]
) -> None:
    from shockwave.measure.replay import replay
    from shockwave.measure.weekly import render_week, text_of, week_of

    if len(runs) != 1:
        raise InputError("expected one run with --weekly", value=runs)
    events = list(events_of(runs[0], state_dir))
    first = events[0] if events else None
    origin = first.started_unix if isinstance(first, RunStarted) else None

    def moment(seconds: float) -> str:
        if origin is None:
            return f"hour {seconds / 3600.0:.0f}"
        return f"{datetime.fromtimestamp(origin + seconds):%a %d %b %Y %H:%M}"

    week = week_of(events)
    title = f"The week of {Path(runs[0]).name}"
    page = render_week(week, title, moment, [replay(events, policy=name) for name in against])
    with atomic_writer(output) as file:
        file.write(page)
    note(f"Open {output}.")
    if to:
        _mail(to, title, text_of(week, title, moment), page)
        note(f"Mailed to {', '.join(to)}.")


def _mail(to: list[str], subject: str, text: str, page: str) -> None:
    from smtplib import SMTPException

    from shockwave.server.config import load_config
    from shockwave.server.couriers import DeliveryError, send_mail

    def write(sender: str) -> EmailMessage:
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = sender, ", ".join(to), subject
        message.set_content(text)
        message.add_alternative(page, subtype="html")
        return message

    try:
        send_mail(load_config().config, write)
    except (DeliveryError, OSError, SMTPException) as error:
        raise ShockwaveError(f"the mail could not be sent: {error}") from error
