"""The charts of the report: cumulative distributions, and areas over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shockwave.measure.charts.canvas import Axis, Canvas, Margins
from shockwave.measure.charts.palette import policy_class
from shockwave.measure.charts.svg import px, steps
from shockwave.model.view import Floats

_SHARES = Axis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0), unit="share", text=lambda y: f"{y:.0%}")


@dataclass(frozen=True)
class Line:
    """One policy's curve: ``policy`` is its position in the report, ``name`` what it is called."""

    policy: int
    name: str
    x: Floats
    y: Floats


def cdf_chart(
    lines: Sequence[Line],
    axis: Axis,
    *,
    label: str,
    width: int = 1120,
    height: int = 330,
    mark: tuple[float, str] | None = None,
) -> str:
    """Cumulative distributions: the share of jobs at or below each value.

    ``mark`` draws a vertical line at a value, with a word beside it.
    """
    canvas = Canvas(label, axis, _SHARES, width, height, Margins(46, 14, 20, 44))
    canvas.draw_axes()
    upright = f"{px(canvas.top)}V{px(canvas.bottom)}"
    if mark is not None:
        at = canvas.x(mark[0])
        canvas.path(f"M{px(at)},{upright}", "mark")
        canvas.text(at, canvas.top - 6, mark[1], "middle", "marked")
    for line in lines:
        if not len(line.x):
            continue
        xs = [canvas.x(value) for value in (line.x[0], *line.x.tolist())]
        ys = [canvas.y(value) for value in (0.0, *line.y.tolist())]
        kind = f"line {policy_class(line.policy)}"
        canvas.path(steps(xs, ys), kind, policy=line.policy, name=line.name)
    canvas.path(f"M0,{upright}", "cursor")
    return canvas.inline("lines")


@dataclass(frozen=True)
class Area:
    """A filled curve over time bins; ``strong`` fills darker, for what lies in front."""

    name: str
    y: Floats
    strong: bool = False


def area_chart(
    areas: Sequence[Area],
    edges: Floats,
    policy: int,
    *,
    x_ticks: Sequence[float],
    y_axis: Axis,
    label: str,
    ceiling: Floats | None = None,
    width: int = 540,
    height: int = 104,
    x_text: Callable[[float], str] | None = None,
) -> str:
    """Areas over time on a common scale, one chart a policy. ``ceiling`` draws a limit above."""
    x_axis = Axis(0.0, float(edges[-1]), x_ticks, unit="time", text=x_text)
    canvas = Canvas(label, x_axis, y_axis, width, height, Margins(44, 8, 8, 22))
    canvas.draw_axes()
    xs = [canvas.x(edge) for edge in edges.tolist()]
    for area in areas:
        top_line = _bin_steps(xs, [canvas.y(value) for value in area.y.tolist()])
        whole = f"{top_line}V{px(canvas.y(0.0))}H{px(xs[0])}Z"
        canvas.path(whole, "area strong" if area.strong else "area", name=area.name)
        canvas.path(top_line, "edge")
    if ceiling is not None:
        canvas.path(_bin_steps(xs, [canvas.y(value) for value in ceiling.tolist()]), "ceiling")
    canvas.path(f"M0,{px(canvas.top)}V{px(canvas.bottom)}", "cursor")
    return canvas.inline(f"areas {policy_class(policy)}")


def time_edges(horizon_seconds: float, bins: int = 220) -> Floats:
    """Edges of equal time bins from 0 to the horizon."""
    return np.linspace(0.0, max(horizon_seconds, 1.0), bins + 1)


def _bin_steps(edges: Sequence[float], levels: Sequence[float]) -> str:
    """A path that is level within each bin."""
    return steps(edges, [*levels, levels[-1]])
