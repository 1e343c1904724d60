"""Bars: one below the other for names, one beside the other for days."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shockwave.measure.charts.canvas import Axis, Canvas, Margins
from shockwave.measure.charts.palette import policy_class
from shockwave.measure.charts.svg import px

_ROW_PIXELS = 24
_FEWEST_COLUMNS = 7  # that a chart has room for: fewer are not made broader
_LETTER_PIXELS = 7.0  # of a name, with room to breathe
_LONGEST_NAME = 22  # letters; what is longer is cut, and told in full when it is pointed at


@dataclass(frozen=True)
class Bar:
    """A name and its value; ``mark`` is what it is to be compared with, if anything."""

    name: str
    value: float
    text: str  # the value as it is written
    mark: float | None = None
    inner: bool = False  # belongs to the one above


def bar_chart(bars: Sequence[Bar], *, label: str, width: int, position: int = 0) -> str:
    """Bars to the right, with names on the left and values at their ends."""
    high = max([bar.value for bar in bars] + [bar.mark or 0.0 for bar in bars] + [1e-9])
    names = [_short(bar.name) for bar in bars]
    left = _LETTER_PIXELS * (max(map(len, names), default=0) + 2)
    right = _LETTER_PIXELS * max([len(bar.text) for bar in bars] + [1]) + 8
    height = _ROW_PIXELS * len(bars) + 6
    axis = Axis(0.0, high, ())
    canvas = Canvas(label, axis, Axis(0.0, 1.0, ()), width, height, Margins(left, right, 3, 3))
    for row, (bar, name) in enumerate(zip(bars, names, strict=True)):
        top = 3 + _ROW_PIXELS * row
        canvas.text(14 if bar.inner else 0, top + 16, name, "start", "label", bar.name)
        thick = 8 if bar.inner else 14
        end = max(canvas.x(bar.value), canvas.left + 1)
        canvas.rectangle(
            canvas.left, top + 12 - thick / 2, end - canvas.left, thick,
            f"column {policy_class(position)}" + (" inner" if bar.inner else ""),
        )  # fmt: skip
        if bar.mark is not None:
            at = canvas.x(bar.mark)
            canvas.path(f"M{px(at)},{px(top + 1)}v22", "due")
        canvas.text(max(end, canvas.x(bar.mark or 0.0)) + 6, top + 16, bar.text, "start")
    return canvas.inline("bars-to-the-right")


def column_chart(
    names: Sequence[str],
    values: Sequence[float | None],
    *,
    y_axis: Axis,
    text: Callable[[float], str],
    label: str,
    width: int,
    height: int = 190,
    position: int = 0,
) -> str:
    """Bars upwards, one for each name; None where there is nothing to show."""
    middles = [index + 0.5 for index in range(len(names))]
    room = float(max(len(names), _FEWEST_COLUMNS))
    x_axis = Axis(0.0, room, middles, text=lambda at: names[int(at)])
    canvas = Canvas(label, x_axis, y_axis, width, height, Margins(58, 8, 20, 24))
    canvas.draw_axes()
    for index, value in enumerate(values):
        if value is None:
            continue
        begin, end, top = canvas.x(index + 0.14), canvas.x(index + 0.86), canvas.y(value)
        canvas.rectangle(
            begin, top, end - begin, canvas.bottom - top, f"column {policy_class(position)}"
        )
        if (end - begin) > _LETTER_PIXELS * len(text(value)):
            canvas.text((begin + end) / 2, top - 5, text(value), "middle")
    return canvas.inline("columns")


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
