"""The report: one HTML file that explains a comparison, and needs nothing but itself.

Style, script and charts are inline, and the page's own policy forbids it to load anything or
to run any script but the one that it was written with.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from shockwave.measure import charts, series
from shockwave.measure.charts.gantt import MAX_LEASES, Gantt, gantt_chart, model_legend, model_order
from shockwave.measure.charts.palette import swatch
from shockwave.measure.charts.svg import count_ticks, duration, escape, ratio_ticks, time_ticks
from shockwave.measure.fairness import FAIRNESS, UNFAIR_ABOVE, finish_time_fairness
from shockwave.measure.history import RunHistory
from shockwave.measure.table import comparison_table
from shockwave.measure.tenants import tenant_figures
from shockwave.model.errors import InputError
from shockwave.model.view import Floats
from shockwave.model.words import count_of
from shockwave.predict.oracle import Oracle
from shockwave.protocol.files import atomic_writer

Run = tuple[Mapping[str, Any], RunHistory]

_GANTT_LEASES = 100_000  # bars in all charts together, to keep the file to a few megabytes


def write_report(
    path: str | Path,
    runs: Sequence[Run],
    title: str,
    aggregates: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Write :func:`render_report` to ``path``, whole or not at all."""
    page = render_report(runs, title, aggregates)
    with atomic_writer(path) as file:
        file.write(page)


def render_report(
    runs: Sequence[Run], title: str, aggregates: Sequence[Mapping[str, Any]] | None = None
) -> str:
    """A page that compares ``runs``, a summary and a history per policy.

    ``aggregates``, one per run and in the same order, replaces the table's figures by means
    over seeds with 95 % intervals; the charts show the runs themselves. The same runs give
    the same bytes. Raises :class:`InputError` when there is nothing to show.
    """
    if not runs:
        raise InputError("needs at least one run", place="report")
    if aggregates is not None and len(aggregates) != len(runs):
        raise InputError("needs one aggregate per run", place="report", value=len(aggregates))
    names = [str(summary["policy"]) for summary, _ in runs]
    histories = [history for _, history in runs]
    clairvoyant = [history.settings.predictor == Oracle.name for history in histories]
    body = [
        f"<header><h1>{escape(title)}</h1>{_facts(runs, aggregates)}</header>",
        _chips(names),
        "<main>",
        _comparison(runs, aggregates, clairvoyant),
        _completion(names, histories),
        _fairness(names, histories),
        _tenants(names, histories),
        _over_time(names, histories),
        _gantts(names, histories),
        f"<footer>{escape(_footer(histories, aggregates))}</footer></main>",
        '<div id="tip" role="status" hidden></div>',
    ]
    return page(title, "\n".join(body))


def page(title: str, body: str) -> str:
    assets = resources.files("shockwave.measure")
    style = charts.stylesheet() + "\n" + assets.joinpath("report.css").read_text("utf-8")
    script = assets.joinpath("report.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{allowed}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style></head>\n"
        f"<body>\n{body}\n<script>{script}</script>\n</body></html>\n"
    )


def _facts(runs: Sequence[Run], aggregates: Sequence[Mapping[str, Any]] | None) -> str:
    summary, history = runs[0]
    settings = history.settings
    facts = [
        _count(summary["jobs"], "job"),
        _count(history.gpus, "GPU"),
        _count(len(history.nodes), "node"),
        (duration(settings.round_seconds), "round"),
        (duration(settings.restart_seconds), "restart"),
        (str(settings.seed), "seed")
        if aggregates is None
        else (str(aggregates[0]["runs"]), "seeds"),
    ]
    bound = summary.get("makespan_lower_bound_seconds")
    if bound is not None:
        facts.insert(3, (duration(bound), "makespan lower bound"))
    items = "".join(f"<li><b>{escape(value)}</b>{escape(name)}</li>" for value, name in facts)
    return f'<ul class="facts">{items}</ul>'


def _count(number: int, thing: str) -> tuple[str, str]:
    value, _, name = count_of(number, thing).partition(" ")
    return value, name


def _chips(names: Sequence[str]) -> str:
    chips = "".join(
        f'<button class="chip" data-chip="{position}" aria-pressed="true" '
        f'title="Show or hide">{swatch(position)}{escape(name)}</button>'
        for position, name in enumerate(names)
    )
    return f'<nav id="policies" aria-label="Policies shown"><div>{chips}</div></nav>'


def section(name: str, heading: str, caption: str, content: str) -> str:
    return (
        f'<section id="{name}"><h2>{escape(heading)}</h2><p class="caption">{escape(caption)}</p>'
        f"{content}</section>"
    )


def _comparison(
    runs: Sequence[Run],
    aggregates: Sequence[Mapping[str, Any]] | None,
    clairvoyant: Sequence[bool],
) -> str:
    caption = (
        "One row a policy; the best figure of every column is marked. Rest on a column's name for "
        "what it means, click it to sort. FTF is finish-time fairness: completion time over that "
        f"of a fair share, by three definitions of fair; a job above {UNFAIR_ABOVE} is unfairly "
        "treated."
    )
    if any(clairvoyant):
        caption += " Clairvoyant policies know the future: they are bounds and never marked."
    if aggregates is not None:
        caption += (
            " Figures are means over seeds, ± half the 95 % confidence interval where seeds differ."
        )
    rows = aggregates if aggregates is not None else [summary for summary, _ in runs]
    return section("table", "Comparison", caption, comparison_table(rows, clairvoyant))


