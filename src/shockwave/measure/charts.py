"""Line and area charts as inline SVG. Colours come from the page's style classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shockwave.measure.palette import policy_class
from shockwave.measure.svg import Scale, duration, escape, px, steps
from shockwave.model.view import Floats


@dataclass(frozen=True)
class Line:
    """One policy's curve: ``policy`` is its position in the report, ``name`` what it is called."""

    policy: int
    name: str
    x: Floats
    y: Floats


@dataclass(frozen=True)
class Axis:
    """A horizontal axis: its range, its ticks, and how values are written."""

    low: float
    high: float
    ticks: Sequence[float]
    label: str
    unit: str  # "time" or "ratio": how the page's script writes a value
    log: bool = False

    def write(self, value: float) -> str:
        return duration(value) if self.unit == "time" else f"{value:g}"


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
    left, right, top, bottom = 46, 14, 20, 44
    x = Scale(axis.low, axis.high, left, width - right, axis.log)
    y = Scale(0.0, 1.0, height - bottom, top)
    parts = [
        f'<svg class="chart lines" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(label)}" data-unit="{axis.unit}" data-low="{axis.low:g}" '
        f'data-high="{axis.high:g}" data-log="{int(axis.log)}" data-left="{left}" '
        f'data-right="{width - right}" data-top="{top}" data-bottom="{height - bottom}">'
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(_horizontal(y(share), left, width - right))
        parts.append(_text(left - 8, y(share) + 4, f"{share:.0%}", "end"))
    for tick in axis.ticks:
        parts.append(_tick(x(tick), height - bottom))
        parts.append(_text(x(tick), height - bottom + 18, axis.write(tick), "middle"))
    parts.append(_text((left + width - right) / 2, height - 6, axis.label, "middle", "axis"))
    if mark is not None:
        at = x(mark[0])
        parts.append(f'<path class="mark" d="M{px(at)},{top}V{height - bottom}"/>')
        parts.append(_text(at, top - 6, mark[1], "middle", "marked"))
    for line in lines:
        if not len(line.x):
            continue
        xs = [x(value) for value in (line.x[0], *line.x.tolist())]
        ys = [y(value) for value in (0.0, *line.y.tolist())]
        parts.append(
            f'<path class="line {policy_class(line.policy)}" data-policy="{line.policy}" '
            f'data-name="{escape(line.name)}" d="{steps(xs, ys)}"/>'
        )
    parts.append(f'<path class="cursor" d="M0,{top}V{height - bottom}"/></svg>')
    return "".join(parts)


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
    y_high: float,
    y_ticks: Sequence[float],
    y_text: Callable[[float], str],
    x_ticks: Sequence[float],
    label: str,
    unit: str,
    ceiling: Floats | None = None,
    width: int = 540,
    height: int = 104,
) -> str:
    """Areas over time on a common scale, one chart a policy. ``ceiling`` draws a limit above."""
    left, right, top, bottom = 44, 8, 8, 22
    x = Scale(0.0, float(edges[-1]), left, width - right)
    y = Scale(0.0, y_high, height - bottom, top)
    parts = [
        f'<svg class="chart areas {policy_class(policy)}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{escape(label)}" data-unit="{unit}" data-low="0" '
        f'data-high="{edges[-1]:g}" data-left="{left}" data-right="{width - right}" '
        f'data-top="{top}" data-bottom="{height - bottom}" data-y-high="{y_high:g}">'
    ]
    for tick in y_ticks:
        parts.append(_horizontal(y(tick), left, width - right))
        parts.append(_text(left - 7, y(tick) + 4, y_text(tick), "end"))
    for tick in x_ticks:
        anchor = "middle" if x(tick) < width - right - 16 else "end"
        parts.append(_tick(x(tick), height - bottom))
        parts.append(_text(x(tick), height - 5, duration(tick), anchor))
    xs = [x(edge) for edge in edges.tolist()]
    for area in areas:
        top_line = _bin_steps(xs, [y(value) for value in area.y.tolist()])
        base = px(y(0.0))
        strength = " strong" if area.strong else ""
        parts.append(
            f'<path class="area{strength}" data-name="{escape(area.name)}" '
            f'd="{top_line}V{base}H{px(xs[0])}Z"/>'
            f'<path class="edge" d="{top_line}"/>'
        )
    if ceiling is not None:
        line = _bin_steps(xs, [y(value) for value in ceiling.tolist()])
        parts.append(f'<path class="ceiling" d="{line}"/>')
    parts.append(f'<path class="cursor" d="M0,{top}V{height - bottom}"/></svg>')
    return "".join(parts)


def time_edges(horizon_seconds: float, bins: int = 220) -> Floats:
    """Edges of equal time bins from 0 to the horizon."""
    return np.linspace(0.0, max(horizon_seconds, 1.0), bins + 1)


def _bin_steps(edges: Sequence[float], levels: Sequence[float]) -> str:
    """A path that is level within each bin."""
    return steps(edges, [*levels, levels[-1]])


def _horizontal(y: float, left: float, right: float) -> str:
    return f'<path class="grid" d="M{px(left)},{px(y)}H{px(right)}"/>'


def _tick(x: float, y: float) -> str:
    return f'<path class="tick" d="M{px(x)},{px(y)}v4"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    return (
        f'<text class="{kind}" x="{px(x)}" y="{px(y)}" text-anchor="{anchor}">{escape(text)}</text>'
    )
