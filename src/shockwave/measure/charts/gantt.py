"""Who ran when: one row per GPU, grouped by node, a bar for every lease.

All bars of a model are one path in units of seconds and slots, scaled by a transform, so that
tens of thousands of them stay small and exact. Which job each bar belongs to is in a parallel
list, from which the page's script makes tooltips.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shockwave.measure.charts.canvas import Axis, Canvas, Margins
from shockwave.measure.charts.palette import MODEL_SHADES, model_class
from shockwave.measure.charts.svg import escape, px, time_ticks
from shockwave.measure.history import RunHistory
from shockwave.model.view import Floats, Ints

MAX_LEASES = 20_000
MAX_ROWS = 512
_UNNAMED = "no model"


@dataclass(frozen=True)
class Gantt:
    """A chart and what a caption has to say about what it leaves out."""

    svg: str
    leases_shown: int
    leases: int
    rows_shown: int
    rows: int


def model_order(histories: list[RunHistory]) -> list[str]:
    """Models by their leased GPU time over all runs, so that one model is one colour."""
    total: Counter[str] = Counter()
    for history in histories:
        for model, seconds in zip(
            history.jobs.model, history.jobs.gpu_seconds.tolist(), strict=True
        ):
            total[model or _UNNAMED] += seconds
    return sorted(total, key=lambda model: (-total[model], model))


def model_legend(models: list[str]) -> str:
    """A key of model colours; models beyond the palette share the last one."""
    named = models[: len(MODEL_SHADES)]
    keys = [
        f'<span class="key"><i class="{model_class(position)}"></i>{escape(model)}</span>'
        for position, model in enumerate(named)
    ]
    if len(models) > len(named):
        rest = f"{len(models) - len(named)} other models"
        keys.append(f'<span class="key"><i class="{model_class(len(named))}"></i>{rest}</span>')
    return f'<div class="keys">{"".join(keys)}</div>'


def gantt_chart(
    history: RunHistory,
    models: list[str],
    *,
    horizon_seconds: float,
    label: str,
    max_leases: int = MAX_LEASES,
    width: int = 1120,
) -> Gantt:
    """The Gantt chart of a run up to ``horizon_seconds``.

    Beyond ``max_leases`` only the longest are drawn, beyond ``MAX_ROWS`` GPUs only the first.
    """
    rows = sum(node.gpus for node in history.nodes)
    rows_shown = max(min(rows, MAX_ROWS), 1)
    chosen = _longest(history.leases.seconds, max_leases)
    row_height = min(max(620 / rows_shown, 1.5), 15.0)
    canvas = Canvas(
        label,
        Axis(0.0, horizon_seconds, time_ticks(horizon_seconds, at_most=12), unit="time"),
        Axis(rows_shown, 0.0, ()),
        width,
        row_height * rows_shown + 32,
        Margins(62, 8, 6, 26),
    )
    x_scale = (canvas.right - canvas.left) / horizon_seconds

    paths: dict[int, list[str]] = {}
    owners: dict[int, list[int]] = {}
    position = {model: index for index, model in enumerate(models)}
    jobs = history.jobs
    shown_jobs: dict[int, int] = {}
    for lease, slot, count in _bars(history, chosen, rows_shown):
        job = int(history.leases.job[lease])
        colour = min(position[jobs.model[job] or _UNNAMED], len(MODEL_SHADES))
        start, stop = round(history.leases.start[lease]), round(history.leases.stop[lease])
        tall = f"{count - 0.16:.2f}".rstrip("0").rstrip(".")
        paths.setdefault(colour, []).append(f"M{start} {slot}h{stop - start}v{tall}H{start}z")
        owners.setdefault(colour, []).append(shown_jobs.setdefault(job, len(shown_jobs)))

    facts = [[jobs.id[job], jobs.model[job], int(jobs.gpus[job])] for job in shown_jobs]
    data = json.dumps({"jobs": facts, "owners": owners}, separators=(",", ":"))
    _draw_nodes(canvas, history, rows_shown)
    canvas.draw_axes(vertical_grid=True)
    scale = f"scale({x_scale:.8g} {row_height:.6g})"
    canvas.raw(f'<g transform="translate({px(canvas.left)} {px(canvas.top)}) {scale}">')
    for colour, bars in sorted(paths.items()):
        canvas.path("".join(bars), f"bars {model_class(colour)}", model=colour)
    canvas.raw('<path class="chosen"/></g>')
    svg = canvas.inline("gantt", owners=data, x=f"{x_scale:.8g}", y=f"{row_height:.6g}")
    return Gantt(svg, len(chosen), len(history.leases), rows_shown, rows)


def _longest(seconds: Floats, at_most: int) -> Ints:
    """The longest leases, in order of start. Of equally long ones, some from all of the run."""
    if len(seconds) <= at_most:
        return np.arange(len(seconds))
    scattered = np.arange(len(seconds)) * 0.6180339887498949 % 1.0
    return np.sort(np.lexsort((scattered, -seconds))[:at_most])


def _bars(history: RunHistory, leases: Ints, rows: int) -> Iterator[tuple[int, int, int]]:
    """(lease, first slot, slots) for every run of neighbouring slots that a lease held."""
    for lease in leases.tolist():
        held = [slot for slot in history.held_slots(lease) if slot < rows]
        first = 0
        for index in range(1, len(held) + 1):
            if index == len(held) or held[index] != held[index - 1] + 1:
                yield lease, held[first], index - first
                first = index


def _draw_nodes(canvas: Canvas, history: RunHistory, rows: int) -> None:
    """Names beside the rows of each node, every second one shaded; no two names collide."""
    row, label_free_from = 0, 0.0
    for number, node in enumerate(history.nodes):
        if row >= rows:
            break
        y, end = canvas.y(row), canvas.y(min(row + node.gpus, rows))
        if number % 2:
            canvas.rectangle(canvas.left, y, canvas.right - canvas.left, end - y, "band")
        middle = (y + end) / 2
        if middle - 6 >= label_free_from:
            name = node.id if len(node.id) <= 8 else node.id[:7] + "…"
            canvas.text(canvas.left - 8, middle + 4, name, "end", title=node.id)
            label_free_from = middle + 6
        row += node.gpus
