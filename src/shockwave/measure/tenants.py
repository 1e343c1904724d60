"""Fairness between tenants: what each got of what was due to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.measure.history import RunHistory
from shockwave.model.tenants import Tenant
from shockwave.model.view import Floats, Ints
from shockwave.plan.endowments import Balance, shares_of


@dataclass(frozen=True, slots=True)
class TenantFigures:
    """``due_gpu_seconds``: its plain share by weight, guarantee and limit while it wanted GPUs."""

    tenant: str
    jobs: int
    gpu_seconds: float
    due_gpu_seconds: float
    mean_jct_seconds: float | None

    @property
    def share(self) -> float | None:
        """What it got over what was due; None if nothing was."""
        return self.gpu_seconds / self.due_gpu_seconds if self.due_gpu_seconds > 0 else None


def tenant_figures(history: RunHistory) -> list[TenantFigures]:
    """One for each tenant that had jobs; empty where nobody declared any tenants."""
    if not history.tenants or len(history.jobs) == 0:
        return []
    jobs, declared = history.jobs, {tenant.name: tenant for tenant in history.tenants}
    names = sorted({*jobs.tenant, *declared})
    tenants = [declared.get(name) or Tenant(name) for name in names]
    number = np.array([names.index(name) for name in jobs.tenant])
    due = _due(history, tenants, number)
    figures = []
    for index, name in enumerate(names):
        own = number == index
        finished = own & jobs.finished
        if own.any():
            jct = float(jobs.jct[finished].mean()) if finished.any() else None
            used = float(jobs.gpu_seconds[own].sum())
            figures.append(TenantFigures(name, int(own.sum()), used, float(due[index]), jct))
    return figures


def worst_tenant_share(history: RunHistory) -> float | None:
    """The least that a tenant got of what was due to it; None without tenants."""
    shares = [figures.share for figures in tenant_figures(history)]
    known = [share for share in shares if share is not None]
    return min(known) if known else None


def _due(history: RunHistory, tenants: list[Tenant], number: Ints) -> Floats:
    """[tenant] GPU-seconds: plain shares, summed over stretches in which nothing changes."""
    jobs, count = history.jobs, len(tenants)
    times = np.concatenate([jobs.arrival, jobs.end, history.capacity_time])
    change = np.zeros((len(times), count))
    rows = np.arange(len(jobs))
    change[rows, number] = jobs.gpus
    change[rows + len(jobs), number] = -jobs.gpus
    order = np.argsort(times, kind="stable")
    wanted, due, before = np.zeros(count), np.zeros(count), 0.0
    balances = [Balance()] * count
    gpus = 0
    for position in order.tolist():
        now = float(times[position])
        if now > before and wanted.any() and gpus > 0:
            shares = shares_of(tenants, wanted.tolist(), balances, gpus, 1.0)
            due += (now - before) * np.array([share.plain for share in shares])
        before = max(before, now)
        wanted = wanted + change[position]
        if position >= 2 * len(jobs):
            gpus = int(history.capacity_gpus[position - 2 * len(jobs)])
    return due
