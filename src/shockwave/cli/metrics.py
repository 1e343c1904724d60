"""``shockwave metrics``: what a job reported, as a line that people can read."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from shockwave.cli.client import DEFAULT_URL, Client, JsonOption, TokenOption, UrlOption, print_json
from shockwave.cli.console import console, note, one_line_errors
from shockwave.cli.jobs import JobArgument

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 48


def metrics(
    job: JobArgument,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this one. Repeat.", show_default=False)
    ] = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a job reported: its loss, and whatever else it gives to report()."""
    with one_line_errors():
        record = Client(url, token).get("jobs", job, "metrics")
        chosen = {
            name: points for name, points in record["metrics"].items() if name in (only or [name])
        }
        if as_json:
            print_json(record | {"metrics": chosen})
            return
        if not chosen:
            note("It has reported nothing yet: session.report(..., loss=..., metrics={...})")
        else:
            console.print(_table(chosen))
        for name, link in record["links"].items():
            console.print(f"{name}: {link}", markup=False, soft_wrap=True)


def _table(chosen: dict[str, list[dict[str, float]]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("metric", "over time", "first", "last", "least", "most", "reports"):
        right = heading not in ("metric", "over time")
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for name, points in chosen.items():
        values = [point["value"] for point in points]
        if not values:
            continue
        ends = (values[0], values[-1], min(values), max(values))
        figures = [f"{value:.4g}" for value in ends]
        table.add_row(escape(name), sparkline(values), *figures, str(len(values)))
    return table


def sparkline(values: Sequence[float], width: int = _WIDTH) -> str:
    """One character a value, or the mean of several.

    >>> sparkline([1, 2, 3, 4, 8])
    '▁▂▃▄█'
    """
    count = min(width, len(values))
    cuts = [round(i * len(values) / count) for i in range(count + 1)]
    means = [sum(values[low:high]) / (high - low) for low, high in itertools.pairwise(cuts)]
    low, high = min(means), max(means)
    span = high - low or 1.0
    last = len(_BARS) - 1
    bars = "".join(_BARS[round((mean - low) / span * last)] for mean in means)
    return bars if _can_print(bars) else ""


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
