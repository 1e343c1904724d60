"""The week as a page in the language of the report, as a mail, and as a few lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from shockwave.measure import charts, series
from shockwave.measure.charts.svg import count_ticks, duration, escape, time_ticks
from shockwave.measure.fairness import FAIRNESS, UNFAIR_ABOVE
from shockwave.measure.report import fairness_charts, for_both_widths, page, section
from shockwave.measure.shadow import ASSUMPTIONS, ShadowReport
from shockwave.measure.week_replay import WeekReplay
from shockwave.measure.weekly import DAY_SECONDS, Share, Week, fairness_of
from shockwave.measure.whatif import Interval
from shockwave.model.view import Floats
from shockwave.model.words import count_of

_HOURS = 168  # bins of a week
_MOST_BARS = 15  # people or tenants in a chart; the table has all
_ABOUT_SHARES = (
    "GPU hours of the week. Wait is until a job first ran. Fairness is the time that a job took "
    f"over the time that is fair by themis: above {UNFAIR_ABOVE} it was treated unfairly."
)


@dataclass(frozen=True)
class Calendar:
    """Seconds of a run as days; of a simulated one, which has none, as hours and numbers."""

    origin_unix: float | None

    def moment(self, seconds: float) -> str:
        if self.origin_unix is None:
            return f"hour {seconds / 3600.0:.0f}"
        return f"{datetime.fromtimestamp(self.origin_unix + seconds):%a %d %b %Y %H:%M}"

    def day(self, seconds: float) -> str:
        if self.origin_unix is None:
            return f"day {seconds / DAY_SECONDS + 1:.0f}"
        return f"{datetime.fromtimestamp(self.origin_unix + seconds):%a %d}"


@dataclass(frozen=True)
class WeekReport:
    """All that is told of a week."""

    title: str
    week: Week
    calendar: Calendar
    replays: Sequence[WeekReplay] = ()
    shadow: ShadowReport | None = None

    @property
    def when(self) -> str:
        begin, end = map(self.calendar.moment, (self.week.begin, self.week.end))
        return f"{begin} to {end}, {count_of(self.week.gpus, 'GPU')}"

    @property
    def facts(self) -> list[tuple[str, str]]:
        total = self.week.total
        return [
            (percent(self.week.use), "of the GPU time was used"),
            (spoken(total.mean_wait_seconds), "mean wait for GPUs"),
            (f"{total.finished:,}", "jobs finished"),
            (_hours(total.gpu_hours), "GPU hours"),
            (percent(self.week.unfair), "of the jobs unfairly late"),
        ]


def render_week(report: WeekReport) -> str:
    """One page that needs nothing but itself."""
    week = report.week
    facts = [f"<li><b>{escape(value)}</b>{escape(name)}</li>" for value, name in report.facts]
    parts = [
        f'<header><h1>{escape(report.title)}</h1><p class="caption">{escape(report.when)}</p>'
        f'<ul class="facts">{"".join(facts)}</ul></header><main>',
        _use(report),
        _waiting(report),
        _who("tenants", "By tenant", "Tenant", week.tenants, week)
        if len(week.tenants) > 1 or week.due
        else "",
        _who("people", "By person", "Person", week.people, week),
        _fairness(report),
        *_would_have_been(report),
        '</main><div id="tip" role="status" hidden></div>',
    ]
    return page(report.title, "\n".join(parts))


def _use(report: WeekReport) -> str:
    week, history = report.week, report.week.history
    edges = _edges(week)
    gpus = max(week.gpus, 1)
    used = charts.Area("in use", series.busy_gpus(history, edges) / gpus)
    ceiling = series.gpus_up(history, edges) / gpus
    peak = max(1.0, float(ceiling.max()))
    share = charts.Axis(0.0, peak, (0.0, 0.5, 1.0), unit="share", text=lambda y: f"{y:.0%}")
    changed = len(set(history.capacity_gpus.tolist())) > 1
    chart = _over_the_week(report, [used], share, "GPUs in use", 0, ceiling if changed else None)
    caption = "GPU time held by jobs, of that which was there and not held by others."
    if changed:
        caption += " The dashed line is what was there."
    rows = [
        (
            report.calendar.moment(day.begin),
            percent(day.use),
            spoken(day.mean_wait_seconds),
            f"{day.finished:,}",
        )
        for day in week.days
    ]
    table = _table(("Day from", "used", "mean wait", "finished"), rows)
    return section("use", "How full it was", caption, chart + table)


def _waiting(report: WeekReport) -> str:
    week, edges = report.week, _edges(report.week)
    active = series.active_jobs(week.history, edges)
    waiting = (active - series.running_jobs(week.history, edges)).clip(min=0.0)
    most = max(1.0, float(active.max()))
    count = charts.Axis(0.0, most, count_ticks(most, 3), unit="count", text=lambda y: f"{y:,.0f}")
    areas = [charts.Area("in the system", active), charts.Area("waiting", waiting, strong=True)]
    longest = max([day.mean_wait_seconds or 0.0 for day in week.days] + [60.0])

    def columns(ticks: int, width: int) -> str:
        axis = charts.Axis(0.0, longest, time_ticks(longest, ticks), unit="time")
        return charts.column_chart(
            [report.calendar.day(day.begin) for day in week.days],
            [day.mean_wait_seconds for day in week.days],
            y_axis=axis, text=duration, label="Mean wait by day", width=width, position=1,
        )  # fmt: skip

    content = (
        f"<h3>Mean wait until a job first ran, by the day on which it did</h3>"
        f"{for_both_widths(columns(4, 1120), columns(3, 340))}"
        f"<h3>Jobs in the system, and of them waiting</h3>"
        f"{_over_the_week(report, areas, count, 'Jobs in the system', 0)}"
    )
    caption = "Waiting is having no GPUs, at first or after having been stopped for others."
    return section("waiting", "How long it took to get GPUs", caption, content)


def _over_the_week(
    report: WeekReport,
    areas: Sequence[charts.Area],
    y_axis: charts.Axis,
    label: str,
    position: int,
    ceiling: Floats | None = None,
) -> str:
    week, edges = report.week, _edges(report.week)
    ticks = [day.begin - week.begin for day in week.days]
    broad, narrow = (
        charts.area_chart(
            areas, edges - week.begin, position, x_ticks=ticks, y_axis=y_axis, ceiling=ceiling,
            label=label, width=width, height=height,
            x_text=lambda seconds: report.calendar.day(week.begin + seconds),
        )
        for width, height in ((1120, 170), (340, 130))
    )  # fmt: skip
    return for_both_widths(broad, narrow)


def _edges(week: Week) -> Floats:
    return np.linspace(week.begin, max(week.end, week.begin + 1.0), _HOURS + 1)


def _who(name: str, heading: str, what: str, shares: Sequence[Share], week: Week) -> str:
    due = week.due if name == "tenants" else {}
    bars = [
        charts.Bar(share.name, share.gpu_hours, f"{_hours(share.gpu_hours)} h", due.get(share.name))
        for share in shares[:_MOST_BARS]
    ]
    chart = for_both_widths(
        *(charts.bar_chart(bars, label=f"GPU hours, {heading.lower()}", width=width, position=2)
          for width in (1120, 340))
    )  # fmt: skip
    caption = _ABOUT_SHARES
    if due:
        caption += " The mark is what was due by weights, guarantees and limits."
    return section(name, heading, caption, chart + _table(*share_rows(what, shares, due)))


def _fairness(report: WeekReport) -> str:
    lines = {
        definition: [charts.Line(0, "jobs", *series.distribution(values))]
        for definition in FAIRNESS
        for values in (fairness_of(report.week, definition),)
    }
    caption = (
        "Of the jobs that finished in the week, the share with a finish-time fairness at or below "
        f"a value. Right of the line at {UNFAIR_ABOVE} a job took longer than is fair."
    )
    return section("fairness", "How fair it was", caption, fairness_charts(lines))


def _would_have_been(report: WeekReport) -> list[str]:
    sections = []
    if report.replays:
        sections.append(
            section(
                "others",
                "What another policy would have done",
                "The jobs of the week once more in the simulator, from where they were when it "
                "began: same arrivals, same speeds, same failures. Completion times count from the "
                "beginning of the week, of jobs that finish either way. Not what will happen next "
                "week.",
                _table(HEAD_OF_REPLAYS, replay_rows(report.replays)),
            )
        )
    if report.shadow is not None:
        assumed = "".join(f"<li>{escape(one)}</li>" for one in ASSUMPTIONS)
        sections.append(
            section(
                "shadow",
                "What Shockwave would have done",
                "It watched and touched nothing. In brackets what four in five samples lie "
                "between.",
                _table(HEAD_OF_SHADOW, shadow_rows(report.shadow))
                + f'<p class="caption">What was assumed:</p><ul class="caption">{assumed}</ul>',
            )
        )
    return sections


HEAD_OF_REPLAYS = ("Policy", "finished", "mean JCT", "difference", "p95 JCT", "mean wait")


def replay_rows(replays: Sequence[WeekReplay]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for one in replays:
        was, then = one.was, one.would_be
        before, after = was.mean_jct_seconds, then.mean_jct_seconds
        change = f"{after / before - 1:+.1%}" if before and after is not None else "-"
        change = change.replace("-0.0%", "+0.0%")
        for name, outcome, difference in (("as it was", was, ""), (one.policy, then, change)):
            if name == "as it was" and one is not replays[0]:
                continue
            jct, late = outcome.mean_jct_seconds, outcome.p95_jct_seconds
            waited = spoken(outcome.mean_wait_seconds)
            cells = (
                f"{outcome.finished:,}",
                spoken(jct),
                difference,
                spoken(late),
                waited,
            )
            rows.append((name, *cells))
    return rows


HEAD_OF_SHADOW = ("Scheduled by", "mean wait", "mean JCT", "difference", "makespan")


def shadow_rows(shadow: ShadowReport) -> list[tuple[str, ...]]:
    was = shadow.happened
    rows: list[tuple[str, ...]] = [
        ("Slurm, as it was", duration(was.mean_wait), duration(was.mean_jct), "",
         duration(was.makespan))
    ]  # fmt: skip
    for one in shadow.alternatives:
        change = one.mean_jct_change
        rows.append(
            (
                one.name,
                _span(one.mean_wait),
                _span(one.mean_jct),
                f"{change.middle:+.0%} ({change.low:+.0%} to {change.high:+.0%})",
                _span(one.makespan),
            )
        )
    return rows


def _span(interval: Interval) -> str:
    low, middle, high = map(duration, (interval.low, interval.middle, interval.high))
    return f"{middle} ({low} to {high})"


def share_rows(
    what: str, shares: Sequence[Share], due: Mapping[str, float]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    total = sum(share.gpu_hours for share in shares)
    rows = [
        (
            share.name,
            f"{share.gpu_hours:,.1f}",
            *((f"{due.get(share.name, 0.0):,.1f}",) if due else ()),
            percent(share.gpu_hours / total if total else None),
            f"{share.submitted:,}",
            f"{share.finished:,}",
            spoken(share.mean_wait_seconds),
            "-" if share.mean_ftf is None else f"{share.mean_ftf:.2f}",
        )
        for share in shares
    ]
    hours = ("GPU hours", "due") if due else ("GPU hours",)
    return (what, *hours, "share", "submitted", "finished", "mean wait", "fairness"), rows


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    titles = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{titles}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:,.1f}"


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def spoken(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)
