"""Shockwave: a scheduler for shared GPU clusters that plans ahead.

These names are what research needs; extensions import from the layer that they extend.

>>> import shockwave
>>> jobs = shockwave.load("generated:jobs=8", seed=1)
>>> shockwave.compare(jobs, 8, ["fifo", "gavel"])["gavel"].figures["jobs"]
8
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shockwave.version import __version__

if TYPE_CHECKING:
    from shockwave.model.cluster import Cluster
    from shockwave.model.errors import InputError
    from shockwave.model.job import TraceJob
    from shockwave.model.view import View
    from shockwave.policies.base import Decision, Policy
    from shockwave.predict.base import Forecast
    from shockwave.research import compare, generate, simulate
    from shockwave.traces import load

# Imported when somebody asks for them: a job and a command need only their own layer.
_FROM = {
    "Cluster": "model.cluster",
    "InputError": "model.errors",
    "TraceJob": "model.job",
    "View": "model.view",
    "Decision": "policies.base",
    "Policy": "policies.base",
    "Forecast": "predict.base",
    "compare": "research",
    "generate": "research",
    "simulate": "research",
    "load": "traces",
}

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


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"shockwave.{_FROM[name]}"), name)
    return value
