"""A plot area with two axes, on which charts are drawn as SVG. Colours come from style classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import resources

from shockwave.measure.charts import palette
from shockwave.measure.charts.svg import Scale, duration, escape, px

_CHARACTER_PIXELS = 6.2  # about what a character of a label takes


@dataclass(frozen=True)
class Axis:
    """The range of values, its ticks, and how values are written.

    ``unit`` is how the report's script writes a value that is pointed at: ``time``, ``ratio``,
    ``share`` or ``count``.
    """

    low: float
    high: float
    ticks: Sequence[float]
    label: str = ""
    unit: str = "ratio"
    log: bool = False
    text: Callable[[float], str] | None = None

    def write(self, value: float) -> str:
        if self.text is not None:
            return self.text(value)
        return duration(value) if self.unit == "time" else f"{value:g}"


@dataclass(frozen=True)
class Margins:
    """Pixels around the plot area."""

    left: float
    right: float
    top: float
    bottom: float


class Canvas:
    """A chart under construction; ``x`` and ``y`` map values to pixels."""

    def __init__(
        self, label: str, x_axis: Axis, y_axis: Axis, width: float, height: float, margins: Margins
    ) -> None:
        self.width, self.height = width, height
        self.left, self.right = margins.left, width - margins.right
        self.top, self.bottom = margins.top, height - margins.bottom
        self.x_axis, self.y_axis = x_axis, y_axis
        self.x = Scale(x_axis.low, x_axis.high, self.left, self.right, x_axis.log)
        self.y = Scale(y_axis.low, y_axis.high, self.bottom, self.top, y_axis.log)
        self._label = label
        self._parts: list[str] = []

    def draw_axes(self, *, vertical_grid: bool = False) -> None:
        """Lines across at the ticks of ``y``, ticks and names below; no two names collide."""
        for tick in self.y_axis.ticks:
            self.path(f"M{px(self.left)},{px(self.y(tick))}H{px(self.right)}", "grid")
            self.text(self.left - 8, self.y(tick) + 4, self.y_axis.write(tick), "end")
        free_from = -1e9
        for tick in self.x_axis.ticks:
            x = self.x(tick)
            if vertical_grid:
                self.path(f"M{px(x)},{px(self.top)}V{px(self.bottom)}", "grid")
            else:
                self.path(f"M{px(x)},{px(self.bottom)}v4", "tick")
            name = self.x_axis.write(tick)
            half = len(name) * _CHARACTER_PIXELS / 2
            at, anchor = (x, "middle") if x + half <= self.width else (self.width, "end")
            begin = at - half if anchor == "middle" else at - 2 * half
            if begin >= free_from:
                self.text(at, self.bottom + 18, name, anchor)
                free_from = begin + 2 * half + 4
        if self.x_axis.label:
            middle = (self.left + self.right) / 2
            self.text(middle, self.bottom + 38, self.x_axis.label, "middle", "axis")
        if self.y_axis.label:
            middle = (self.top + self.bottom) / 2
            self._parts.append(
                f'<text class="axis" transform="rotate(-90)" x="{px(-middle)}" y="14" '
                f'text-anchor="middle">{escape(self.y_axis.label)}</text>'
            )

    def path(self, d: str, kind: str, **data: object) -> None:
        """A path with the style class ``kind``; ``data`` is what the report's script reads."""
        told = "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())
        self._parts.append(f'<path class="{kind}"{told} d="{d}"/>')

    def text(
        self, x: float, y: float, text: str, anchor: str, kind: str = "label", title: str = ""
    ) -> None:
        """At a place in pixels; ``title`` shows when it is pointed at."""
        shown = f"<title>{escape(title)}</title>" if title else ""
        self._parts.append(
            f'<text class="{kind}" x="{px(x)}" y="{px(y)}" text-anchor="{anchor}">'
            f"{escape(text)}{shown}</text>"
        )

    def rectangle(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        self._parts.append(
            f'<rect class="{kind}" x="{px(x)}" y="{px(y)}" width="{px(width)}" '
            f'height="{px(height)}"/>'
        )

    def dot(self, x: float, y: float, kind: str, title: str = "", radius: float = 3) -> None:
        """At a place in pixels; ``title`` shows when it is pointed at."""
        self._parts.append(
            f'<circle class="dot {kind}" cx="{px(x)}" cy="{px(y)}" r="{px(radius)}">'
            f"<title>{escape(title)}</title></circle>"
        )

    def curve(self, points: Iterable[tuple[float, float]], kind: str) -> None:
        """A line from value to value."""
        self.path("M" + "L".join(f"{px(self.x(x))},{px(self.y(y))}" for x, y in points), kind)

    def legend(self, names: Sequence[str], x: float, y: float) -> None:
        """A key of colours, one below the other."""
        for number, name in enumerate(names):
            row = y + 20 * number
            self.path(f"M{px(x)},{px(row)}h16", f"line {palette.policy_class(number)}")
            self.text(x + 24, row + 4, name, "start")

    def raw(self, part: str) -> None:
        """SVG that is made elsewhere."""
        self._parts.append(part)

    def content(self) -> str:
        return "".join(self._parts)

    def inline(self, kind: str, **data: object) -> str:
        """As a part of a page with the style sheet; ``kind`` is ``lines``, ``areas`` or else."""
        axes = {
            "unit": self.y_axis.unit if kind.startswith("areas") else self.x_axis.unit,
            "low": f"{self.x_axis.low:g}",
            "high": f"{self.x_axis.high:g}",
            "log": int(self.x_axis.log),
            "left": px(self.left),
            "right": px(self.right),
            "top": px(self.top),
            "bottom": px(self.bottom),
            "y-high": f"{self.y_axis.high:g}",
        }
        told = "".join(f' data-{name}="{escape(value)}"' for name, value in (axes | data).items())
        return (
            f'<svg class="chart {kind}" viewBox="0 0 {px(self.width)} {px(self.height)}" '
            f'role="img" aria-label="{escape(self._label)}"{told}>{self.content()}</svg>'
        )


def standalone(title: str, *canvases: Canvas) -> str:
    """A file of its own that shows the canvases, which have the same size."""
    width, height = px(canvases[0].width), px(canvases[0].height)
    content = "".join(canvas.content() for canvas in canvases)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img"><title>{escape(title)}</title>'
        f"<style>{stylesheet()}</style>"
        f'<rect class="surface" width="{width}" height="{height}"/>{content}</svg>\n'
    )


def stylesheet() -> str:
    """What every chart looks like, on light and on dark surfaces."""
    rules = resources.files("shockwave.measure.charts").joinpath("charts.css").read_text("utf-8")
    return f"{palette.stylesheet()}\n{rules}"
