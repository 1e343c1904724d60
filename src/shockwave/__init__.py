"""Shockwave: a scheduler for shared GPU clusters that plans ahead.

These names are what research needs; extensions import from the layer that they extend.

>>> import shockwave
>>> jobs = shockwave.load("generated:jobs=8", seed=1)
>>> shockwave.compare(jobs, 8, ["fifo", "gavel"])["gavel"].figures["jobs"]
8
"""

from shockwave.model.cluster import Cluster
from shockwave.model.errors import InputError
from shockwave.model.job import TraceJob
from shockwave.model.view import View
from shockwave.policies.base import Decision, Policy
from shockwave.predict.base import Forecast
from shockwave.research import compare, generate, simulate
from shockwave.traces import load
from shockwave.version import __version__

__all__ = [
    "Cluster",
    "Decision",
    "Forecast",
    "InputError",
    "Policy",
    "TraceJob",
    "View",
    "__version__",
    "compare",
    "generate",
    "load",
    "simulate",
]