def _completion(names: Sequence[str], histories: Sequence[RunHistory]) -> str:
    lines = [
        charts.Line(position, name, *series.distribution(history.jobs.jct))
        for position, (name, history) in enumerate(zip(names, histories, strict=True))
    ]
    high = max([float(line.x[-1]) for line in lines if len(line.x)], default=1.0) * 1.02

    def chart(ticks: int, width: int, height: int) -> str:
        axis = charts.Axis(0.0, high, time_ticks(high, ticks), "job completion time", "time")
        label = "Distribution of job completion times"
        return charts.cdf_chart(lines, axis, label=label, width=width, height=height)

    caption = (
        "The share of jobs (upwards) that completed within a time after their arrival (to the "
        "right). A curve further to the left and higher is better; a long flat end means that a "
        "few jobs waited very long."
    )
    both = for_both_widths(chart(10, 1120, 330), chart(4, 340, 250))
    return section("jct", "Job completion time", caption, both)


def for_both_widths(broad: str, narrow: str) -> str:
    """The page shows one of the two: letters of a chart keep their size on a phone."""
    return f'<div class="broad">{broad}</div><div class="narrow">{narrow}</div>'


def _fairness(names: Sequence[str], histories: Sequence[RunHistory]) -> str:
    lines = {
        definition: [
            charts.Line(
                position, name, *series.distribution(finish_time_fairness(history, definition))
            )
            for position, (name, history) in enumerate(zip(names, histories, strict=True))
        ]
        for definition in FAIRNESS
    }
    caption = (
        f"The share of jobs with a finish-time fairness rho at or below a value. Right of the line "
        f"at {UNFAIR_ABOVE} a job was treated worse than its fair share: what a curve still lacks "
        "to 100 % at the line is the fraction of unfairly treated jobs, and where it ends is the "
        "worst one. The axis is logarithmic and the same in all three charts."
    )
    return section("ftf", "Finish-time fairness", caption, fairness_charts(lines))


def fairness_charts(lines: Mapping[str, Sequence[charts.Line]]) -> str:
    """A chart for every definition of fair, all with the same axis."""
    values = [line.x for group in lines.values() for line in group if len(line.x)]
    low = min([0.5, *(float(x[0]) for x in values if x[0] > 0)]) / 1.05
    high = max([2.0, *(float(x[-1]) for x in values)]) * 1.05
    cells = []
    for definition, group in lines.items():
        axis = charts.Axis(
            low, high, ratio_ticks(low, high), f"{definition} rho (logarithmic)", log=True
        )
        chart = charts.cdf_chart(
            group, axis, width=372, height=270, mark=(UNFAIR_ABOVE, f"{UNFAIR_ABOVE}"),
            label=f"Distribution of {definition} finish-time fairness",
        )  # fmt: skip
        about = escape(FAIRNESS[definition].description)
        cells.append(
            f'<div><h3>{escape(definition)}</h3><p class="caption">{about}.</p>{chart}</div>'
        )
    return f'<div class="three">{"".join(cells)}</div>'


def _tenants(names: Sequence[str], histories: Sequence[RunHistory]) -> str:
    """Teams, and their people below them, where somebody declared teams."""
    cells = []
    for position, (name, history) in enumerate(zip(names, histories, strict=True)):
        bars = []
        for figures in tenant_figures(history):
            share = "" if figures.share is None else f" ({figures.share:.2f})"
            got, due = figures.gpu_seconds / 3600.0, figures.due_gpu_seconds / 3600.0
            bars.append(charts.Bar(figures.tenant, got, f"{got:,.0f} h{share}", due))
            for person in figures.people:
                hours = person.gpu_seconds / 3600.0
                bars.append(charts.Bar(person.person, hours, f"{hours:,.0f} h", inner=True))
        if bars:
            chart = charts.bar_chart(
                bars, label=f"GPU hours by tenant under {name}", width=372, position=position
            )
            who = f"<h3>{swatch(position)} {escape(name)}</h3>"
            cells.append(f'<div data-policy="{position}">{who}{chart}</div>')
    if not cells:
        return ""
    caption = (
        "GPU hours of each tenant, and of its people below it. The mark is what was due to the "
        "tenant by weights, guarantees and limits while it had jobs, and in brackets is what it "
        "got over that; what others left is lent, so that a bar may end behind the mark."
    )
    content = f'<div class="cells">{"".join(cells)}</div>'
    return section("tenants", "Tenants: their share and what they got", caption, content)


def _horizon(histories: Sequence[RunHistory]) -> float:
    return max([1.0, *(float(h.jobs.end.max()) for h in histories if len(h.jobs))])


