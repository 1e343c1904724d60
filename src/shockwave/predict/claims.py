"""Declared epochs are a claim: believed by habit, and checked as the job goes.

Who has kept their word is believed. Jobs of one tenant and kind of which four in five took more
epochs than they declared, or four in five took fewer, are taken to do so again. A job that is
beyond its claim has broken it, and from then on is taken to need half as much again as those of
its tenant who broke theirs, or twelve times the claim while too few did: longer than if it had
told the truth, so that a claim made too small gains nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shockwave.model.view import Bools, Floats, View
from shockwave.predict.base import FinishedJob

_KEPT = 16  # ratios that are remembered of each tenant and kind
_ENOUGH = 5  # ratios from which a habit is told
_RULE = 0.2  # a habit leaves out this share at either end
_ROUNDING = 1e-3
_HONEST = 0.02  # relative: a ratio closer to 1 is 1
_BROKEN = 12.0  # a claim that was broken is taken to be this many times too small
_GROWTH = 2.0  # ... and at least this many times what is done already
_PENALTY = 1.5  # what is then left is taken to be this many times as much


def broken(view: View) -> Bools:
    """[job] whether it has done more than it declared. One that has done just that is ending."""
    return np.asarray(view.epochs_done > (1.0 + _ROUNDING) * view.epochs)


class Claims:
    """What jobs took over what they had declared, by tenant and kind."""

    def __init__(self) -> None:
        self._ratios: dict[tuple[int, int], deque[float]] = {}
        self._broken: dict[int, deque[float]] = {}  # of a tenant: ratios above 1
        self._all_kept = True

    def learn(self, finished: FinishedJob) -> float:
        """Take in a job that ended. Returns the epochs that it took over those it declared."""
        taken = sum(epochs for _, epochs in finished.regimes)
        ratio = taken / max(finished.spec.epochs, 1)
        if abs(ratio - 1.0) <= _HONEST:
            ratio = 1.0
        else:
            self._all_kept = False
        key = finished.tenant, finished.kind
        self._ratios.setdefault(key, deque(maxlen=_KEPT)).append(ratio)
        if ratio > 1.0:
            self._broken.setdefault(finished.tenant, deque(maxlen=_KEPT)).append(ratio)
        return ratio

    def checked(self, view: View) -> View:
        """The view with the epochs that jobs are believed to take in all."""
        overrun = broken(view)
        if self._all_kept and not overrun.any():
            return view
        epochs = view.epochs * self._habits(view)
        # A habit says nothing about a job that has already passed what it says.
        epochs = np.where(epochs > view.epochs_done, epochs, view.epochs)
        for row in np.flatnonzero(overrun).tolist():
            done, claim = float(view.epochs_done[row]), float(view.epochs[row])
            epochs[row] = claim * self._broken_by(int(view.tenant[row]), done / max(claim, 1e-9))
        return replace(view, epochs=epochs)

    def _habits(self, view: View) -> Floats:
        if self._all_kept:
            return np.ones(len(view))
        keys = zip(view.tenant.tolist(), view.kind.tolist(), strict=True)
        return np.array([_habit(self._ratios.get(key, ())) for key in keys])

    def _broken_by(self, tenant: int, ratio: float) -> float:
        """How many times too small a claim is, given that it is more than ``ratio`` times."""
        larger = [other for other in self._broken.get(tenant, ()) if other > ratio]
        known = float(np.median(larger)) if len(larger) >= _ENOUGH else _BROKEN
        return ratio + _PENALTY * (max(known, _GROWTH * ratio) - ratio)


def _habit(ratios: Sequence[float] | deque[float]) -> float:
    """The ratio that most agree on, as far as they do: 1 unless they err to the same side.

    >>> _habit([10.0, 10.0, 10.0, 9.0, 11.0]), _habit([10.0, 10.0, 10.0, 1.0, 1.0])
    (9.8, 1.0)
    """
    if len(ratios) < _ENOUGH:
        return 1.0
    low, high = np.quantile(ratios, [_RULE, 1.0 - _RULE]).tolist()
    return float(min(max(1.0, low), high))
