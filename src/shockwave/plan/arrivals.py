"""How arrivals will go on: the jobs that are not there yet but will compete."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Floats, Ints


@dataclass(frozen=True)
class ExpectedArrivals:
    """Jobs like the latest ones, at the rate of the latest ones."""

    after_seconds: Floats  # from now
    gpus: Floats
    total_seconds: Floats  # exclusive runtime

    def __len__(self) -> int:
        return len(self.after_seconds)


@dataclass(frozen=True)
class ArrivalHabits:
    """Arrivals are taken to go on for ``share_of_span`` of the time that they have lasted.

    A workload that has been arriving for an hour is expected to go on for half an hour
    more, unless nothing came for ``patience`` mean gaps: then it is taken to be over.
    """

    share_of_span: float = 0.5
    patience: float = 6.0
    recent_per_gpu: int = 4
    least_recent: int = 20

    def expect(
        self,
        now: float,
        arrival: Floats,
        gpus: Ints,
        total_seconds: Floats,
        *,
        gpus_total: int,
        round_seconds: float,
        horizon_seconds: float,
    ) -> ExpectedArrivals:
        """``arrival``, ``gpus``, ``total_seconds``: all jobs seen so far, in order."""
        nobody = ExpectedArrivals(np.empty(0), np.empty(0), np.empty(0))
        count = min(len(arrival), max(self.recent_per_gpu * gpus_total, self.least_recent))
        if len(arrival) <= 3 or arrival[-1] <= arrival[-count]:
            return nobody
        gap = max((now - float(arrival[-count])) / count, 1e-3)
        if now - arrival[-1] >= max(self.patience * gap, round_seconds):
            return nobody
        lasts = min((now - float(arrival[0])) * self.share_of_span, horizon_seconds)
        coming = min(int(lasts / gap), 2 * count)
        like = len(arrival) - 1 - np.arange(coming) % count
        return ExpectedArrivals(
            gap * np.arange(1.0, coming + 1.0), gpus[like].astype(np.float64), total_seconds[like]
        )
