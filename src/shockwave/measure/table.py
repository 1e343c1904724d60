"""The comparison table of the report: a row per policy, the best of every column marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shockwave.measure.charts.palette import swatch
from shockwave.measure.charts.svg import escape
from shockwave.measure.metrics import METRICS


@dataclass(frozen=True)
class Column:
    """A metric in the table: the group and the word in its header."""

    metric: str
    group: str
    word: str


COLUMNS = (
    Column("makespan_seconds", "Makespan", "total"),
    Column("mean_jct_seconds", "Job completion time", "mean"),
    Column("p50_jct_seconds", "Job completion time", "p50"),
    Column("p99_jct_seconds", "Job completion time", "p99"),
    Column("worst_ftf_static", "FTF static", "worst"),
    Column("unfair_static", "FTF static", "unfair"),
    Column("worst_ftf_themis", "FTF themis", "worst"),
    Column("unfair_themis", "FTF themis", "unfair"),
    Column("worst_ftf_egalitarian", "FTF egalitarian", "worst"),
    Column("unfair_egalitarian", "FTF egalitarian", "unfair"),
    Column("worst_ftf_sia", "FTF Sia", "worst"),
    Column("unfair_sia", "FTF Sia", "unfair"),
    Column("envy_mean", "Sharing", "envy"),
    Column("jain_index", "Sharing", "Jain"),
    Column("utilization", "Cluster", "util."),
    Column("queueing_mean_seconds", "Cluster", "wait"),
    Column("restarts", "Cluster", "restarts"),
    Column("plan_seconds_p95", "Decision", "p95"),
    Column("plan_gap_max", "Decision", "gap"),
)

# A figure is a number, a mean with a 95 % interval, or missing.
Figure = float | Mapping[str, Any] | None
Write = Callable[[float], str]


def comparison_table(rows: Sequence[Mapping[str, Any]], clairvoyant: Sequence[bool]) -> str:
    """The table of summaries or aggregates, in the order of the report's policies.

    Clairvoyant policies know the future: they are bounds, and never count as the best.
    """
    columns = [
        column for column in COLUMNS if any(row.get(column.metric) is not None for row in rows)
    ]
    scales = {column: _scale(column, rows) for column in columns}
    parts = ['<div class="scroll"><table id="comparison"><thead><tr><th rowspan="2">Policy</th>']
    groups = list(dict.fromkeys(column.group for column in columns))
    for group in groups:
        span = sum(column.group == group for column in columns)
        parts.append(f'<th class="group" colspan="{span}">{escape(group)}</th>')
    parts.append("</tr><tr>")
    for column in columns:
        metric = METRICS[column.metric]
        hint = {"lower": " Lower is better.", "higher": " Higher is better."}.get(metric.better, "")
        unit = f"<small>{escape(scales[column][0])}</small>" if scales[column][0] else ""
        tip = escape(f"{metric.description}.{hint}")
        parts.append(
            f'<th class="{_edge(column, columns)}" data-tip="{tip}" tabindex="0" '
            f'aria-sort="none">{escape(column.word)} {unit}</th>'
        )
    parts.append("</tr></thead><tbody>")
    best = {column: _best(column, rows, clairvoyant, scales[column][1]) for column in columns}
    for position, row in enumerate(rows):
        badge = ' <span class="badge">clairvoyant</span>' if clairvoyant[position] else ""
        parts.append(
            f'<tr data-policy="{position}"><th scope="row">{swatch(position)}'
            f"{escape(row['policy'])}{badge}</th>"
        )
        for column in columns:
            figure = row.get(column.metric)
            text = _text(figure, scales[column][1])
            plain = _plain(figure, scales[column][1])
            marked = plain is not None and plain == best[column] and not clairvoyant[position]
            kinds = f"{_edge(column, columns)}{' best' if marked else ''}"
            value = _mean(figure)
            sorted_by = "" if value is None else f"{value:.9g}"
            parts.append(f'<td class="{kinds}" data-value="{sorted_by}">{text}</td>')
        parts.append("</tr>")
    parts.append("</tbody></table></div>")
    return "".join(parts)


def _mean(figure: Figure) -> float | None:
    if isinstance(figure, Mapping):
        return float(figure["mean"])
    return None if figure is None else float(figure)


def _plain(figure: Figure, write: Write) -> str | None:
    mean = _mean(figure)
    return None if mean is None else write(mean)


def _text(figure: Figure, write: Write) -> str:
    mean = _mean(figure)
    if mean is None:
        return '<span class="none">–</span>'
    if not isinstance(figure, Mapping) or figure["ci95"] is None:
        return write(mean)
    spread = write(figure["ci95"])
    # Where all seeds agree there is no interval to show.
    return (
        write(mean) if spread == write(0.0) else f'{write(mean)}<span class="ci">±{spread}</span>'
    )


def _best(
    column: Column, rows: Sequence[Mapping[str, Any]], clairvoyant: Sequence[bool], write: Write
) -> str | None:
    """What the best figure looks like; whatever looks the same is as good."""
    means = [
        mean
        for row, knows in zip(rows, clairvoyant, strict=True)
        if not knows and (mean := _mean(row.get(column.metric))) is not None
    ]
    better = METRICS[column.metric].better
    if len(means) < 2 or better == "neither":
        return None
    return write(min(means) if better == "lower" else max(means))


def _scale(column: Column, rows: Sequence[Mapping[str, Any]]) -> tuple[str, Write]:
    """The unit in which a column reads best, and how to write a value in it."""
    unit = METRICS[column.metric].unit
    known = [mean for row in rows if (mean := _mean(row.get(column.metric))) is not None]
    largest = max(known, default=0.0)
    if unit == "fraction":
        return "%", lambda value: f"{100 * value:.1f}"
    if unit == "count":
        return "", lambda value: f"{value:,.0f}"
    if unit == "seconds":
        for size, name in ((3600.0, "h"), (60.0, "min"), (1.0, "s")):
            if largest >= 2 * size:
                return name, lambda value, size=size: f"{value / size:,.2f}"
        return "ms", lambda value: f"{1000 * value:,.2f}"
    return "", lambda value: f"{value:,.2f}"


def _edge(column: Column, columns: Sequence[Column]) -> str:
    """The first column of a group has a line before it."""
    first = next(other for other in columns if other.group == column.group)
    return "first" if column is first else ""
