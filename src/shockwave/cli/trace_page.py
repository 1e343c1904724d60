"""A workload as one picture: when jobs come, how much they ask for, how long they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shockwave.cli.pages import page, section
from shockwave.measure.charts import (
    Area,
    Axis,
    Line,
    area_chart,
    cdf_chart,
    time_edges,
)
from shockwave.measure.charts.palette import swatch
from shockwave.measure.charts.svg import count_ticks, duration, escape, time_ticks
from shockwave.model.job import TraceJob
from shockwave.model.view import Floats
from shockwave.traces import TraceDescription
from shockwave.traces.inspect import gpus_wanted

_BARS = 12
_RUNTIME_TICKS = (
    1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400,
)  # fmt: skip
_POINTS = 2000  # of a distribution; more cannot be seen


def trace_page(jobs: Sequence[TraceJob], about: TraceDescription, title: str) -> str:
    """The page, complete in itself. The same jobs give the same bytes."""
    arrival = np.array([job.spec.arrival_seconds for job in jobs])
    exclusive = np.array([job.exclusive_seconds for job in jobs])
    gangs = np.array([job.spec.gpus for job in jobs], dtype=np.float64)
    facts = [
        (f"{about.jobs:,}", "jobs"),
        (duration(about.arrival_span_seconds), "from first to last arrival"),
        (f"{about.gpu_hours:,.0f}", "GPU-hours"),
        (f"{about.mean_gpus_wanted:,.1f}", "GPUs wanted on average"),
        (f"{about.adapting_jobs / about.jobs:.0%}", "of jobs adapt"),
    ]
    sections = [
        section(
            "Arrivals",
            "Jobs that arrive in each of 220 equal parts of the trace.",
            _over_time(*_arrivals(arrival), "jobs that arrive", 0),
        ),
        section(
            "Load",
            "GPUs that jobs would hold if every one of them started when it arrives.",
            _over_time(*gpus_wanted(arrival, exclusive, gangs), "GPUs wanted", 1),
        ),
        section(
            "Runtimes",
            "The share of jobs that take no longer than this, alone on their GPUs, and the "
            "share of all GPU time that these jobs are.",
            f"<p>{swatch(0)} jobs {swatch(1)} GPU time</p>{_runtimes(exclusive, gangs)}",
        ),
        section("GPUs per job", "Jobs by the size of their gang.", _bars(about.gang_sizes)),
        section("Tenants and queues", "Jobs by tenant.", _bars(about.tenants)),
        *([section("Users", "Jobs by user.", _bars(about.users))] if about.users else []),
        section("Models", "Jobs by model.", _bars(about.models)),
    ]
    return page(title, facts, sections)


def _arrivals(arrival: Floats) -> tuple[Floats, Floats]:
    edges = time_edges(float(arrival.max()))
    return edges, np.histogram(arrival, edges)[0].astype(np.float64)


def _over_time(edges: Floats, levels: Floats, name: str, colour: int) -> str:
    most = max(1.0, float(levels.max()))
    count = Axis(0.0, most, count_ticks(most, 4), unit="count", text=lambda y: f"{y:,.0f}")
    return area_chart(
        [Area(name, levels)], edges, colour, x_ticks=time_ticks(float(edges[-1]), 8),
        y_axis=count, label=name, width=1120, height=220,
    )  # fmt: skip


def _runtimes(exclusive: Floats, gangs: Floats) -> str:
    order = np.argsort(exclusive, kind="stable")
    seconds, work = exclusive[order], (exclusive * gangs)[order].cumsum()
    shown = np.unique(np.linspace(0, len(seconds) - 1, _POINTS).astype(np.int64))
    low, high = float(seconds[0]), float(seconds[-1])
    high = high if high > low * 1.01 else low * 2
    ticks = [tick for tick in _RUNTIME_TICKS if low <= tick <= high]
    return cdf_chart(
        [
            Line(0, "jobs", seconds[shown], (shown + 1) / len(seconds)),
            Line(1, "GPU time", seconds[shown], (work / work[-1])[shown]),
        ],
        Axis(low, high, ticks, "runtime alone", "time", log=True),
        label="runtimes",
    )


def _bars(counts: Mapping[str, int] | Mapping[int, int]) -> str:
    total = sum(counts.values())
    shown = [(str(name), count) for name, count in counts.items()][:_BARS]
    rest = total - sum(count for _, count in shown)
    if rest:
        shown.append((f"{len(counts) - _BARS:,} more", rest))
    most = max(count for _, count in shown)
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{count:,}</td><td>{count / total:.1%}</td><td>"
        f'<svg class="p0" width="300" height="12" role="img" aria-label="{count:,} jobs">'
        f'<rect width="{300 * count / most:.1f}" height="12" fill="var(--c)"/></svg></td></tr>'
        for name, count in shown
    )
    return f"<table><tbody>{rows}</tbody></table>"
