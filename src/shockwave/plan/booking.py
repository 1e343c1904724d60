"""Windows that are sold out in advance by work that cannot be done later."""

from __future__ import annotations

import numpy as np

from shockwave.model.view import Bools, Floats

_WINDOWS = 48


def overbooked(
    gpus: Floats,
    remaining: Floats,
    deadline: Floats,
    *,
    gpus_total: int,
    horizon_seconds: float,
    threshold: float = 1.0,
) -> Bools:
    """[job] whether it has work that must be done within a window that is overbooked.

    Of a job with ``remaining`` seconds until its ``deadline``, at least
    ``remaining - (deadline - d)`` must be done within the next ``d`` seconds. Where the sum
    of that over all jobs exceeds ``threshold * M * d`` GPU-seconds, the deadlines collide
    although each alone still has slack, and those jobs have to start early. All times are
    seconds from now; windows up to ``horizon_seconds`` are looked at.
    """
    windows = horizon_seconds * np.arange(1, _WINDOWS + 1) / _WINDOWS
    left = remaining[:, None]
    most = np.minimum(left, windows)
    need = np.clip(left - np.maximum(deadline[:, None] - windows, 0.0), 0.0, most)
    over = gpus @ need > threshold * gpus_total * windows
    return np.asarray((need[:, over] > 0).any(axis=1))