def _over_time(names: Sequence[str], histories: Sequence[RunHistory]) -> str:
    horizon = _horizon(histories)
    edges = charts.time_edges(horizon)
    active = [series.active_jobs(history, edges) for history in histories]
    most = max(1.0, max(float(counts.max()) for counts in active))
    count = charts.Axis(0.0, most, count_ticks(most, 3), unit="count", text=lambda y: f"{y:,.0f}")
    titles = ("GPUs in use", "Jobs in the system, and of them waiting")

    def chart(
        position: int,
        label: str,
        areas: Sequence[charts.Area],
        y_axis: charts.Axis,
        ceiling: Floats | None = None,
    ) -> str:
        broad, narrow = (
            charts.area_chart(
                areas, edges, position, x_ticks=time_ticks(horizon, ticks), y_axis=y_axis,
                label=f"{label} under {names[position]}", ceiling=ceiling, width=width,
            )
            for ticks, width in ((7, 540), (4, 340))
        )  # fmt: skip
        return for_both_widths(broad, narrow)

    rows = ['<div class="head"></div>', *(f'<div class="head">{title}</div>' for title in titles)]
    for position, (name, history) in enumerate(zip(names, histories, strict=True)):
        gpus = max(history.gpus, 1)
        changes = len(set(history.capacity_gpus.tolist())) > 1
        ceiling = series.gpus_up(history, edges) / gpus if changes else None
        peak = 1.0 if ceiling is None else max(1.0, float(ceiling.max()))
        share = charts.Axis(0.0, peak, (0.0, 0.5, 1.0), unit="share", text=lambda y: f"{y:.0%}")
        waiting = (active[position] - series.running_jobs(history, edges)).clip(min=0.0)
        in_use = charts.Area("in use", series.busy_gpus(history, edges) / gpus)
        both = (charts.Area("in the system", active[position]),
                charts.Area("waiting", waiting, strong=True))  # fmt: skip
        drawn = (
            chart(position, "GPUs in use", [in_use], share, ceiling),
            chart(position, "Jobs in the system", both, count),
        )
        cells = "".join(
            f'<div><div class="head each">{title}</div>{svg}</div>'
            for title, svg in zip(titles, drawn, strict=True)
        )
        who = f'<div class="who">{swatch(position)}{escape(name)}</div>'
        rows.append(f'<div class="row" data-policy="{position}">{who}{cells}</div>')
    caption = (
        "Left: the share of GPUs that jobs held, restarts included. A high plateau that falls "
        "steeply at the end is good; a long low tail is time in which a few jobs kept the cluster "
        "from being done. Right: all jobs in the system (pale) and those without GPUs (strong). "
        "All charts of a kind share the same axes."
    )
    if any(len(set(history.capacity_gpus.tolist())) > 1 for history in histories):
        caption += " A dashed line is the share of GPUs that were up and not held by others."
    return section("time", "Over time", caption, f'<div class="pairs">{"".join(rows)}</div>')


def _gantts(names: Sequence[str], histories: Sequence[RunHistory]) -> str:
    horizon = _horizon(histories)
    models = model_order(list(histories))
    limit = MAX_LEASES
    if sum(min(len(history.leases), MAX_LEASES) for history in histories) > _GANTT_LEASES:
        limit = _GANTT_LEASES // len(histories)
    tabs, panels = [], []
    for position, (name, history) in enumerate(zip(names, histories, strict=True)):
        chart = gantt_chart(
            history, models, horizon_seconds=horizon, max_leases=limit,
            label=f"Which job held which GPU when under {name}",
        )  # fmt: skip
        tabs.append(
            f'<button class="tab" role="tab" aria-controls="gantt-{position}" '
            f'aria-selected="false">{escape(name)}</button>'
        )
        panels.append(
            f'<div class="wide" role="tabpanel" id="gantt-{position}" aria-label="{escape(name)}">'
            f"{_left_out(chart)}{chart.svg}</div>"
        )
    caption = (
        "A row is a GPU, grouped by node; a bar is the time that a job held it without a break, "
        "coloured by the job's model; bars of a gang lie on each other's rows. Blank is idle. Many "
        "short bars mean many restarts. Rest on a bar to see its job, and all the other bars of it."
    )
    content = f'<div class="tabs" role="tablist">{"".join(tabs)}</div>{model_legend(models)}'
    return section("gantt", "Who ran when", caption, content + "".join(panels))


def _left_out(chart: Gantt) -> str:
    notes = []
    if chart.leases_shown < chart.leases:
        notes.append(f"the {chart.leases_shown:,} longest of {chart.leases:,} leases")
    if chart.rows_shown < chart.rows:
        notes.append(f"the first {chart.rows_shown:,} of {chart.rows:,} GPUs")
    return f'<p class="caption left-out">Shown: {" on ".join(notes)}.</p>' if notes else ""


def _footer(histories: Sequence[RunHistory], aggregates: Sequence[Mapping[str, Any]] | None) -> str:
    settings = histories[0].settings
    note = f"Shockwave {settings.version}. Computed from the journals of {len(histories)} runs."
    if aggregates is not None:
        note += f" The charts show seed {settings.seed}."
    return note
