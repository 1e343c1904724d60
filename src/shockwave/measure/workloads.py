"""A workload under a policy: simulated, and the figures by which policies are compared."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from shockwave.engine.loop import Observer
from shockwave.engine.rounds import Rounds
from shockwave.executors.faults import Fault, JobCrash, NodeFailure, NodeRecovery
from shockwave.executors.simulation import TraceTruth, simulate
from shockwave.measure.fold import fold_history
from shockwave.measure.history import RunHistory
from shockwave.measure.metrics import METRICS
from shockwave.model.events import Event
from shockwave.model.view import Bools
from shockwave.policies.base import Policy
from shockwave.predict import registry as predictors
from shockwave.predict.base import Predictor
from shockwave.traces.families import Workload

Figures = dict[str, Any]


def simulate_workload(
    workload: Workload, policy: Policy, predictor: Predictor, observers: Sequence[Observer] = ()
) -> list[Event]:
    """The workload on its cluster, with all that happens to it."""
    return simulate(
        workload.jobs,
        workload.cluster,
        policy,
        predictor,
        rounds=Rounds(workload.round_seconds, workload.restart_seconds),
        faults=_faults(workload),
        observers=observers,
    )


def figures_of(workload: Workload, policy: Policy) -> Figures:
    """Simulates the workload under the policy and its own predictor.

    Times are seconds; ``makespan_seconds`` counts from the first arrival, and is ``None`` where
    the workload has no end. ``restart_lost`` is the share of the GPU time held that starts
    cost. Where jobs differ in weight, ``weighted_jct_seconds`` is the mean by it. Where the
    workload marks jobs, their figures stand apart as ``marked_...``.
    """
    began = time.perf_counter()
    truth = TraceTruth(workload.jobs)
    predictor = predictors.create(policy.predictor, truth=truth)
    history = fold_history(simulate_workload(workload, policy, predictor))
    counted = _counted(workload, history)
    with_claim = counted & ~_among(history.jobs.id, workload.without_claim)
    named = ("mean_jct_seconds", "restarts", "plan_seconds_mean", "plan_seconds_p95")
    figures: Figures = {name: METRICS[name].compute(history, counted) for name in named}
    for name in ("worst_ftf_egalitarian", "unfair_themis"):
        figures[name] = METRICS[name].compute(history, with_claim)
    figures["makespan_seconds"] = (
        float(np.nanmax(history.jobs.finish) - history.jobs.arrival.min())
        if workload.window is None
        else None
    )
    weight = history.jobs.weight[counted]
    if np.ptp(weight) > 0.0:
        jct = history.jobs.jct[counted]
        figures["weighted_jct_seconds"] = float(np.average(jct, weights=weight))
    lost = METRICS["restart_lost_gpu_seconds"].compute(history, counted) or 0.0
    figures["restart_lost"] = lost / float(history.jobs.gpu_seconds[counted].sum())
    if workload.marked:
        figures |= _figures_of_marked(workload, history)
    figures["clairvoyant"] = predictor.clairvoyant
    figures["finished_jobs"] = int(history.jobs.finished.sum())
    figures["wall_seconds"] = time.perf_counter() - began
    return figures


def _figures_of_marked(workload: Workload, history: RunHistory) -> Figures:
    jobs = history.jobs
    marked = _among(jobs.id, workload.marked)
    return {
        "marked_jct_seconds": METRICS["mean_jct_seconds"].compute(history, marked),
        "unmarked_jct_seconds": METRICS["mean_jct_seconds"].compute(history, ~marked),
        "marked_wait_seconds": float(np.nanmean((jobs.first_start - jobs.arrival)[marked])),
        "marked_restarts": int(jobs.restarts[marked].sum()),
        "marked_worst_ftf_egalitarian": METRICS["worst_ftf_egalitarian"].compute(history, marked),
    }


def _counted(workload: Workload, history: RunHistory) -> Bools:
    if workload.window is None:
        return np.ones(len(history.jobs), dtype=np.bool_)
    return workload.window.counts(history.jobs.arrival)


def _among(ids: Sequence[str], chosen: frozenset[str]) -> Bools:
    return np.array([name in chosen for name in ids], dtype=np.bool_)


def _faults(workload: Workload) -> list[Fault]:
    nodes = {node.id: node for node in workload.cluster.nodes}
    faults: list[Fault] = [JobCrash(crash.seconds, crash.job) for crash in workload.crashes]
    for outage in workload.outages:
        faults.append(NodeFailure(outage.down_seconds, outage.node))
        faults.append(NodeRecovery(outage.up_seconds, nodes[outage.node]))
    return faults
