"""The table of what people would have been told, and how it came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from shockwave.cli.console import duration
from shockwave.measure.told import KINDS


def told_kinds(figures: Mapping[str, Any]) -> list[str]:
    """What a run has told of at all."""
    return [kind for kind in KINDS if figures.get(f"told_{kind}_cases")]


def told_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A row per policy and kind; figures may be numbers, or means over several seeds."""
    table = Table(
        title="What people would have been told (intervals are meant to hold 80 %)",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for header in ("policy", "told of"):
        table.add_column(header, no_wrap=True)
    for header in ("cases", "within", "mean width", "median error", "of a median"):
        table.add_column(header, justify="right")
    for row in rows:
        for kind in told_kinds(row):
            cases, inside, width, error, truth = (
                _mean(row[f"told_{kind}_{name}"])
                for name in ("cases", "inside", "width_seconds", "error_seconds", "truth_seconds")
            )
            table.add_row(
                str(row["policy"]), KINDS[kind], f"{cases:,.0f}",
                "-" if width == 0.0 else f"{inside:.0%}",
                "-" if width == 0.0 else duration(width),
                duration(error), duration(truth),
            )  # fmt: skip
    return table


def _mean(value: Any) -> float:
    return float(value["mean"] if isinstance(value, Mapping) else value)
