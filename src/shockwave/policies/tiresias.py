"""Tiresias (NSDI '19): least attained service in two discretised queues."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import View
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import fill
from shockwave.predict.base import Forecast


class Tiresias(Policy):
    """Jobs below ``threshold`` attained GPU-seconds come first; FIFO within each queue.

    Discretised queues keep jobs from trading places every round, which plain least
    attained service does.
    """

    name = "tiresias"

    def __init__(self, threshold_gpu_seconds: float = 3600.0) -> None:
        self.threshold_gpu_seconds = threshold_gpu_seconds

    def decide(self, view: View, forecast: Forecast) -> Decision:
        demoted = view.received_seconds * view.gpus >= self.threshold_gpu_seconds
        order = np.lexsort((view.handle, view.arrival, demoted))
        return Decision(fill(order, view), priority=-demoted.astype(np.float64))
