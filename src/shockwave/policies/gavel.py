"""Gavel (OSDI '20), max-min fairness: of GPU time, or of throughput where GPUs have types."""

from __future__ import annotations

import numpy as np

from shockwave.model.options import Options
from shockwave.model.view import Floats, Ints, View
from shockwave.plan.sharing import water_level
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import run_by_share
from shockwave.policies.typed_shares import max_min_shares
from shockwave.predict.base import Forecast


class Gavel(Policy):
    """Maximises the smallest ``g x / weight``: an equal amount of GPU time, water-filled.

    Where there are options, a job takes its request, and a linear program says what part of its
    time it spends on which type, from offline profiles as published. Rounds follow the shares: of
    (job, type) the one first that is furthest behind, ``x / (time on the type / time there)``.
    """

    name = "gavel"
    wants_profiles = True
    needs_solver = "with options"

    def __init__(self) -> None:
        self._handle: Ints = np.empty(0, dtype=np.int64)
        self._received: Floats = np.empty((0, 0))  # [job, type] seconds
        self._shares: Floats | None = None

    def decide(self, view: View, forecast: Forecast) -> Decision:
        if view.options is not None:
            return self._decide_by_type(view, view.options)
        level = water_level(view.gpus.astype(np.float64), view.weight, view.gpus_total)
        share = np.minimum(1.0, view.weight * level / view.gpus)
        run, priority = run_by_share(view, share)
        return Decision(run, priority=priority)

    def _decide_by_type(self, view: View, options: Options) -> Decision:
        types = len(options.types)
        self._account(view, options)
        option = _request_by_type(options, types)  # [job, type] -1 where it does not fit
        if self._shares is None or self._shares.shape != option.shape or view.changed:
            speed = _speeds(options, option)
            self._shares = max_min_shares(speed, view.gpus, view.weight, options.type_gpus)
        received = self._received + view.round_seconds / 2
        there = (view.elapsed + view.round_seconds)[:, None]
        priority = np.where(option >= 0, self._shares * there / received, -np.inf)
        left = options.type_gpus.copy()
        run: list[int] = []
        chosen: list[int] = []
        stays = np.flatnonzero(view.must_stay)
        for job in stays.tolist():
            run.append(job)
            chosen.append(int(options.held[job]))
            left[options.type[options.held[job]]] -= options.gpus[options.held[job]]
        taken = set(run)
        for cell in np.argsort(-priority, axis=None, kind="stable").tolist():
            job, kind = divmod(cell, types)
            if job in taken or option[job, kind] < 0 or view.gpus[job] > left[kind]:
                continue
            taken.add(job)
            run.append(job)
            chosen.append(int(option[job, kind]))
            left[kind] -= view.gpus[job]
        order = np.array(run, dtype=np.int64)
        return Decision(
            order, options=np.array(chosen, dtype=np.int64), priority=priority.max(axis=1)
        )

    def _account(self, view: View, options: Options) -> None:
        """What was held until now counts as received for the round that has passed."""
        received = np.zeros((len(view), len(options.types)))
        known = np.isin(view.handle, self._handle, assume_unique=True)
        old = np.searchsorted(self._handle, view.handle[known])
        received[known, : self._received.shape[1]] = self._received[old]
        runs = np.flatnonzero(options.held >= 0)
        if not view.between_rounds:
            received[runs, options.type[options.held[runs]]] += view.round_seconds
        self._handle, self._received = view.handle, received


def _request_by_type(options: Options, types: int) -> Ints:
    """[job, type] the option that is the job's request there, -1 where there is none."""
    found = np.full((len(options.held), types), -1, dtype=np.int64)
    job, option = np.nonzero(options.requested)
    found[job, options.type[option]] = option
    return found


def _speeds(options: Options, option: Ints) -> Floats:
    """[job, type] epochs per second with the request: profiled, else measured, else all alike."""
    seconds = np.where(np.isnan(options.profiled), options.measured, options.profiled)
    rows = np.arange(len(option))[:, None]
    at = np.where(option >= 0, seconds[rows, np.maximum(option, 0)], np.nan)
    known = np.isnan(at).sum(axis=1) == (option < 0).sum(axis=1)
    speed = np.where(known[:, None], 1.0 / np.where(np.isnan(at), np.inf, at), 1.0)
    return np.where(option >= 0, speed, 0.0)
