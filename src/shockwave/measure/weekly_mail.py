"""The week as a mail: programs that show mail know tables and little else."""

from __future__ import annotations

from collections.abc import Sequence

from shockwave.measure.charts.svg import escape
from shockwave.measure.weekly_page import (
    HEAD_OF_REPLAYS,
    HEAD_OF_SHADOW,
    WeekReport,
    percent,
    replay_rows,
    shadow_rows,
    share_rows,
    spoken,
)

_CELL = "padding:4px 10px;border-bottom:1px solid #e3e7ec;font-size:13px"


def mail_of(report: WeekReport) -> str:
    """The same figures without charts and scripts, styled where they stand."""
    week = report.week
    facts = "".join(
        f'<td style="padding:0 18px 0 0"><b style="font-size:18px">{escape(value)}</b><br>'
        f'<span style="color:#5a6472;font-size:12px">{escape(name)}</span></td>'
        for value, name in report.facts
    )
    parts = [
        f'<h1 style="font-size:20px;margin:0">{escape(report.title)}</h1>',
        f'<p style="color:#5a6472;margin:4px 0 14px">{escape(report.when)}</p>',
        f"<table><tr>{facts}</tr></table>",
        _mail_days(report),
        _mail_table("By tenant", *share_rows("Tenant", week.tenants, week.due))
        if len(week.tenants) > 1
        else "",
        _mail_table("By person", *share_rows("Person", week.people, {})),
    ]
    if report.replays:
        rows = replay_rows(report.replays)
        parts.append(_mail_table("What another policy would have done", HEAD_OF_REPLAYS, rows))
    if report.shadow is not None:
        rows = shadow_rows(report.shadow)
        parts.append(_mail_table("What Shockwave would have done", HEAD_OF_SHADOW, rows))
    parts.append('<p style="color:#5a6472;font-size:12px">The attached page has the charts.</p>')
    return (
        '<!doctype html><html lang="en"><body style="font-family:Arial,sans-serif;color:#14181f">'
        + "\n".join(parts)
        + "</body></html>\n"
    )


def _mail_days(report: WeekReport) -> str:
    rows = []
    for day in report.week.days:
        part = 0.0 if day.use is None else min(day.use, 1.0)
        bar = f'<div style="width:{160 * part:.0f}px;height:10px;background:#2a6fdb"></div>'
        cells = (
            percent(day.use),
            bar,
            spoken(day.mean_wait_seconds),
            f"{day.finished:,}",
        )
        name = escape(report.calendar.moment(day.begin))
        rows.append("".join(f'<td style="{_CELL}">{cell}</td>' for cell in (name, *cells)))
    head = ("Day from", "used", "", "mean wait", "finished")
    return _mail_rows("How full it was", head, rows)


def _mail_table(heading: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [
        "".join(
            f'<td style="{_CELL};text-align:{"right" if index else "left"}">{escape(cell)}</td>'
            for index, cell in enumerate(row)
        )
        for row in rows
    ]
    return _mail_rows(heading, head, cells)


def _mail_rows(heading: str, head: Sequence[str], rows: Sequence[str]) -> str:
    titles = "".join(
        f'<th style="{_CELL};text-align:{"right" if index else "left"};color:#5a6472">'
        f"{escape(name)}</th>"
        for index, name in enumerate(head)
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<h2 style="font-size:15px;margin:20px 0 4px">{escape(heading)}</h2>'
        f'<table style="border-collapse:collapse"><tr>{titles}</tr>{body}</table>'
    )


def text_of(report: WeekReport) -> str:
    """The same in a few lines, for people who read mail as text."""
    facts = [f"{value} {name}" for value, name in report.facts]
    lines = [report.title, report.when, "", *facts, ""]
    lines += [f"{share.name}: {share.gpu_hours:,.1f} GPU hours" for share in report.week.people]
    for name, _, jct, difference, *_ in replay_rows(report.replays):
        lines += [""] if difference == "" else []
        lines.append(f"{name}: mean JCT {jct} {difference}".rstrip())
    return "\n".join(lines) + "\n"
