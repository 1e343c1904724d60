"""Quantities over time, and distributions, reduced to as many points as a chart can show."""

from __future__ import annotations

import numpy as np

from shockwave.measure.history import RunHistory
from shockwave.model.view import Floats

CDF_POINTS = 400


def distribution(values: Floats) -> tuple[Floats, Floats]:
    """The empirical distribution as steps: sorted values and the fraction at or below each.

    Of more than 400 values, 400 evenly spaced quantiles (both extremes included) stand for all.
    """
    known = np.sort(values[~np.isnan(values)])
    fraction = np.arange(1, len(known) + 1) / max(len(known), 1)
    if len(known) > CDF_POINTS:
        chosen = np.linspace(0, len(known) - 1, CDF_POINTS).round().astype(np.int64)
        known, fraction = known[chosen], fraction[chosen]
    return known, fraction


def mean_in_bins(starts: Floats, stops: Floats, heights: Floats, edges: Floats) -> Floats:
    """[bin] time average of the sum of all intervals ``[start, stop)`` of the given heights.

    Exact: the integral of the sum is piecewise linear, and is read off at the bins' edges.
    """
    times = np.concatenate([starts, stops])
    change = np.concatenate([heights, -heights])
    order = np.argsort(times, kind="stable")
    times, change = times[order], change[order]
    if not len(times):
        return np.zeros(len(edges) - 1)
    level = np.cumsum(change)
    integral = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
    return np.asarray(np.diff(np.interp(edges, times, integral)) / np.diff(edges))


def busy_gpus(history: RunHistory, edges: Floats) -> Floats:
    """[bin] mean number of GPUs under lease."""
    leases = history.leases
    return mean_in_bins(leases.start, leases.stop, leases.gpus.astype(np.float64), edges)


def active_jobs(history: RunHistory, edges: Floats) -> Floats:
    """[bin] mean number of jobs in the system."""
    jobs = history.jobs
    return mean_in_bins(jobs.arrival, jobs.end, np.ones(len(jobs)), edges)


def running_jobs(history: RunHistory, edges: Floats) -> Floats:
    """[bin] mean number of jobs that hold their GPUs."""
    leases = history.leases
    return mean_in_bins(leases.start, leases.stop, np.ones(len(leases)), edges)


def gpus_up(history: RunHistory, edges: Floats) -> Floats:
    """[bin] mean number of GPUs of nodes that are up, without those that others hold."""
    starts = history.capacity_time
    stops = np.append(starts[1:], max(float(edges[-1]), float(starts[-1])))
    return mean_in_bins(starts, stops, history.capacity_gpus.astype(np.float64), edges)
