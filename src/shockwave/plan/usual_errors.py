"""How wrong what is foretold usually is, so that the first jobs of a cluster are told the truth.

Errors of what the default policy foretold, before any correction, in the units of
:mod:`shockwave.plan.promises`, on two workloads of every family of :mod:`shockwave.traces.families`
that has neither faults nor lies (``bench/told.py --errors --seeds 1,2``). Every family counts as
much as any other. Each number is the middle of a tenth of them, for the low, the middle and the
high end of an interval.
"""

from __future__ import annotations

START = (
    (-0.64, -0.22, -0.03, 0.0, 0.05, 0.27, 0.55, 0.96, 1.99, 6.32),
    (-0.63, -0.37, -0.2, -0.1, -0.02, 0.0, 0.04, 0.29, 0.88, 3.0),
    (-1.73, -1.31, -0.98, -0.71, -0.5, -0.31, -0.11, 0.0, 0.32, 2.58),
)
FINISH_WAITING = (
    (-0.32, -0.12, -0.02, 0.04, 0.11, 0.21, 0.36, 0.57, 0.91, 1.8),
    (-0.33, -0.18, -0.1, -0.05, -0.02, 0.0, 0.04, 0.13, 0.29, 0.74),
    (-1.05, -0.72, -0.52, -0.37, -0.27, -0.18, -0.1, 0.0, 0.2, 0.95),
)
FINISH_RUNNING = (
    (-0.21, -0.02, 0.0, 0.0, 0.0, 0.01, 0.07, 0.17, 0.36, 0.88),
    (-0.26, -0.09, -0.03, 0.0, 0.0, 0.0, 0.0, 0.0, 0.06, 0.26),
    (-0.93, -0.5, -0.28, -0.15, -0.06, 0.0, 0.0, 0.0, 0.0, 0.22),
)
