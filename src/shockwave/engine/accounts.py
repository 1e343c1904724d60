"""The tenants' accounts: what was promised, what was used, and what is still due.

Part of the scheduler's state, and like all of it a fold of events: tenants are as
``TenantChanged`` says, time passes with every event, and ``Progressed`` says what was used.
Without tenants nothing of this is ever asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shockwave.engine.placement import TypeRoom
from shockwave.engine.pools import (
    COMMON,
    Layout,
    Pool,
    Standing,
    among,
    by_tenant,
    layout_of,
    wanted_of,
)
from shockwave.engine.table import JobTable
from shockwave.model.event_records import plain
from shockwave.model.options import Options
from shockwave.model.progress import Progressed
from shockwave.model.tenants import Tenant, tenant_of_record
from shockwave.model.view import Bools, Floats, Ints, View
from shockwave.model.words import count_of
from shockwave.plan.counter import ALL_TOGETHER, Handed, Purse
from shockwave.plan.endowments import LAG_ROUNDS, effective_weights


@dataclass(frozen=True, eq=False)
class Endowed:
    """A round's tenants: the view with effective weights, and what each has in its favour."""

    view: View
    names: Mapping[int, str]  # of tenants
    layout: Layout
    purses: tuple[Mapping[int, Purse], ...]  # by pool and tenant
    together: Mapping[int, Purse]
    person: Ints
    limited: tuple[int, ...]  # tenants that may not have everything
    preferred_type: Callable[[int], str]  # of a position

    def may_fill_up(self, backfill: Bools | None, run: Ints) -> Bools:
        """[job] who may use GPUs that are left over: of a tenant with a limit, who was chosen."""
        may = ~np.isin(self.view.tenant, self.limited)
        may[run] = True
        return may if backfill is None else may & backfill

    def reason(self, handed: Handed, position: int, *, liked: bool) -> str | None:
        """Why tenants keep a job waiting that the policy ``liked`` or not; None if they do not."""
        number = int(self.view.tenant[position])
        name, pool = self.names[number], handed.at_most.get(position)
        if pool is not None:
            purse = self.together[number] if pool == ALL_TOGETHER else self.purses[pool][number]
            kind = COMMON if pool == ALL_TOGETHER else self.layout.names[pool]
            most = int(purse.most)
            gpus = count_of(most, "GPU") if kind == COMMON else f"{most} {kind}"
            return f"tenant {name} may hold {gpus} at most"
        if handed.at_share[position]:
            given = zip(handed.run.tolist(), handed.offers, strict=True)
            holds = sum(offer.gpus for job, offer in given if self.view.tenant[job] == number)
            return f"tenant {name} has its share, {count_of(holds, 'GPU')}"
        return "more is owed to other tenants" if liked else None


