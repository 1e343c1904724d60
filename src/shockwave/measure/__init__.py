"""How well it went: every metric by name, and the report, all from the journal alone.

>>> from shockwave.measure import METRICS
>>> METRICS["makespan_seconds"].description
'When the last job finished, from the start of the run'
"""

from shockwave.measure.fairness import (
    FAIRNESS,
    UNFAIR_ABOVE,
    envy_ratios,
    finish_time_fairness,
    jain_index,
)
from shockwave.measure.fold import fold_history
from shockwave.measure.history import LeaseEnd, RunHistory
from shockwave.measure.metrics import METRICS, Metric
from shockwave.measure.report import render_report, write_report
from shockwave.measure.summary import RECORD_KEYS, aggregate, summarize
from shockwave.plan.fluid import fluid_finish_seconds

__all__ = [
    "FAIRNESS",
    "METRICS",
    "RECORD_KEYS",
    "UNFAIR_ABOVE",
    "LeaseEnd",
    "Metric",
    "RunHistory",
    "aggregate",
    "envy_ratios",
    "finish_time_fairness",
    "fluid_finish_seconds",
    "fold_history",
    "jain_index",
    "render_report",
    "summarize",
    "write_report",
]
