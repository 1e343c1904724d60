"""Shockwave: a scheduler for shared GPU clusters that plans ahead.

>>> import shockwave
>>> from shockwave.policies.gavel import Gavel
>>> from shockwave.predict.reactive import Reactive
>>> from shockwave.traces import load
>>> jobs = load("generated:jobs=8", seed=1)
>>> journal = shockwave.simulate(jobs, shockwave.Cluster.uniform(8), Gavel(), Reactive())
>>> sum(event.kind == "job-finished" for event in journal)
8
"""

from shockwave.engine.executor import Executor
from shockwave.engine.state import Rounds
from shockwave.executors.simulation import simulate
from shockwave.model.cluster import Cluster, Node
from shockwave.model.errors import InputError, ShockwaveError
from shockwave.model.job import Adaptation, JobSpec, Regime, TraceJob
from shockwave.model.view import View
from shockwave.policies.base import Decision, Policy
from shockwave.predict.base import Forecast, Predictor
from shockwave.traces.base import TraceFormat
from shockwave.version import __version__

__all__ = [
    "Adaptation",
    "Cluster",
    "Decision",
    "Executor",
    "Forecast",
    "InputError",
    "JobSpec",
    "Node",
    "Policy",
    "Predictor",
    "Regime",
    "Rounds",
    "ShockwaveError",
    "TraceFormat",
    "TraceJob",
    "View",
    "__version__",
    "simulate",
]
