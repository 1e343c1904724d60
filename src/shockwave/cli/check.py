"""``shockwave check``: does everything that a scheduler keeps follow from its journal?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from shockwave.cli.console import console, note, one_line_errors
from shockwave.cli.journals import open_store
from shockwave.model.words import count_of


def check(
    state_dir: Annotated[
        Path, typer.Argument(metavar="STATE_DIR", help="Of a scheduler, running or not.")
    ],
    database_url: Annotated[
        str | None, typer.Option(help="Where the journal is not in the state directory.")
    ] = None,
) -> None:
    """Rebuild the state of a scheduler from its journal and compare; exit code 1 if it differs."""
    with one_line_errors():
        from shockwave.server.check import differences
        from shockwave.server.snapshots import Snapshots

        store = open_store(database_url or str(state_dir), state_dir)
        try:
            origin_unix = store.started_unix()
            snapshots = Snapshots(state_dir / "snapshots", store)
            last, _ = store.last_event()
            with console.status("reading the journal") as status:

                def show(events: int) -> None:
                    status.update(f"reading the journal: {events:,} of {last:,} events")

                found = list(differences(store, snapshots, origin_unix, show))
        finally:
            store.close()
        for line in found:
            console.print(escape(line), soft_wrap=True)
        if found:
            note(
                f"{count_of(len(found), 'difference')}. The journal is right; delete the snapshots."
            )
            raise typer.Exit(1)
        note(f"{last:,} events: snapshots and index are as the journal says.")
