"""The chart kit: every chart of the reports, the plots and the benchmarks is made with it.

A :class:`Canvas` is a plot area with two axes; charts are inline parts of a page that has the
style sheet, or files of their own that bring it along.
"""

from shockwave.measure.charts.bars import Bar, bar_chart, column_chart
from shockwave.measure.charts.canvas import Axis, Canvas, Margins, standalone, stylesheet
from shockwave.measure.charts.kinds import Area, Line, area_chart, cdf_chart, time_edges

__all__ = [
    "Area",
    "Axis",
    "Bar",
    "Canvas",
    "Line",
    "Margins",
    "area_chart",
    "bar_chart",
    "cdf_chart",
    "column_chart",
    "standalone",
    "stylesheet",
    "time_edges",
]
