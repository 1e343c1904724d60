"""A calibration plot: how often intervals of a nominal level cover the truth."""

from __future__ import annotations

from collections.abc import Sequence

from shockwave.measure.charts import Axis, Canvas, Margins, standalone
from shockwave.measure.charts.palette import policy_class
from shockwave.predict.scoring import Score

_LEGEND = 230
_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def calibration_svg(scores: Sequence[Score]) -> str:
    """Nominal against empirical coverage, one line per predictor, as a standalone SVG.

    Uses the scores over all points of progress. On the diagonal is calibrated, below it
    overconfident, above it too cautious.
    """
    title = "Calibration of predicted intervals"
    nominal, seen = (
        Axis(0.0, 1.0, _TICKS, label, text=lambda share: f"{share:.0%}")
        for label in ("nominal level of the interval", "share of true remaining times inside")
    )
    canvas = Canvas(title, nominal, seen, 460 + _LEGEND, 440, Margins(64, 36 + _LEGEND, 20, 52))
    canvas.draw_axes()
    canvas.curve([(0.0, 0.0), (1.0, 1.0)], "guide")
    overall = [score for score in scores if score.progress is None and score.cases]
    for number, score in enumerate(overall):
        kind = policy_class(number)
        canvas.curve(score.calibration, f"line {kind}")
        for level, share in score.calibration:
            said = f"{score.predictor}: {level:.0%} intervals cover {share:.1%}"
            canvas.dot(canvas.x(level), canvas.y(share), kind, said)
    names = [f"{score.predictor} ({score.coverage_80:.0%} at 80 %)" for score in overall]
    canvas.legend(names, canvas.right + 24, canvas.top + 10)
    return standalone(title, canvas)
