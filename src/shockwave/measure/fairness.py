"""Finish-time fairness by name, envy, and Jain's index.

Finish-time fairness is ``rho = JCT / fair JCT``; the definitions differ in the fair JCT only.
A job is unfairly treated when ``rho > 1.05``. Where there are several types of GPUs, ``X`` is what
a job takes with a share of every type (:mod:`shockwave.measure.alone`), and Sia's definition comes
as a fourth. Jobs that did not finish have no rho (``nan``),
but they count as contention while they are in the system.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from weakref import WeakKeyDictionary

import numpy as np

from shockwave.measure.alone import isolated_seconds, request_seconds
from shockwave.measure.history import RunHistory
from shockwave.model.errors import InputError
from shockwave.model.view import Floats, Ints
from shockwave.plan.fluid import fluid_finish_seconds

UNFAIR_ABOVE = 1.05
ENVY_ALL_PAIRS, ENVY_BLOCK, ENVY_BLOCKS = 1000, 500, 8


@dataclass(frozen=True)
class FairnessDefinition:
    """A way to say how long a job should have taken: ``fair_jct(history)`` per job."""

    name: str
    description: str
    fair_jct: Callable[[RunHistory], Floats]
    unfair_above: float = UNFAIR_ABOVE


def static_fair_jct(history: RunHistory) -> Floats:
    """``X * max(1, N/M)``, with N the jobs of the whole run and M the GPUs of the cluster."""
    contention = max(1.0, len(history.jobs) / history.gpus)
    return request_seconds(history) * contention


def themis_fair_jct(history: RunHistory) -> Floats:
    """``X * max(1, A_j/M)``, with A_j the mean number of active jobs over the job's rounds.

    A job is active at a round's start ``t`` when ``arrival <= t < end``, and its rounds are
    those at whose start it is active. A job that lived between two round starts counts the
    jobs that were active at its arrival, itself included.
    """
    jobs = history.jobs
    starts, active = active_at_round_starts(history)
    first = np.searchsorted(starts, jobs.arrival, side="left")
    last = np.searchsorted(starts, jobs.end, side="left")
    total = np.concatenate([[0], np.cumsum(active)])
    rounds = np.maximum(last - first, 0)
    at_arrival = np.maximum(active_at(history, jobs.arrival), 1)
    mean_active = np.where(
        rounds > 0, (total[first + rounds] - total[first]) / np.maximum(rounds, 1), at_arrival
    )
    return request_seconds(history) * np.maximum(1.0, mean_active / history.gpus)


def egalitarian_fair_jct(history: RunHistory) -> Floats:
    """JCT in fluid processor sharing of the same jobs on ``M`` GPUs.

    Weights scale the shares; with equal weights every active job holds an equal share, capped
    at its gang, and what it cannot use goes to the others. A job that did not finish takes
    part with the work that it did: the journal does not tell how much more there was.
    """
    jobs = history.jobs
    work = jobs.productive_seconds
    if jobs.alone:
        work = np.where(jobs.finished, request_seconds(history), work)
    finish = fluid_finish_seconds(jobs.arrival, work, jobs.gpus, history.gpus, jobs.weight)
    return np.where(jobs.finished, finish - jobs.arrival, np.nan)


FAIRNESS = MappingProxyType(
    {
        definition.name: definition
        for definition in (
            FairnessDefinition(
                "static",
                "JCT over the exclusive runtime times max(1, jobs in the run / GPUs)",
                static_fair_jct,
            ),
            FairnessDefinition(
                "themis",
                "JCT over the exclusive runtime times max(1, mean active jobs while it was "
                "there / GPUs)",
                themis_fair_jct,
            ),
            FairnessDefinition(
                "egalitarian",
                "JCT over the JCT if at every instant all active jobs had shared the GPUs equally",
                egalitarian_fair_jct,
            ),
        )
    }
)

# Of runs in which the speeds of jobs with every option are known.
WITH_OPTIONS = MappingProxyType(
    {
        "sia": FairnessDefinition(
            "sia",
            "JCT over what the job takes alone on 1/n of every type of GPU, n the mean number of "
            "jobs while it was there",
            isolated_seconds,
            unfair_above=1.0,
        )
    }
)
_DEFINITIONS = {**FAIRNESS, **WITH_OPTIONS}

_computed: WeakKeyDictionary[RunHistory, dict[str, Floats]] = WeakKeyDictionary()


def finish_time_fairness(history: RunHistory, definition: str) -> Floats:
    """[job] rho by the definition of that name; ``nan`` for jobs without one.

    A job without work (``X = 0``) has no fair JCT and hence no rho. Raises
    :class:`InputError` for a name that is in neither :data:`FAIRNESS` nor :data:`WITH_OPTIONS`.
    """
    if definition not in _DEFINITIONS:
        raise InputError(
            "no such definition of fairness",
            place="fairness",
            value=definition,
            hint=f"Choose one of {', '.join(_DEFINITIONS)}",
        )
    known = _computed.setdefault(history, {})
    if definition not in known:
        fair = _DEFINITIONS[definition].fair_jct(history)
        rho = np.full(len(fair), np.nan)
        np.divide(history.jobs.jct, fair, out=rho, where=fair > 0)
        rho.flags.writeable = False
        known[definition] = rho
    return known[definition]


def active_at(history: RunHistory, times: Floats) -> Ints:
    """How many jobs are in the system (``arrival <= t < end``) at each of ``times``."""
    jobs = history.jobs
    arrived = np.searchsorted(np.sort(jobs.arrival), times, side="right")
    left = np.searchsorted(np.sort(jobs.end), times, side="right")
    return np.asarray(arrived - left, dtype=np.int64)


def active_at_round_starts(history: RunHistory) -> tuple[Floats, Ints]:
    """The starts of rounds from the first job's arrival to the last one's end, and the active
    jobs at each. A part of a long run has no rounds before it."""
    round_seconds = history.settings.round_seconds
    first = float(history.jobs.arrival.min()) if len(history.jobs) else 0.0
    last = float(history.jobs.end.max()) if len(history.jobs) else 0.0
    numbers = np.arange(int(first // round_seconds), int(last // round_seconds) + 2)
    starts = numbers.astype(np.float64) * round_seconds
    return starts, active_at(history, starts)


def envy_ratios(history: RunHistory) -> Floats:
    """[job] how much more the job would have got with the GPUs of the job it envies most.

    For jobs i and j, over the time that both were in the system, let ``H_i`` and ``H_j`` be
    the seconds that they held their gangs. Of j's bundle job i can use ``min(g_i, g_j)`` GPUs
    at a time, so in seconds of its own gang the bundle is worth ``H_j * min(g_i, g_j) / g_i``,
    per unit of weight. The envy of i towards j is

        (H_j * min(g_i, g_j) / g_i / w_j + h) / (H_i / w_i + h),    h = half a round,

    and i's ratio is the largest over all j (1 when it has no cause for envy: its own bundle is
    one of those compared). The half round keeps encounters shorter than a round from
    mattering. Up to 1,000 jobs all pairs are compared; beyond, the pairs within eight blocks
    of 500 jobs, consecutive in submission and evenly spread, and all others have ``nan``.
    """
    known = _computed.setdefault(history, {})
    if "envy" not in known:
        count = len(history.jobs)
        if count <= ENVY_ALL_PAIRS:
            blocks = [np.arange(count)]
        else:
            firsts = np.linspace(0, count - ENVY_BLOCK, ENVY_BLOCKS).astype(np.int64)
            # Blocks overlap when there are few more jobs than are compared; no job counts twice.
            after = np.append(firsts[1:], count)
            stops = np.minimum(firsts + ENVY_BLOCK, after)
            blocks = [np.arange(*bounds) for bounds in zip(firsts, stops, strict=True)]
        envy = np.full(count, np.nan)
        for block in blocks:
            envy[block] = _envy_within(history, block)
        envy.flags.writeable = False
        known["envy"] = envy
    return known["envy"]


def _envy_within(history: RunHistory, chosen: Ints) -> Floats:
    """Envy ratios of the chosen jobs among each other."""
    jobs, leases = history.jobs, history.leases
    if not len(chosen):
        return np.empty(0)
    arrival, end, gpus = jobs.arrival[chosen], jobs.end[chosen], jobs.gpus[chosen]
    weight = jobs.weight[chosen]
    opened = np.maximum(arrival[:, None], arrival[None, :])
    closed = np.maximum(np.minimum(end[:, None], end[None, :]), opened)

    by_job = np.argsort(leases.job, kind="stable")
    bounds = np.searchsorted(leases.job[by_job], np.stack([chosen, chosen + 1]))
    held = np.zeros((len(chosen), len(chosen)))  # [i, j] seconds that i held while both were there
    for row, (low, high) in enumerate(bounds.T):
        own = by_job[low:high]
        if not len(own):
            continue
        times = np.stack([leases.start[own], leases.stop[own]], axis=1).ravel()
        seconds = np.stack([np.zeros(len(own)), leases.seconds[own]], axis=1).ravel().cumsum()
        held[row] = np.interp(closed[row], times, seconds) - np.interp(opened[row], times, seconds)

    half_round = history.settings.round_seconds / 2
    usable = np.minimum(gpus[:, None], gpus[None, :]) / gpus[:, None]
    theirs = held.T * usable / weight[None, :]
    mine = held / weight[:, None]
    return np.asarray(((theirs + half_round) / (mine + half_round)).max(axis=1))


def jain_index(values: Floats) -> float | None:
    """Jain's index ``(sum x)^2 / (n sum x^2)``: 1 when all are equal, 1/n when one has all."""
    known = values[~np.isnan(values)]
    squares = float(np.dot(known, known))
    return float(known.sum()) ** 2 / (len(known) * squares) if squares > 0 else None
