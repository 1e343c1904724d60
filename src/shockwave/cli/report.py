"""``shockwave report``: the report of any run, a live one included."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shockwave.cli.console import note, one_line_errors
from shockwave.cli.journals import StateDirOption, events_of
from shockwave.measure import fold_history, summarize, write_report
from shockwave.model.files import check_writable


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
) -> None:
    """Make the report of runs that happened, live or simulated; several are compared."""
    with one_line_errors():
        check_writable(output)
        histories = [fold_history(events_of(run, state_dir)) for run in runs]
        write_report(
            output, [(summarize(history), history) for history in histories], title=", ".join(runs)
        )
        note(f"Open {output}.")
