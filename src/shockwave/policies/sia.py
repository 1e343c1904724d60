"""Sia (SOSP '23): elastic gangs on several types of GPUs, an integer program every round."""

from __future__ import annotations

import numpy as np

from shockwave.model.options import Options
from shockwave.model.view import Floats, Ints, View
from shockwave.plan.elastic.ilp import solve_ilp
from shockwave.plan.elastic.market import Market
from shockwave.policies.base import Decision, Policy
from shockwave.policies.one_option import one_option_each
from shockwave.predict.base import Forecast


class Sia(Policy):
    """Minimises the sum of ``S^-0.5`` over the jobs that run, plus 1.1 for each that does not.

    ``S`` is the speed of an option over the slowest one that the job may take; an option that the
    job does not hold counts with ``(age - restarts * cost) / (age + cost)`` of it. As published:

    * a job starts on one GPU, of any type, and may at most double the largest number of GPUs that
      it was measured on;
    * speeds are learned by running. A number of GPUs that was not measured is taken to scale
      perfectly from the next smaller one; a type that was not, by the ratio of the types on one
      GPU, which a short profile of every model tells;
    * a job that is restarting is left alone;
    * how long a job is plays no role, nor what other jobs of its model did.

    A job without a choice of numbers is given its request, on the type that the program chooses.
    """

    name = "sia"
    wants_profiles = True  # of one GPU of each type
    needs_solver = "always"

    power = -0.5
    idle = 1.1

    def decide(self, view: View, forecast: Forecast) -> Decision:
        options = view.options
        if options is None:
            options = one_option_each(view)
        restart = np.where(
            np.isnan(view.measured_restart_seconds),
            view.restart_seconds,
            view.measured_restart_seconds,
        )
        goodput = np.stack([_goodput(options, job) for job in range(len(view))])
        with np.errstate(invalid="ignore"):
            relative = goodput / np.nanmin(goodput, axis=1, keepdims=True)
        factor = np.maximum(view.elapsed - np.maximum(view.restarts, 0) * restart, 0.0)
        factor = np.where(view.elapsed < restart, 1.0, factor / (view.elapsed + restart))
        changed = np.ones(goodput.shape) * np.where(options.held >= 0, factor, 1.0)[:, None]
        runs = np.flatnonzero(options.held >= 0)
        changed[runs, options.held[runs]] = 1.0
        values = self.idle - np.round(np.maximum(relative * changed, 1e-4) ** self.power, 2)
        values[np.isnan(relative)] = -np.inf
        latest = options.measured[np.arange(len(view)), np.maximum(options.held, 0)]
        stays = view.must_stay | ((options.held >= 0) & np.isnan(latest))
        values[stays] = -np.inf
        values[stays, options.held[stays]] = 100.0
        solved = solve_ilp(Market(values, options.gpus, options.type, options.type_gpus))
        run = np.flatnonzero(solved.choice >= 0)
        chosen = None if view.options is None else solved.choice[run]
        return Decision(run, options=chosen, welfare=solved.value)


def _goodput(options: Options, job: int) -> Floats:
    """[option] epochs per second, as far as Sia can know it; nan where the job may not go yet."""
    allowed, gpus, kinds = options.allowed[job], options.gpus, options.type
    known = ~np.isnan(options.measured[job])
    rigid = len(np.unique(gpus[allowed])) < 2
    goodput = np.full(len(options), np.nan)
    single = options.profiled[job] * gpus  # seconds of one GPU, if scaling were perfect
    first = allowed & (gpus == gpus[allowed].min(initial=np.iinfo(np.int64).max))
    if rigid:
        speeds = options.profiled[job][allowed]
        goodput[allowed] = 1.0 if np.isnan(speeds).any() else 1.0 / speeds
        return goodput
    if not known.any():
        goodput[first] = 1.0
        return goodput
    reach = allowed & (gpus <= 2 * gpus[known].max())
    reach |= known & allowed
    for kind in np.unique(kinds[known]).tolist():
        measured = np.flatnonzero(known & (kinds == kind))
        measured = measured[np.argsort(gpus[measured], kind="stable")]
        for option in np.flatnonzero(reach & (kinds == kind)).tolist():
            goodput[option] = _scaled(options, job, measured, option)
    source = int(kinds[np.flatnonzero(known)[0]])
    for option in np.flatnonzero(reach & np.isnan(goodput)).tolist():
        ratio = _one_gpu(single, kinds, gpus, source) / _one_gpu(
            single, kinds, gpus, int(kinds[option])
        )
        measured = np.flatnonzero(known & (kinds == source))
        measured = measured[np.argsort(gpus[measured], kind="stable")]
        goodput[option] = ratio * _scaled(options, job, measured, option)
    return goodput


def _scaled(options: Options, job: int, measured: Ints, option: int) -> float:
    """Epochs per second: perfect scaling from the nearest measured number that is not larger."""
    gpus = options.gpus
    smaller = measured[gpus[measured] <= gpus[option]]
    nearest = int(smaller[-1] if len(smaller) else measured[0])
    return float(gpus[option] / gpus[nearest] / options.measured[job, nearest])


def _one_gpu(single: Floats, kinds: Ints, gpus: Ints, kind: int) -> float:
    """Seconds per epoch on the fewest GPUs of a type, times their number."""
    own = np.flatnonzero((kinds == kind) & ~np.isnan(single))
    return float(single[own[np.argmin(gpus[own])]]) if len(own) else 1.0
