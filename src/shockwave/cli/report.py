"""``shockwave report``: the report of any run, a live one included."""

from __future__ import annotations

import re
from email.message import EmailMessage
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shockwave.cli.console import note, one_line_errors
from shockwave.cli.journals import DATABASE, StateDirOption, events_of
from shockwave.engine.journal import read_journal
from shockwave.engine.rounds import Rounds
from shockwave.measure import fold_history, summarize, write_report
from shockwave.model.errors import InputError, ShockwaveError
from shockwave.model.events import Event, RunStarted
from shockwave.model.files import check_writable
from shockwave.policies.registry import POLICIES
from shockwave.protocol.files import atomic_writer

if TYPE_CHECKING:
    from shockwave.executors.slurm.watch import SeenJob
    from shockwave.measure.shadow import ShadowReport


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
    from shockwave.measure.week_replay import replay_week
    from shockwave.measure.weekly import week_of
    from shockwave.measure.weekly_mail import mail_of, text_of
    from shockwave.measure.weekly_page import Calendar, WeekReport, render_week

    if len(runs) != 1:
        raise InputError("expected one run with --weekly", value=runs)
    for name in against:
        POLICIES.load(name)
    if to:
        _check_mail(to)
    seen = _seen_by_a_shadow(Path(runs[0]))
    rounds = _rounds_of_a_shadow(Path(runs[0])) if seen else Rounds()
    events = _of_slurm(seen, rounds) if seen else list(events_of(runs[0], state_dir))
    first = events[0] if events else None
    origin = first.started_unix if isinstance(first, RunStarted) else None
    week = week_of(events)
    report = WeekReport(
        f"The week of {Path(runs[0]).absolute().name}",
        week,
        Calendar(origin),
        () if seen else replay_week(events, week.history, week.begin, week.end, against),
        _shadow(seen, (origin or 0.0) + week.begin, against, rounds) if seen else None,
    )
    page = render_week(report)
    with atomic_writer(output) as file:
        file.write(page)
    note(f"Open {output}.")
    if to:
        _mail(to, report.title, text_of(report), mail_of(report), page)
        note(f"Mailed to {', '.join(to)}.")


def _seen_by_a_shadow(run: Path) -> list[SeenJob]:
    """Jobs of Slurm, where the run is what `shockwave shadow` keeps; none of any other."""
    from shockwave.cli.shadow import SEEN, read_seen

    folder = run if run.is_dir() else run.parent
    if not (folder / SEEN).is_file() or (folder / DATABASE).exists():
        return []
    return list(read_seen(folder).values())


def _rounds_of_a_shadow(run: Path) -> Rounds:
    """As it watched, where its journal tells, else as it does by default."""
    from shockwave.cli.shadow import JOURNAL

    journal = (run if run.is_dir() else run.parent) / JOURNAL
    first = next(iter(read_journal(journal)), None) if journal.is_file() else None
    seconds = first.round_seconds if isinstance(first, RunStarted) else 60.0
    return Rounds(seconds, min(20.0, 0.9 * seconds))


def _of_slurm(seen: list[SeenJob], rounds: Rounds) -> list[Event]:
    from shockwave.measure.shadow import journal_of, most_gpus_at_once

    return journal_of(seen, most_gpus_at_once(seen), rounds.round_seconds)


def _shadow(
    seen: list[SeenJob], begin_unix: float, policies: list[str], rounds: Rounds
) -> ShadowReport | None:
    """Only of the jobs that ended in the week; None if none did."""
    from shockwave.measure.shadow import ended, report

    of_week = [job for job in ended(seen) if (job.ended or 0.0) >= begin_unix]
    chosen = policies or ["shockwave"]
    return report(of_week, history=seen, chosen=chosen, rounds=rounds) if of_week else None


def _check_mail(to: list[str]) -> None:
    """Before anything is computed. Raises :class:`InputError`."""
    from shockwave.server.config import load_config

    for address in to:
        if not re.fullmatch(r"[^@\s,]+@[^@\s,]+", address):
            raise InputError("is no address", place="--mail-to", value=address)
    if load_config().config.smtp is None:
        raise InputError(
            "there is no server for mail",
            place="--mail-to",
            value=", ".join(to),
            hint="Set smtp in the configuration, or SHOCKWAVE_SMTP",
        )


def _mail(to: list[str], subject: str, text: str, body: str, page: str) -> None:
    from smtplib import SMTPException

    from shockwave.server.config import load_config
    from shockwave.server.couriers import DeliveryError, send_mail

    def write(sender: str) -> EmailMessage:
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = sender, ", ".join(to), subject
        message.set_content(text)
        message.add_alternative(body, subtype="html")
        message.add_attachment(page.encode(), maintype="text", subtype="html", filename="week.html")
        return message

    try:
        send_mail(load_config().config, write)
    except (DeliveryError, OSError, SMTPException) as error:
        raise ShockwaveError(f"the mail could not be sent: {error}") from error
