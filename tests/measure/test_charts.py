"""The chart kit: what every chart relies on."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from shockwave.measure.charts import Axis, Canvas, Margins, standalone

EVIL = '<script>alert("1")</script> & co'
SVG = "{http://www.w3.org/2000/svg}"


def canvas(width: float = 300, *, x: Axis | None = None, y: Axis | None = None) -> Canvas:
    x_axis = x or Axis(0, 10, range(11), text=lambda value: f"{value:.0f} hours")
    return Canvas(EVIL, x_axis, y or Axis(0, 1, (0, 0.5, 1)), width, 200, Margins(40, 10, 10, 40))


def names_below(made: Canvas) -> list[str]:
    made.draw_axes()
    return re.findall(r">(\d+ hours)<", made.content())


def test_a_chart_of_its_own_is_a_whole_file_whatever_things_are_called() -> None:
    made = canvas()
    made.draw_axes()
    made.curve([(0, 0), (10, 1)], "line p0")
    made.dot(5, 5, "p0", EVIL)
    made.legend([EVIL], 10, 10)
    root = ElementTree.fromstring(standalone(EVIL, made, canvas()))
    assert root.findtext(f"{SVG}title") == EVIL
    assert root.findtext(f"{SVG}circle/{SVG}title") == EVIL
    assert EVIL in [text.text for text in root.iter(f"{SVG}text")]
    assert list(root.iter(f"{SVG}script")) == []
    style = root.findtext(f"{SVG}style") or ""
    assert ".p0{" in style
    assert "prefers-color-scheme" in style
    used = {name for item in root.iter() for name in item.get("class", "").split()}
    assert {name for name in used if f".{name}" not in style} <= {"label"}


def test_names_below_a_chart_are_left_out_where_they_would_collide() -> None:
    assert len(names_below(canvas(1200))) == 11
    few = names_below(canvas(300))
    assert few[0] == "0 hours"
    assert 2 <= len(few) < 11


@pytest.mark.parametrize(
    ("axis", "value", "part"),
    [(Axis(0, 10, ()), 5, 0.5), (Axis(1, 100, (), log=True), 10, 0.5), (Axis(8, 0, ()), 6, 0.25)],
)
def test_values_are_where_the_axis_says(axis: Axis, value: float, part: float) -> None:
    made = canvas(x=axis, y=axis)
    assert made.x(value) == pytest.approx(40 + part * 250)
    assert made.y(value) == pytest.approx(160 - part * 150)
