"""AlloX (EuroSys '20): minimise the mean completion time by matching."""

from __future__ import annotations

import math

import numpy as np

from shockwave.model.options import Options
from shockwave.model.view import Floats, Ints, View
from shockwave.plan.elastic.ilp import solve_ilp
from shockwave.plan.elastic.market import Market
from shockwave.policies.base import Decision, Policy
from shockwave.policies.fill import fill
from shockwave.policies.typed_shares import request_by_type
from shockwave.predict.base import Forecast


class Allox(Policy):
    """Assigns jobs to (GPU, position from the end) at cost position x remaining time.

    On identical GPUs the cheapest matching has a closed form: the k-th longest job takes
    the k-th position from the end, so the shortest ones start now. As published, a job
    that holds GPUs keeps them until it ends, and only the fraction ``alpha`` of the waiting
    jobs that were served least (none of them was: those that wait longest) takes part in the
    matching, for fairness. The others backfill what is left in order of arrival.

    Where GPUs have types, the cheapest matching of jobs and (type, position) is solved, with times
    from offline profiles as published. A job may thus wait its turn on a faster type while another
    is free. AlloX knows no gangs: here a job takes its request, and a type has as many places as
    requests of the mean size fit into what is free of it.
    """

    name = "allox"
    wants_profiles = True
    needs_solver = "with options"

    def __init__(self, alpha: float = 0.1) -> None:
        self.alpha = alpha

    def decide(self, view: View, forecast: Forecast) -> Decision:
        remaining = forecast.remaining_seconds
        waiting = np.flatnonzero(~view.running)
        by_arrival = waiting[np.argsort(view.arrival[waiting], kind="stable")]
        matched = by_arrival[: math.ceil(self.alpha * len(waiting))]
        backfill = by_arrival[len(matched) :]
        if view.options is not None:
            return _decide_by_type(view, view.options, matched, backfill)
        order = np.concatenate(
            [
                np.flatnonzero(view.running),
                matched[np.argsort(remaining[matched], kind="stable")],
                backfill,
            ]
        )
        priority = np.empty(len(view))
        priority[order] = -np.arange(len(view), dtype=np.float64)
        return Decision(fill(order, view), stable=True, priority=priority)


def _decide_by_type(view: View, options: Options, matched: Ints, backfill: Ints) -> Decision:
    option = request_by_type(options)
    seconds = _remaining(view, options, option)
    runs = np.flatnonzero(options.held >= 0)
    run, chosen = runs.tolist(), options.held[runs].tolist()
    left = options.type_gpus - np.bincount(
        options.type[options.held[runs]], options.gpus[options.held[runs]], len(options.types)
    ).astype(np.int64)

    def start(job: int, kinds: list[int]) -> None:
        fits = [k for k in kinds if option[job, k] >= 0 and view.gpus[job] <= left[k]]
        if fits:
            run.append(job)
            chosen.append(int(option[job, fits[0]]))
            left[fits[0]] -= view.gpus[job]

    has_room = view.gpus[matched, None] <= left
    times = np.where(has_room, seconds[matched], np.inf)
    kind, position = match(times, places(view.gpus[matched], left))
    # The first on a place is the one with the most others after it.
    for place in np.argsort(-position, kind="stable").tolist():
        if kind[place] >= 0:
            start(int(matched[place]), [int(kind[place])])
    for job in backfill.tolist():
        start(job, np.argsort(seconds[job], kind="stable").tolist())
    order = np.array(run, dtype=np.int64)
    return Decision(order, options=np.array(chosen, dtype=np.int64))


def places(gpus: Ints, free: Ints) -> Ints:
    """[type] how many jobs of the mean size can run side by side; one where any GPU is free."""
    mean = max(float(gpus.mean()), 1.0) if len(gpus) else 1.0
    return np.where(free > 0, np.maximum(free // mean, 1), 0).astype(np.int64)


def match(seconds: Floats, places: Ints) -> tuple[Ints, Ints]:
    """[job] its type, -1 for none, and its position from the end: the smallest sum of times.

    A job at position ``k`` from the end of a place delays ``k`` jobs, itself included, by its own
    time. ``seconds`` is [job, type], ``inf`` where the job cannot run.
    """
    jobs, types = seconds.shape
    positions = np.arange(1, jobs + 1)
    cost = seconds[:, :, None] * positions  # [job, type, position]
    cost[:, places == 0] = np.inf
    # Everybody who can be matched is: not to be costs more than any matching does.
    finite = np.isfinite(cost)
    none = 1.0 + float(cost[finite].max(initial=0.0)) * max(jobs, 1)
    worth = np.where(finite, 1.0 - cost / none, -np.inf).reshape(jobs, types * jobs)
    slots = np.arange(types * jobs)
    market = Market(worth, np.ones(len(slots), dtype=np.int64), slots, np.repeat(places, jobs))
    choice = solve_ilp(market, relative_gap=0.0).choice
    return np.where(choice >= 0, choice // max(jobs, 1), -1), np.where(
        choice >= 0, choice % max(jobs, 1) + 1, 0
    )


def _remaining(view: View, options: Options, option: Ints) -> Floats:
    """[job, type] seconds to the end with the request; all types alike where nothing is known."""
    known = np.where(np.isnan(options.profiled), options.measured, options.profiled)
    at = np.where(option >= 0, known[np.arange(len(view))[:, None], np.maximum(option, 0)], np.nan)
    at = np.where(np.isnan(at), np.nanmax(at, axis=1, initial=1.0, keepdims=True), at)
    return np.where(option >= 0, at * view.epochs_left[:, None], np.inf)
