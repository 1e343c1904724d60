"""A calibration plot: how often intervals of a nominal level cover the truth."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from shockwave.predict.scoring import Score

_SIZE = 360
_LEFT, _TOP, _LEGEND = 56, 24, 170
_COLOURS = ("#1b6ca8", "#d1603d", "#4a8f5c", "#7d5ba6", "#a88a1b", "#555555")


def calibration_svg(scores: Sequence[Score]) -> str:
    """Nominal against empirical coverage, one line per predictor, as a standalone SVG.

    Uses the scores over all points of progress. On the diagonal is calibrated, below it
    overconfident, above it too cautious.
    """
    overall = [score for score in scores if score.progress is None and score.cases]
    parts = [_frame()]
    for number, score in enumerate(overall):
        colour = _COLOURS[number % len(_COLOURS)]
        points = " ".join(
            f"{_x(nominal):.1f},{_y(seen):.1f}" for nominal, seen in score.calibration
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts += [
            f'<circle cx="{_x(nominal):.1f}" cy="{_y(seen):.1f}" r="3" fill="{colour}">'
            f"<title>{escape(score.predictor)}: {nominal:.0%} intervals cover {seen:.1%}</title>"
            "</circle>"
            for nominal, seen in score.calibration
        ]
        row = _TOP + 14 + 20 * number
        parts.append(
            f'<rect x="{_LEFT + _SIZE + 16}" y="{row - 9}" width="12" height="12" '
            f'fill="{colour}"/><text x="{_LEFT + _SIZE + 34}" y="{row + 1}">'
            f"{escape(score.predictor)} ({score.coverage_80:.0%} at 80 %)</text>"
        )
    width, height = _LEFT + _SIZE + _LEGEND + 40, _TOP + _SIZE + 52
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="system-ui, sans-serif" font-size="12" '
        f'fill="#222" role="img"><title>Calibration of predicted intervals</title>'
        f"{''.join(parts)}</svg>"
    )


def _frame() -> str:
    ticks = []
    for tenth in range(0, 11, 2):
        share = tenth / 10
        ticks.append(
            f'<line x1="{_x(0):.1f}" x2="{_x(1):.1f}" y1="{_y(share):.1f}" y2="{_y(share):.1f}" '
            'stroke="#ddd"/>'
            f'<text x="{_LEFT - 8}" y="{_y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>'
            f'<text x="{_x(share):.1f}" y="{_y(0) + 18:.1f}" text-anchor="middle">'
            f"{share:.0%}</text>"
        )
    middle = _LEFT + _SIZE / 2
    return (
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(ticks)}'
        f'<line x1="{_x(0):.1f}" y1="{_y(0):.1f}" x2="{_x(1):.1f}" y2="{_y(1):.1f}" '
        'stroke="#999" stroke-dasharray="5 4"/>'
        f'<text x="{middle:.0f}" y="{_y(0) + 40:.1f}" text-anchor="middle">'
        "nominal level of the interval</text>"
        f'<text transform="rotate(-90)" x="{-(_TOP + _SIZE / 2):.0f}" y="14" '
        'text-anchor="middle">share of true remaining times inside</text>'
    )


def _x(share: float) -> float:
    return _LEFT + share * _SIZE


def _y(share: float) -> float:
    return _TOP + (1.0 - share) * _SIZE
