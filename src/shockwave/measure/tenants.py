"""Fairness between tenants: what each got of what was due to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shockwave.measure.history import Jobs, RunHistory
from shockwave.model.tenants import Tenant
from shockwave.model.view import Bools, Floats, Ints
from shockwave.plan.endowments import Balance, shares_of


@dataclass(frozen=True, slots=True)
class PersonFigures:
    """What a person of a tenant got."""

    person: str
    jobs: int
    gpu_seconds: float


@dataclass(frozen=True, slots=True)
class TenantFigures:
    """``due_gpu_seconds``: its plain share by weight, guarantee and limit while it wanted GPUs."""

    tenant: str
    jobs: int
    gpu_seconds: float
    due_gpu_seconds: float
    mean_jct_seconds: float | None
    people: tuple[PersonFigures, ...] = ()  # the one who got most first

    @property
    def share(self) -> float | None:
        """What it got over what was due; None if nothing was."""
        return self.gpu_seconds / self.due_gpu_seconds if self.due_gpu_seconds > 0 else None


def tenant_figures(history: RunHistory) -> list[TenantFigures]:
    """One for each tenant that had jobs; empty where nobody declared any tenants."""
    if not history.tenants or len(history.jobs) == 0:
        return []
    jobs, tenant = history.jobs, np.array(history.jobs.tenant)
    due = due_between(history, 0.0, np.inf)
    figures = []
    for name in sorted(due):
        own = tenant == name
        finished = own & jobs.finished
        if own.any():
            jct = float(jobs.jct[finished].mean()) if finished.any() else None
            used = float(jobs.gpu_seconds[own].sum())
            people = _people(jobs, own)
            figures.append(TenantFigures(name, int(own.sum()), used, due[name], jct, people))
    return figures


def _people(jobs: Jobs, own: Bools) -> tuple[PersonFigures, ...]:
    """Of the jobs of a tenant, as far as somebody said whose they are."""
    if not any(jobs.owner):
        return ()
    owner = np.array(jobs.owner)
    found = [
        PersonFigures(str(who), int(mine.sum()), float(jobs.gpu_seconds[mine].sum()))
        for who in np.unique(owner[own])
        for mine in (own & (owner == who),)
    ]
    return tuple(sorted(found, key=lambda person: -person.gpu_seconds))


def worst_tenant_share(history: RunHistory) -> float | None:
    """The least that a tenant got of what was due to it; None without tenants."""
    shares = [figures.share for figures in tenant_figures(history)]
    known = [share for share in shares if share is not None]
    return min(known) if known else None


def due_between(history: RunHistory, begin: float, end: float) -> dict[str, float]:
    """By tenant, the GPU-seconds of its plain share; empty where nobody declared any tenants."""
    if not history.tenants or len(history.jobs) == 0:
        return {}
    declared = {tenant.name: tenant for tenant in history.tenants}
    names = sorted({*history.jobs.tenant, *declared})
    tenants = [declared.get(name) or Tenant(name) for name in names]
    number = np.array([names.index(name) for name in history.jobs.tenant])
    due = _due(history, tenants, number, begin, end)
    return dict(zip(names, due.tolist(), strict=True))


def _due(
    history: RunHistory, tenants: list[Tenant], number: Ints, begin: float, end: float
) -> Floats:
    """[tenant] GPU-seconds: plain shares, summed over stretches in which nothing changes."""
    jobs, count = history.jobs, len(tenants)
    times = np.concatenate([jobs.arrival, jobs.end, history.capacity_time])
    change = np.zeros((len(times), count))
    rows = np.arange(len(jobs))
    change[rows, number] = jobs.gpus
    change[rows + len(jobs), number] = -jobs.gpus
    order = np.argsort(times, kind="stable")
    wanted, due, before = np.zeros(count), np.zeros(count), begin
    balances = [Balance()] * count
    gpus = 0
    for position in order.tolist():
        now = min(max(float(times[position]), begin), end)
        if now > before and wanted.any() and gpus > 0:
            shares = shares_of(tenants, wanted.tolist(), balances, gpus, 1.0)
            due += (now - before) * np.array([share.plain for share in shares])
        before = max(before, now)
        wanted = wanted + change[position]
        if position >= 2 * len(jobs):
            gpus = int(history.capacity_gpus[position - 2 * len(jobs)])
    return due
