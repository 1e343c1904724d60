"""The figures of a run as one flat record, and of several seeds as means with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from shockwave.measure.history import RunHistory
from shockwave.measure.metrics import METRICS
from shockwave.measure.tenants import tenant_figures, worst_tenant_share
from shockwave.model.errors import InputError
from shockwave.traces.window import Window

# The record that others rely on: these keys, in this order, before everything else.
RECORD_KEYS = (
    "policy", "trace", "jobs", "gpus",
    "makespan_seconds", "makespan_lower_bound_seconds",
    "mean_jct_seconds", "p50_jct_seconds", "p99_jct_seconds",
    "worst_ftf_static", "unfair_static",
    "worst_ftf_themis", "unfair_themis",
    "worst_ftf_egalitarian", "unfair_egalitarian",
    "utilization", "restarts", "rounds",
    "plan_seconds_mean", "plan_seconds_p95", "plan_seconds_max", "plan_gap_max",
    "wall_seconds",
)  # fmt: skip

Summary = dict[str, Any]


def summarize(
    history: RunHistory,
    *,
    policy: str | None = None,
    trace: str | None = None,
    wall_seconds: float | None = None,
    window: Window | None = None,
) -> Summary:
    """All metrics of a run, JSON types only, ``None`` where a figure does not apply.

    ``policy`` and ``trace`` default to what the journal says. Of one journal the record is
    always the same; ``wall_seconds``, which no journal holds, is passed in.

    With a ``window`` the figures of jobs are those of the jobs that arrive in it, although all
    others were there too, and there is no makespan: the end of the trace is not of the window.
    Raises :class:`InputError` where no job arrives in it.
    """
    settings = history.settings
    counted = None if window is None else window.counts(history.jobs.arrival)
    figures: Summary = {
        "policy": settings.policy if policy is None else policy,
        "trace": settings.trace if trace is None else trace,
        "jobs": len(history.jobs),
        "gpus": history.gpus,
        "gpu_types": dict(history.type_gpus),
        "wall_seconds": wall_seconds,
    }
    figures |= {name: metric.compute(history, counted) for name, metric in METRICS.items()}
    if window is not None:
        figures |= dict.fromkeys(("makespan_seconds", "makespan_lower_bound_seconds"))
    record = {key: figures.pop(key) for key in RECORD_KEYS}
    record |= figures
    record["restarts_by_reason"] = dict(history.restart_reasons)
    if history.tenants:
        record["worst_tenant_share"] = worst_tenant_share(history)
        record["tenants"] = [
            {**asdict(figures), "share": figures.share} for figures in tenant_figures(history)
        ]
    record |= {
        "predictor": settings.predictor,
        "seed": settings.seed,
        "round_seconds": settings.round_seconds,
        "restart_seconds": settings.restart_seconds,
        "window": None if window is None else [window.start, window.stop],
        "counted_jobs": len(history.jobs) if counted is None else int(counted.sum()),
    }
    return record


def aggregate(summaries: Sequence[Mapping[str, Any]]) -> Summary:
    """Runs of one policy with different seeds as one record.

    Every numeric figure becomes ``{"mean", "ci95", "n"}``: the mean over the ``n`` runs that
    have it, and half the width of its 95 % confidence interval, ``t_(n-1) * s / sqrt(n)``
    (``None`` for a single run). A figure that no run has is ``None``. Raises
    :class:`InputError` for an empty list and for runs of different policies.
    """
    policies = sorted({str(summary["policy"]) for summary in summaries})
    if len(policies) != 1:
        raise InputError(
            "aggregates the seeds of one policy",
            place="summaries",
            value=policies,
            hint="Group the summaries by policy first",
        )
    traces = sorted({str(summary["trace"]) for summary in summaries})
    record: Summary = {"policy": policies[0], "trace": ", ".join(traces), "runs": len(summaries)}
    settings = ("seed", "round_seconds", "restart_seconds", "window")
    for key in dict.fromkeys(key for summary in summaries for key in summary):
        values = [summary.get(key) for summary in summaries]
        numbers = [
            float(value)
            for value in values
            if isinstance(value, int | float) and not isinstance(value, bool)
        ]
        if key not in settings and (numbers or all(value is None for value in values)):
            record[key] = _mean_and_interval(numbers) if numbers else None
    record["window"] = summaries[0].get("window")
    return record


def _mean_and_interval(values: Sequence[float]) -> dict[str, float | None]:
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return {"mean": mean, "ci95": None, "n": count}
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half_width = student_t_975(count - 1) * math.sqrt(variance / count)
    return {"mean": mean, "ci95": half_width, "n": count}


_T_975 = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip


def student_t_975(degrees: int) -> float:
    """The 97.5 % quantile of Student's t, to four digits.

    A table up to 30 degrees of freedom, from there the expansion of Cornish and Fisher
    around the normal quantile ``z``: ``z + (z^3 + z) / 4v + (5z^5 + 16z^3 + 3z) / 96v^2``.
    """
    if degrees <= len(_T_975):
        return _T_975[degrees - 1]
    z = 1.959963984540054
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / degrees + second / degrees**2
