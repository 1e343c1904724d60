"""Tables of numbers as a picture: a cell a number, the paler the better; a standalone SVG."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from shockwave.measure.charts.svg import escape, px

_LABEL, _CELL, _ROW, _HEAD, _GAP, _TOP, _MARGIN = 124, 56, 19, 92, 26, 46, 48
_INK, _FAINT = "#1c2430", "#667085"
# From the best to the worst; text stays dark on all of them.
_SHADES = ("#e7f3ec", "#fdf6dd", "#fde3b8", "#f9c39b", "#f0998a")


@dataclass(frozen=True)
class Panel:
    """One table: [row][column] numbers, and the levels above which a cell gets a darker shade."""

    title: str
    cells: Mapping[str, Mapping[str, float]]
    levels: Sequence[float]
    write: Callable[[float], str]


def heatmap_svg(title: str, panels: Sequence[Panel], columns: Sequence[str], note: str) -> str:
    """The panels below one another, with common columns."""
    width = _LABEL + _CELL * len(columns) + _MARGIN
    parts = [
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="12" y="24" font-size="15" font-weight="600">{escape(title)}</text>',
        f'<text x="12" y="42" fill="{_FAINT}">{escape(note)}</text>',
    ]
    top = float(_TOP)
    for panel in panels:
        parts.append(_panel(panel, columns, top))
        top += _HEAD + _ROW * len(panel.cells) + _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {px(width)} {px(top)}" '
        f'width="{px(width)}" height="{px(top)}" font-family="system-ui, sans-serif" '
        f'font-size="11.5" fill="{_INK}" role="img"><title>{escape(title)}</title>'
        f"{''.join(parts)}</svg>\n"
    )


def _panel(panel: Panel, columns: Sequence[str], top: float) -> str:
    first = top + _HEAD
    parts = [f'<text x="12" y="{px(top + 22)}" font-weight="600">{escape(panel.title)}</text>']
    for number, column in enumerate(columns):
        x = _LABEL + _CELL * (number + 0.5)
        parts.append(
            f'<text transform="translate({px(x)},{px(first - 7)}) rotate(-35)">'
            f"{escape(column)}</text>"
        )
    for row, (name, figures) in enumerate(panel.cells.items()):
        parts.append(
            f'<g transform="translate(0,{px(first + _ROW * row)})" text-anchor="middle">'
            f'<text x="{_LABEL - 8}" y="13" text-anchor="end">{escape(name)}</text>'
        )
        for number, column in enumerate(columns):
            if column in figures:
                parts.append(_cell(panel, figures[column], _LABEL + _CELL * number))
        parts.append("</g>")
    return "".join(parts)


def _cell(panel: Panel, value: float, x: int) -> str:
    shade = _SHADES[min(sum(value > level for level in panel.levels), len(_SHADES) - 1)]
    return (
        f'<path fill="{shade}" d="M{x},0h{_CELL - 2}v{_ROW - 2}h-{_CELL - 2}z"/>'
        f'<text x="{x + _CELL // 2 - 1}" y="13">{escape(panel.write(value))}</text>'
    )
