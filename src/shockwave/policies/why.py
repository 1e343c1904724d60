"""Why a job runs or waits: one decision, told for one job."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import View
from shockwave.policies.base import Decision


@dataclass(frozen=True)
class Why:
    """The numbers behind a decision about one job, and a sentence that sums them up.

    Times are seconds since the run began; what a policy does not know is None.
    """

    job: int  # handle
    time: float
    runs: bool
    ahead: int  # jobs that the policy prefers to this one
    reason: str
    bid: float | None = None
    price: float | None = None
    expected_start: float | None = None
    finish_low: float | None = None
    finish: float | None = None
    finish_high: float | None = None
    fair_finish: float | None = None


def why(view: View, decision: Decision, position: int) -> Why:
    """Explains the decision about the job at ``position`` of the view."""
    runs = bool(np.any(decision.run == position))
    ahead = _ahead(decision, position)
    told = decision.explanation
    numbers = (
        {}
        if told is None
        else {
            "bid": float(told.bid[position]),
            "price": told.price,
            "expected_start": float(told.expected_start[position]),
            "finish_low": float(told.finish_low[position]),
            "finish": float(told.finish[position]),
            "finish_high": float(told.finish_high[position]),
            "fair_finish": float(told.fair_finish[position]),
        }
    )
    return Why(
        job=int(view.handle[position]),
        time=view.now,
        runs=runs,
        ahead=ahead,
        reason=_reason(view, decision, position, runs, ahead),
        **numbers,
    )


def _ahead(decision: Decision, position: int) -> int:
    if decision.explanation is not None:
        values = decision.explanation.bid
    elif decision.priority is not None:
        values = decision.priority
    else:
        return 0
    return int((values > values[position]).sum())


def _reason(view: View, decision: Decision, position: int, runs: bool, ahead: int) -> str:
    gpus = int(view.gpus[position])
    free = view.gpus_total - int(view.gpus[decision.run].sum())
    if len(decision.run) == len(view):
        return "runs: there are GPUs for everybody"
    told = decision.explanation
    if told is None:
        return f"{'runs' if runs else 'waits'}: {ahead} of {len(view)} jobs are ahead of it"
    note = f" ({told.note[position]})" if told.note is not None and told.note[position] else ""
    bid, price = float(told.bid[position]), told.price
    if runs:
        return f"runs: it bids {bid:.3g} for a GPU-round that costs {price:.3g}{note}"
    if bid >= price:
        return (
            f"waits: it bids {bid:.3g} for a GPU-round that costs {price:.3g}, but its gang of "
            f"{gpus} does not fit the {free} GPUs that are left{note}"
        )
    return f"waits: it bids {bid:.3g}, and a GPU-round costs {price:.3g}{note}"
