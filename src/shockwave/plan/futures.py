"""Joint futures: every job's remaining time drawn together, those still to come included.

One sampled future holds one remaining time for each job. Over the samples a job takes every
one of its quantiles once, in an order of its own (a Latin hypercube): few samples then have
the right mean and spread for each job, and jobs are short or long independently of each other.
The order is a function of the job's handle alone, so that the futures of two rounds differ by
what was learned in between and by nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.newcomers import Newcomers


@dataclass(frozen=True)
class Futures:
    """The jobs that compete: first those of the view, then the expected ones.

    Times are seconds from now; ``fair_stretch`` times its exclusive runtime is the longest
    completion time that is fair to a job, and infinite where nothing is promised. Where other
    jobs come in every sample, what tells them apart is ``[sample, job]`` instead of ``[job]``.
    """

    remaining: Floats  # [sample, job]
    release: Floats  # [job] when it comes; 0 for those that are there
    elapsed: Floats  # [job] since its arrival; negative for those to come
    gpus: Floats
    copies: Floats  # how many expected jobs this one stands for
    weight: Floats
    running: Bools
    mean: Floats  # of the remaining time
    early: Floats  # a low quantile of it
    late: Floats  # a high quantile of it
    size: Floats  # what the remaining time counts as when the shortest goes first
    worked: Floats  # productive seconds so far
    restart: Floats  # seconds that a start costs
    stop: Floats  # seconds that are lost by stopping it: the next start, work that was not saved
    stays: Bools  # runs, and will until it ends
    fair_jct: Floats  # completion time in an equally shared cluster
    fair_stretch: Floats
    claim: Floats  # 1, or 0 for a job that broke its word and has no claim to fairness
    reserved: Floats  # from when a wide gang goes before all others; infinite for other jobs
    may_start: Bools  # a wide gang that may claim the cluster now already
    on_time: Floats  # latest finish that is fair given how crowded the cluster is
    active_integral: Floats  # sum over its rounds so far of the number of active jobs
    rounds_active: Floats
    horizon: float  # when all should have ended
    since: float  # for how long there has been no room for everybody
    round_seconds: float
    gpus_total: int
    present: int  # how many of the jobs are there
    newcomers: Newcomers | None = None  # who move what is fair and the end; not if they do not

    @property
    def samples(self) -> int:
        return len(self.remaining)

    def only(self, samples: slice) -> Futures:
        """Some of the samples."""
        return replace(self, remaining=self.remaining[samples])

    @property
    def jobs(self) -> int:
        return int(self.remaining.shape[1])

    def reserving(self, job: int) -> Futures:
        """The same with the job's reservation due now."""
        reserved = self.reserved.copy()
        reserved[job] = 0.0
        return replace(self, reserved=reserved)


def joint_samples(quantiles: Floats, handles: Ints) -> Floats:
    """[sample, job] each column of ``quantiles[level, job]`` in an order of the job's own.

    >>> joint_samples(np.array([[1.0, 5.0], [2.0, 6.0]]), np.array([7, 8])).sum(axis=0)
    array([ 3., 11.])
    """
    levels = np.arange(len(quantiles), dtype=np.uint64)[:, None]
    order = np.argsort(scrambled(handles.astype(np.uint64) * np.uint64(64) + levels), axis=0)
    return np.take_along_axis(quantiles, order, axis=0)


def scrambled(keys: np.ndarray) -> np.ndarray:
    """A well-mixed number for every key (the finaliser of SplitMix64)."""
    mixed = (keys + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def gittins_seconds(quantiles: Floats) -> Floats:
    """[job] the size that a job of uncertain length counts as: the inverse of Gittins' index.

        size = min over d of  E[ min(R, d) ] / P( R <= d )

    The expected time that one completion costs if the job is tried for the best ``d`` seconds
    and put back if it has not ended by then. A job of certain length counts as that; one that
    may end soon counts as short although its mean is long. ``quantiles[level, job]`` ascend.

    >>> gittins_seconds(np.array([[60.0, 10.0], [60.0, 1000.0]]))
    array([60., 20.])
    """
    levels = len(quantiles)
    ended = np.arange(1, levels + 1)[:, None] / levels
    spent = np.cumsum(quantiles, axis=0) / levels + quantiles * (1.0 - ended)
    return np.asarray((spent / ended).min(axis=0))
