"""Futures made by hand: a few jobs, and only what matters spelled out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shockwave.plan.futures import Futures


def make_futures(remaining: Sequence[Sequence[float]], **columns: Any) -> Futures:
    """``remaining[sample][job]`` in seconds; every other column is a number or one for each job.

    Jobs of one GPU on a cluster of one, there since now, that nothing is promised to.
    """
    samples = np.array(remaining, dtype=np.float64)
    count = samples.shape[1]
    defaults: dict[str, Any] = {
        "release": 0.0, "elapsed": 0.0, "gpus": 1.0, "copies": 1.0, "weight": 1.0,
        "running": False, "mean": samples.mean(axis=0), "early": samples.min(axis=0),
        "late": samples.max(axis=0), "size": samples.mean(axis=0), "worked": 0.0,
        "restart": 0.0, "stop": 0.0, "stays": False,
        "fair_jct": np.inf, "fair_stretch": np.inf, "claim": 1.0,
        "reserved": np.inf, "may_start": False, "on_time": np.inf, "active_integral": 0.0,
        "rounds_active": 0.0,
    }  # fmt: skip
    scalars: dict[str, Any] = {
        "horizon": 1e9, "since": 0.0, "round_seconds": 120.0, "gpus_total": 1, "present": count,
    }  # fmt: skip
    given = defaults | {name: value for name, value in columns.items() if name in defaults}
    flags = {"running", "may_start", "stays"}
    arrays: dict[str, Any] = {
        name: np.array(
            np.broadcast_to(value, count), dtype=np.bool_ if name in flags else np.float64
        )
        for name, value in given.items()
    }
    rest = {name: value for name, value in columns.items() if name not in defaults}
    return Futures(remaining=samples, **arrays, **(scalars | rest))