class Accounts:
    """What tenants were promised, and what is due to them in every pool of GPUs."""

    def __init__(self) -> None:
        self.tenants: dict[str, Tenant] = {}  # as somebody said
        self.said_by: dict[str, str] = {}
        self.pools: dict[str, Pool] = {}  # replaced, never changed
        self.time = 0.0  # up to which all is settled
        self._version = -1  # of the state that the standings are of

    def change(self, tenant: Tenant, by: str) -> None:
        self.tenants = {**self.tenants, tenant.name: tenant}
        self.said_by = {**self.said_by, tenant.name: by}
        self._version = -1

    # Time passes.

    def pass_time(
        self,
        now: float,
        table: JobTable,
        wanting: Callable[[], Ints],
        *,
        version: int,
        types: Callable[[], Iterable[TypeRoom]],
        round_seconds: float,
    ) -> None:
        """Up to ``now`` everything was as it is; ``wanting`` are the jobs that could use GPUs."""
        if version != self._version:
            self._version = version
            layout = layout_of(self.tenants.values(), types())
            self._look(layout, table, wanting(), round_seconds)
        seconds, self.time = now - self.time, now
        for pool in self.pools.values():
            pool.pass_time(seconds)

    def _look(self, layout: Layout, table: JobTable, wanting: Ints, round_seconds: float) -> None:
        """Who wants how much, and what is due to whom by that."""
        missing = {name: Pool() for name in layout.names if name not in self.pools}
        self.pools |= missing
        for name in self.pools.keys() - set(layout.names):
            self.pools[name].standings = {}
        rows = table.rows(wanting)
        # What the policy does not give to jobs that could grow is not owed to anybody.
        wanted = _wanted(layout, table, rows, most=False)
        for number, name in enumerate(layout.names):
            column = wanted[:, number]

            def people(tenant: str, column: Floats = column) -> dict[str, float]:
                return _by_person(table, wanting, column, tenant)

            self.pools[name].look(
                self._tenants(layout, number),
                by_tenant(table, rows, column),
                people,
                layout.gpus[number],
                round_seconds,
            )

    def _tenants(self, layout: Layout, pool: int) -> dict[str, Tenant]:
        return {name: layout.tenant(tenant, pool) for name, tenant in self.tenants.items()}

    def charge(self, table: JobTable, progress: Progressed) -> None:
        """What running jobs used."""
        here = np.isin(progress.handle, table.active)
        handles, held = progress.handle[here], progress.held_seconds[here]
        rows, options = table.rows(handles), table.options
        if options is None:
            for pool in self.pools.values():
                if pool.standings:  # without options there is one
                    pool.charge(table, handles, table.gpus[rows] * held)
            return
        gpus, kinds = options.last_held(rows, table.gpus[rows])
        names = np.array([kind if kind in self.pools else COMMON for kind in kinds], dtype=object)
        for name, pool in self.pools.items():
            own = names == name
            pool.charge(table, handles[own], (gpus * held)[own])

    def look_again(self) -> None:
        """A decision was taken: what is due may be another from now on."""
        self._version = -1

    def limited(self, table: JobTable, handles: Ints) -> Bools:
        """[handle] whether its tenant has a limit."""
        names = table.tenant_names()
        limited = [number for number, name in enumerate(names) if self._is_limited(name)]
        return np.isin(table.tenant[table.rows(handles)], limited)

    def _is_limited(self, name: str) -> bool:
        return name in self.tenants and self.tenants[name].limited

    # A round.

    def endow(self, view: View, table: JobTable, types: Iterable[TypeRoom]) -> Endowed | None:
        """The round's tenants; None where nothing is to be shared or limited between any."""
        if not self.tenants:
            return None
        names = table.tenant_names()
        present = np.unique(view.tenant).tolist()
        if len(present) == 1 and not _is_restricted(self.tenants.get(names[present[0]])):
            return None
        layout = layout_of(self.tenants.values(), types)
        wanted = _wanted(layout, table, table.rows(view.handle), most=True)
        person = _persons(view, table, [n for n in present if self._shares_by_person(names[n])])
        purses: list[dict[int, Purse]] = []
        due = dict.fromkeys(present, 0.0)
        quantum = LAG_ROUNDS * view.round_seconds
        for index, name in enumerate(layout.names):
            pool, needs = self.pools.get(name, _EMPTY), wanted[:, index]
            sums = {names[n]: float(needs[view.tenant == n].sum()) for n in present}
            standings = pool.share(
                self._tenants(layout, index), sums, layout.gpus[index], view.round_seconds
            )
            of_pool = {}
            for number in present:
                standing = standings[names[number]]
                people = None
                if standing.tenant.by_person:
                    own = view.tenant == number
                    people = _favour(pool, standing, table, view.handle[own], needs[own], quantum)
                most = math.inf if standing.tenant.most is None else float(standing.tenant.most)
                gpus = standing.share.due + pool.lag(names[number]) / quantum
                of_pool[number] = Purse(gpus, standing.tenant.guaranteed, most, people)
                due[number] += standing.share.due
            purses.append(of_pool)
        told = {number: names[number] for number in present}
        weight = effective_weights(view.weight, view.tenant, due)
        return Endowed(
            replace(view, weight=weight, options=self._within_limits(view, told)),
            told,
            layout,
            tuple(purses),
            {number: self._together(names[number]) for number in present},
            person,
            tuple(number for number in present if self._is_limited(names[number])),
            lambda position: table.spec(int(view.handle[position])).preferred_type,
        )

    def _shares_by_person(self, name: str) -> bool:
        return name in self.tenants and self.tenants[name].by_person

    def _together(self, name: str) -> Purse:
        tenant = self.tenants.get(name) or Tenant(name)
        most = math.inf if tenant.most is None else float(tenant.most)
        return Purse(0.0, tenant.guaranteed, most)

    def _within_limits(self, view: View, names: Mapping[int, str]) -> Options | None:
        """The options without those that are more than a tenant may hold, unless all are."""
        options = view.options
        if options is None or not any(map(self._is_limited, names.values())):
            return options
        allowed, requested = options.allowed.copy(), options.requested.copy()
        for number, name in names.items():
            if not self._is_limited(name):
                continue
            most = np.array([self.tenants[name].most_of(kind) for kind in options.types])
            within = options.gpus <= most[options.type]
            own = view.tenant == number
            for matrix in (allowed, requested):
                left = matrix[own] & within
                matrix[own] = np.where(left.any(axis=1, keepdims=True), left, matrix[own])
        return replace(options, allowed=allowed, requested=requested)

    # To a snapshot and back.

    def dump(self) -> dict[str, Any]:
        return {
            "tenants": [plain(tenant) for tenant in self.tenants.values()],
            "said_by": self.said_by,
            "pools": {name: pool.dump() for name, pool in self.pools.items()},
            "time": self.time,
            "version": self._version,
        }

    @classmethod
    def load(cls, document: dict[str, Any]) -> Accounts:
        accounts = cls()
        accounts.tenants = {one["name"]: tenant_of_record(one) for one in document["tenants"]}
        accounts.said_by = document["said_by"]
        accounts.time = document["time"]
        accounts._version = document["version"]
        accounts.pools = {name: Pool.load(pool) for name, pool in document["pools"].items()}
        return accounts


