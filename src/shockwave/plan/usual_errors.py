"""How wrong what is foretold usually is, so that the first jobs of a cluster are told the truth.

Errors of what the default policy foretold, before any correction, in the units of
:mod:`shockwave.plan.promises`, on two workloads of every family of :mod:`shockwave.traces.families`
that has neither faults nor lies (``bench/told.py --errors --seeds 1,2``). Every family counts as
much as any other. Each number is the middle of a tenth of them, for the low, the middle and the
high end of an interval.
"""

from __future__ import annotations

START = (
    (-0.78, -0.23, -0.01, 0.0, 0.07, 0.32, 0.65, 1.27, 3.04, 9.72),
    (-0.59, -0.31, -0.15, -0.07, 0.0, 0.0, 0.12, 0.44, 1.22, 4.0),
    (-1.71, -1.17, -0.79, -0.53, -0.34, -0.15, 0.0, 0.11, 1.31, 6.24),
)
FINISH_WAITING = (
    (-0.48, -0.17, -0.06, 0.01, 0.08, 0.17, 0.3, 0.51, 0.84, 1.98),
    (-0.41, -0.23, -0.12, -0.07, -0.03, 0.0, 0.03, 0.11, 0.26, 0.78),
    (-1.2, -0.8, -0.58, -0.4, -0.29, -0.19, -0.1, 0.0, 0.27, 1.37),
)
FINISH_RUNNING = (
    (-0.24, -0.03, 0.0, 0.0, 0.0, 0.01, 0.06, 0.16, 0.35, 0.86),
    (-0.31, -0.11, -0.04, 0.0, 0.0, 0.0, 0.0, 0.0, 0.05, 0.25),
    (-1.03, -0.56, -0.32, -0.17, -0.07, 0.0, 0.0, 0.0, 0.0, 0.19),
)
