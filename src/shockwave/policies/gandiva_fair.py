"""Gandiva-fair (EuroSys '20): proportional share by stride scheduling."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import View
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import fill, largest_first
from shockwave.predict.base import Forecast


class GandivaFair(Policy):
    """Every job holds tickets; whoever has used least per ticket runs next.

    A job's pass is the time it held GPUs over its weight: a gang brings tickets for each
    of its GPUs, so gangs of all sizes get the same share of time. A job that arrives starts
    at the smallest pass of those present, so that it neither catches up nor queues.
    """

    name = "gandiva-fair"

    def __init__(self) -> None:
        self._start_pass: dict[int, float] = {}

    def decide(self, view: View, forecast: Forecast) -> Decision:
        used = view.received_seconds / view.weight
        known = np.array([handle in self._start_pass for handle in view.handle.tolist()])
        start = np.array([self._start_pass.get(handle, 0.0) for handle in view.handle.tolist()])
        floor = float((start + used)[known].min()) if known.any() else 0.0
        start = np.where(known, start, floor)
        self._start_pass = dict(zip(view.handle.tolist(), start.tolist(), strict=True))
        priority = -(start + used)
        return Decision(fill(largest_first(priority), view), priority=priority)