_EMPTY = Pool()  # in which nobody was ever owed anything


def _is_restricted(tenant: Tenant | None) -> bool:
    """Whether being alone does not mean to have everything."""
    return tenant is not None and (tenant.limited or tenant.by_person)


def _wanted(layout: Layout, table: JobTable, rows: Ints, *, most: bool) -> Floats:
    """[job, pool] GPUs."""
    options = table.options
    if options is None:
        return np.asarray(table.gpus[rows].astype(float)[:, None].repeat(len(layout.names), 1))
    return wanted_of(layout, options.what_jobs_could_hold(rows), most=most)


def _by_person(
    table: JobTable, handles: Ints, wanted: Floats, tenant: str | None = None
) -> dict[str, float]:
    sums: dict[str, float] = {}
    for handle, gpus in zip(handles.tolist(), wanted.tolist(), strict=True):
        spec = table.spec(handle)
        if tenant in (None, spec.tenant):
            sums[spec.owner] = sums.get(spec.owner, 0.0) + gpus
    return sums


def _persons(view: View, table: JobTable, tenants: list[int]) -> Ints:
    """[job] who of its tenant's people it belongs to, for tenants that share by person."""
    person = np.zeros(len(view), dtype=np.int64)
    for number in tenants:
        positions = np.flatnonzero(view.tenant == number)
        owners = [table.spec(handle).owner for handle in view.handle[positions].tolist()]
        known = {owner: index for index, owner in enumerate(sorted(set(owners)))}
        person[positions] = [known[owner] for owner in owners]
    return person


def _favour(
    pool: Pool, standing: Standing, table: JobTable, handles: Ints, wanted: Floats, quantum: float
) -> dict[int, float]:
    """GPUs in favour of each person of a tenant, numbered by name."""
    needs = _by_person(table, handles, wanted)
    due = among(needs, standing.share.due)
    name = standing.tenant.name
    return {
        index: due[owner] + pool.people.get((name, owner), 0.0) / quantum
        for index, owner in enumerate(sorted(needs))
    }
