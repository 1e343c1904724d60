"""Views made by hand: a few jobs, and only the columns that matter spelled out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shockwave.model.view import View
from shockwave.policies.base import Decision, Policy
from shockwave.predict.reactive import Reactive


def make_view(
    gpus: Sequence[int],
    *,
    gpus_total: int = 4,
    now: float = 0.0,
    round: int = 0,
    round_seconds: float = 120.0,
    restart_seconds: float = 20.0,
    changed: bool = True,
    seconds: float | Sequence[float] = 60.0,
    **columns: Any,
) -> View:
    """Jobs of these gang sizes, ten epochs at ``seconds`` each, arrived at 0, nothing done.

    Every other keyword is a column of :class:`View`, a number for all jobs or one for each.
    """
    count = len(gpus)
    defaults: dict[str, Any] = {
        "handle": range(count),
        "arrival": 0.0,
        "epochs": 10.0,
        "weight": 1.0,
        "tenant": 0,
        "kind": 0,
        "adaptation": 0,
        "configurations": 1,
        "running": False,
        "epochs_done": 0.0,
        "configuration": 0,
        "regime_epochs": 0.0,
        "productive_seconds": 0.0,
        "received_seconds": 0.0,
        "fair_seconds": 0.0,
        "active_integral": 0.0,
        "rounds_active": 0,
        "restarts": 0,
        "must_stay": False,
        "measured_restart_seconds": np.nan,
        "unsaved_seconds": np.nan,
    }
    unknown = set(columns) - set(defaults)
    if unknown:
        raise TypeError(f"a view has no columns {sorted(unknown)}")
    whole = {
        "handle", "tenant", "kind", "adaptation", "configurations", "configuration",
        "rounds_active", "restarts",
    }  # fmt: skip
    flags = {"running", "must_stay"}
    values: dict[str, Any] = {
        name: np.array(
            np.broadcast_to(np.asarray(value), count),
            dtype=np.int64 if name in whole else np.bool_ if name in flags else np.float64,
        )
        for name, value in (defaults | columns).items()
    }
    return View(
        now=now,
        round=round,
        gpus_total=gpus_total,
        round_seconds=round_seconds,
        restart_seconds=restart_seconds,
        jobs_seen=count,
        changed=changed,
        between_rounds=False,
        gpus=np.array(gpus, dtype=np.int64),
        profile=np.array(np.broadcast_to(np.asarray(seconds, dtype=np.float64), count))[:, None],
        configuration_epochs=values["epochs_done"][:, None].copy(),
        measured_seconds=np.full((count, 1), np.nan),
        **values,
    )


def decide(policy: Policy, view: View) -> Decision:
    """The policy's decision if the present speed lasts."""
    return policy.decide(view, Reactive().forecast(view))


def chosen(policy: Policy, view: View) -> list[int]:
    """Positions that run, most preferred first."""
    return [int(position) for position in decide(policy, view).run]
