"""The table that compares policies, one row each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table

from shockwave.cli.console import duration
from shockwave.measure import FAIRNESS
from shockwave.measure.fairness import WITH_OPTIONS
from shockwave.measure.summary import Summary

_WIDE = 112  # characters that all columns need; below, the least important ones are left out
_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


@dataclass(frozen=True)
class _Column:
    header: str
    cell: Callable[[Summary], str]
    always: bool = True


def comparison_table(rows: Sequence[Summary], title: str, width: int) -> Table:
    """Figures may be numbers, or means with intervals where several seeds were run."""
    unit, suffix = _unit(rows)

    def time(key: str) -> Callable[[Summary], str]:
        return lambda row: _show(row[key], lambda seconds: f"{seconds / unit:.2f}")

    known = [name for name in WITH_OPTIONS if any(row.get(f"worst_ftf_{name}") for row in rows)]
    definitions = [*FAIRNESS, *known]
    columns = [
        _Column("policy", lambda row: str(row["policy"])),
        _Column(f"makespan\n{suffix}", time("makespan_seconds")),
        _Column("\n/ bound", _ratio_to_bound),
        _Column(f"JCT {suffix}\nmean", time("mean_jct_seconds")),
        _Column("\np99", time("p99_jct_seconds"), always=False),
        *(_Column(f"{name}\nworst unfair", _fairness(name)) for name in definitions),
        _Column("utili-\nsation", lambda row: _show(row["utilization"], _percent), always=False),
        _Column("\nrestarts", lambda row: _show(row["restarts"], _count), always=False),
        _Column(
            "decision\np95", lambda row: _show(row["plan_seconds_p95"], duration), always=False
        ),
    ]
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    shown = [column for column in columns if column.always or width >= _WIDE]
    for column in shown:
        first = column is columns[0]
        table.add_column(column.header, justify="left" if first else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(column.cell(row) for column in shown))
    table.caption = (
        "Finish-time fairness by three definitions: worst job, and share of jobs above 1.05."
        if not known
        else "Finish-time fairness by four definitions: worst job, and share of jobs above 1.05 "
        "(Sia's: above 1)."
    )
    table.caption_justify = "left"
    return table


def _unit(rows: Sequence[Summary]) -> tuple[float, str]:
    """The largest unit in which the longest makespan, or completion time, is at least 2."""
    keys = ("makespan_seconds", "p99_jct_seconds")
    longest = max((_mean(row[key]) or 0.0 for row in rows for key in keys), default=0.0)
    return next((unit for unit in _UNITS if longest >= 2 * unit[0]), (1.0, "s"))


def _fairness(name: str) -> Callable[[Summary], str]:
    def cell(row: Summary) -> str:
        worst = _show(row[f"worst_ftf_{name}"], lambda value: f"{value:.2f}").splitlines()
        unfair = _show(row[f"unfair_{name}"], _percent).splitlines()
        return "\n".join(f"{left} {right:>5}" for left, right in zip(worst, unfair, strict=False))

    return cell


def _ratio_to_bound(row: Summary) -> str:
    makespan = _mean(row["makespan_seconds"])
    bound = _mean(row["makespan_lower_bound_seconds"])
    return "-" if makespan is None or not bound else f"{makespan / bound:.3f}"


def _mean(value: Any) -> float | None:
    mean: float | None = value["mean"] if isinstance(value, dict) else value
    return mean


def _show(value: Any, form: Callable[[float], str]) -> str:
    if value is None:
        return "-"
    if not isinstance(value, dict):
        return form(value)
    half_width = value["ci95"]
    return f"{form(value['mean'])}\n±{form(half_width or 0.0)}"


def _percent(value: float) -> str:
    return f"{value:.0%}"


def _count(value: float) -> str:
    return f"{value:,.0f}"
