"""Why a job runs or waits: one decision, told for one job."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.model.view import Floats, Ints, View
from shockwave.model.words import count_of
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
    start_low: float | None = None
    start_high: float | None = None
    bid_fairness: float | None = None
    bid_end: float | None = None


class Reasons:
    """One decision, ready to be told for any of its jobs.

    What all jobs have in common is computed once, for those who ask about thousands.
    """

    def __init__(self, view: View, decision: Decision) -> None:
        self._view = view
        self._decision = decision
        self._runs = np.zeros(len(view), dtype=np.bool_)
        self._runs[decision.run] = True
        self._ahead = _ahead(view, decision)

    def why(self, position: int) -> Why:
        """Explains the decision about the job at ``position`` of the view."""
        told = self._decision.explanation
        numbers: dict[str, float | None] = {}
        if told is not None:
            numbers = {name: _at(getattr(told, name), position) for name in _NUMBERS}
            numbers["price"] = told.price
        return Why(
            job=int(self._view.handle[position]),
            time=self._view.now,
            runs=bool(self._runs[position]),
            ahead=int(self._ahead[position]),
            reason=self._reason(position),
            **numbers,
        )

    def _reason(self, position: int) -> str:
        view, decision = self._view, self._decision
        if len(decision.run) == len(view):
            return "runs: there are GPUs for everybody"
        runs, told = self._runs[position], decision.explanation
        if not runs and decision.kept_back is not None:
            kept_back = decision.kept_back(position)
            if kept_back is not None:
                return f"waits: {kept_back}"
        if told is None:
            verb, ahead = "runs" if runs else "waits", int(self._ahead[position])
            are = "is" if ahead == 1 else "are"
            return f"{verb}: {ahead} of {count_of(len(view), 'job')} {are} ahead of it"
        note = f" ({told.note[position]})" if told.note is not None and told.note[position] else ""
        bid, price = float(told.bid[position]), told.price
        offer = f"it bids {_figure(bid)}"
        if runs and bid < price:
            return f"runs: {offer} and fills a gap that no higher bid fits{note}"
        if runs:
            return f"runs: {offer}, and a GPU-round costs {_figure(price)}{note}"
        if bid >= price:
            higher = decision.run[told.bid[decision.run] > bid]
            left = count_of(view.gpus_total - int(view.gpus[higher].sum()), "GPU")
            gang = view.gpus[position]
            return f"waits: {offer}; higher bids leave {left}, and it needs {gang}{note}"
        return f"waits: {offer}, and a GPU-round costs {_figure(price)}{note}"


_NUMBERS = (
    "bid", "bid_fairness", "bid_end", "expected_start", "start_low", "start_high",
    "finish_low", "finish", "finish_high", "fair_finish",
)  # fmt: skip


def _at(column: Floats | None, position: int) -> float | None:
    return None if column is None else float(column[position])


def _figure(value: float) -> str:
    """Three digits, without an exponent where people would not write one."""
    return f"{value:,.0f}" if 100 <= value < 1e7 else f"{value:.3g}"


def why(view: View, decision: Decision, position: int) -> Why:
    """Explains the decision about the job at ``position`` of the view."""
    return Reasons(view, decision).why(position)


def _ahead(view: View, decision: Decision) -> Ints:
    """[job] how many jobs the policy prefers to it."""
    if decision.explanation is not None:
        values = decision.explanation.bid
    elif decision.priority is not None:
        values = decision.priority
    else:
        return np.zeros(len(view), dtype=np.int64)
    ranked = np.sort(values[~np.isnan(values)])
    return np.asarray(len(ranked) - np.searchsorted(ranked, values, side="right"))
