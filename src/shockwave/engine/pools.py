"""Pools of GPUs: what is shared together between tenants, and who wants how much of it.

The GPUs of a type that some tenant was promised something of are a pool of their own; those of
all other types are one pool together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shockwave.engine.options import Wishes
from shockwave.engine.placement import TypeRoom
from shockwave.engine.table import JobTable
from shockwave.model.event_records import plain
from shockwave.model.tenants import Tenant, tenant_of_record
from shockwave.model.view import Floats, Ints
from shockwave.plan.endowments import Balance, Share, settled, shares_of, water_fill

COMMON = ""  # the pool of all types of which nobody was promised anything

_NOTHING = Balance()


@dataclass(frozen=True)
class Standing:
    """A tenant in a pool as things are: the GPUs that it could use now, and its share."""

    tenant: Tenant
    wanted: float
    share: Share


@dataclass(frozen=True)
class Layout:
    """The pools that there are now, and to which of them each type of GPU belongs."""

    names: tuple[str, ...]
    gpus: tuple[int, ...]
    of_type: Mapping[str, int]

    def tenant(self, tenant: Tenant, pool: int) -> Tenant:
        """The tenant as far as the GPUs of a pool are concerned."""
        name = self.names[pool]
        return tenant if name == COMMON else tenant.as_of(name, alone=len(self.names) == 1)


def layout_of(tenants: Iterable[Tenant], types: Iterable[TypeRoom]) -> Layout:
    """Types without GPUs are in no pool."""
    promised = {promise.gpu_type for tenant in tenants for promise in tenant.types}
    gpus: dict[str, int] = {}
    types = [room for room in types if room.gpus > 0]
    for room in types:
        name = room.name if room.name in promised else COMMON
        gpus[name] = gpus.get(name, 0) + room.gpus
    number = {name: index for index, name in enumerate(gpus)}
    return Layout(
        tuple(gpus),
        tuple(gpus.values()),
        {room.name: number[room.name if room.name in promised else COMMON] for room in types},
    )


def wanted_of(layout: Layout, wishes: Wishes, *, most: bool) -> Floats:
    """[job, pool] GPUs that each job wants: the ``most`` that it could use, or what it asks for.

    A job that runs wants the GPUs of the pool that it is in, and if not the most, those that it
    holds. Of one that waits and could have those of several, a part is wanted of each, in
    proportion to their size.
    """
    names, held, gpus = wishes.types, wishes.held, wishes.gpus
    pool = np.array([layout.of_type.get(names[kind], -1) for kind in wishes.kind.tolist()], int)
    could = wishes.could.copy() if most else wishes.requested.copy()
    runs = np.flatnonzero(held >= 0)
    could[runs] &= (pool[None, :] == pool[held[runs]][:, None]) & most
    could[runs, held[runs]] = True
    wanted = np.zeros((len(held), len(layout.names)))
    for number in range(len(layout.names)):
        inside = pool == number
        wanted[:, number] = (could[:, inside] * gpus[inside]).max(axis=1, initial=0)
    size = np.where(wanted > 0, np.array(layout.gpus, dtype=np.float64), 0.0)
    return np.asarray(wanted * size / np.maximum(size.sum(axis=1, keepdims=True), 1.0))


class Pool:
    """The accounts of all tenants in one pool.

    Balances are replaced, never changed: whoever looks from another thread sees whole ones.
    """

    def __init__(self) -> None:
        self.balances: dict[str, Balance] = {}
        self.people: dict[tuple[str, str], float] = {}  # lags, GPU-seconds
        self.standings: dict[str, Standing] = {}
        self._due_to_people: dict[tuple[str, str], float] = {}

    def lag(self, tenant: str) -> float:
        return self.balances.get(tenant, _NOTHING).lag

    def pass_time(self, seconds: float) -> None:
        balances = dict(self.balances)
        for name, standing in self.standings.items():
            before = balances.get(name, _NOTHING)
            balances[name] = settled(before, standing.share, standing.tenant, 0.0, seconds)
        self.balances = balances
        for account, due in self._due_to_people.items():
            self.people[account] = self.people.get(account, 0.0) + due * seconds

    def look(
        self,
        tenants: Mapping[str, Tenant],
        wanted: Mapping[str, float],
        people: Callable[[str], Mapping[str, float]],
        gpus: int,
        round_seconds: float,
    ) -> None:
        """Who wants how much, and what is due to whom by that; ``people`` of a tenant do too."""
        self.standings = self.share(tenants, wanted, gpus, round_seconds)
        self._due_to_people = {}
        for name, standing in self.standings.items():
            if standing.tenant.by_person:
                due = among(people(name), standing.share.due)
                self._due_to_people |= {(name, person): gpus for person, gpus in due.items()}

    def share(
        self,
        tenants: Mapping[str, Tenant],
        wanted: Mapping[str, float],
        gpus: int,
        round_seconds: float,
    ) -> dict[str, Standing]:
        """What would be due to each tenant, if this is wanted."""
        names = sorted({*tenants, *wanted})
        all_tenants = [tenants.get(name) or Tenant(name) for name in names]
        needs = [wanted.get(name, 0.0) for name in names]
        balances = [self.balances.get(name, _NOTHING) for name in names]
        shares = shares_of(all_tenants, needs, balances, gpus, round_seconds)
        rows = zip(all_tenants, needs, shares, strict=True)
        return {tenant.name: Standing(tenant, need, share) for tenant, need, share in rows}

    def charge(self, table: JobTable, handles: Ints, used: Floats) -> None:
        """GPU-seconds that running jobs used."""
        balances = dict(self.balances)
        for name, seconds in by_tenant(table, table.rows(handles), used).items():
            before = balances.get(name, _NOTHING)
            balances[name] = replace(before, lag=before.lag - seconds)
        self.balances = balances
        if self._due_to_people:
            for handle, seconds in zip(handles.tolist(), used.tolist(), strict=True):
                spec = table.spec(handle)
                account = (spec.tenant, spec.owner)
                if account in self._due_to_people:
                    self.people[account] = self.people.get(account, 0.0) - seconds

    # To a snapshot and back.

    def dump(self) -> dict[str, Any]:
        return {
            "balances": {name: plain(balance) for name, balance in self.balances.items()},
            "people": [[*account, lag] for account, lag in self.people.items()],
            "standings": {
                name: [plain(standing.tenant), standing.wanted, plain(standing.share)]
                for name, standing in self.standings.items()
            },
            "due_to_people": [[*account, gpus] for account, gpus in self._due_to_people.items()],
        }

    @classmethod
    def load(cls, document: dict[str, Any]) -> Pool:
        pool = cls()
        pool.balances = {name: Balance(**one) for name, one in document["balances"].items()}
        pool.people = {(team, person): lag for team, person, lag in document["people"]}
        pool.standings = {
            name: Standing(tenant_of_record(tenant), wanted, Share(**share))
            for name, (tenant, wanted, share) in document["standings"].items()
        }
        pool._due_to_people = {
            (team, person): gpus for team, person, gpus in document["due_to_people"]
        }
        return pool


def by_tenant(table: JobTable, rows: Ints, amounts: Floats) -> dict[str, float]:
    """The sums of amounts of jobs."""
    if len(rows) == 0:
        return {}
    names = table.tenant_names()
    sums = np.bincount(table.tenant[rows], weights=amounts)
    present = np.unique(table.tenant[rows]).tolist()
    return {names[number]: float(sums[number]) for number in present}


def among(wanted: Mapping[str, float], gpus: float) -> dict[str, float]:
    """Equal parts for people, as far as they want them."""
    needs = np.array(list(wanted.values()))
    parts = water_fill(gpus, np.ones(len(needs)), np.zeros(len(needs)), needs)
    return dict(zip(wanted, parts.tolist(), strict=True))
