"""The tenants' accounts: what was promised, what was used, and what is still due.

Part of the scheduler's state, and like all of it a fold of events: tenants are as
``TenantChanged`` says, time passes with every event, and ``Progressed`` says what was used.
Without tenants nothing of this is ever asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shockwave.engine.table import JobTable
from shockwave.model.event_records import plain
from shockwave.model.events import Progressed
from shockwave.model.tenants import Tenant
from shockwave.model.view import Bools, Floats, Ints, View
from shockwave.model.words import count_of
from shockwave.plan.endowments import (
    LAG_ROUNDS,
    Balance,
    Handed,
    Purse,
    Share,
    effective_weights,
    handed_out,
    settled,
    shares_of,
    water_fill,
)

_NOTHING = Balance()


@dataclass(frozen=True)
class Standing:
    """A tenant as things are: the GPUs that it could use now, and its share of all."""

    tenant: Tenant
    wanted: float
    share: Share


@dataclass(frozen=True, eq=False)
class Endowed:
    """A round's tenants: the view with effective weights, and how GPUs are handed out in it."""

    view: View
    names: Mapping[int, str]
    purses: Mapping[int, Purse]
    person: Ints

    def hand_out(self, order: Ints, first: Ints, gpus: Ints) -> Handed:
        view = self.view
        return handed_out(
            order,
            first=first,
            gpus=gpus,
            tenant=view.tenant,
            person=self.person,
            running=view.running,
            purses=self.purses,
            room=view.gpus_total,
        )

    def may_fill_up(self, backfill: Bools | None, run: Ints) -> Bools:
        """[job] who may use GPUs that are left over: of a tenant with a limit, who was chosen."""
        limited = [number for number, purse in self.purses.items() if purse.most < np.inf]
        may = ~np.isin(self.view.tenant, limited)
        may[run] = True
        return may if backfill is None else may & backfill

    def reason(self, handed: Handed, position: int) -> str | None:
        """Why its tenant keeps a job waiting; None if it does not."""
        number = int(self.view.tenant[position])
        name, purse = self.names[number], self.purses[number]
        if handed.at_most[position]:
            return f"tenant {name} may hold {count_of(int(purse.most), 'GPU')} at most"
        if handed.at_share[position]:
            mine = self.view.tenant[handed.run] == number
            holds = int(self.view.gpus[handed.run][mine].sum())
            return f"tenant {name} has its share, {count_of(holds, 'GPU')}"
        return None


class Accounts:
    """Balances are replaced, never changed: whoever looks from another thread sees whole ones."""

    def __init__(self) -> None:
        self.tenants: dict[str, Tenant] = {}  # as somebody said
        self.said_by: dict[str, str] = {}
        self.balances: dict[str, Balance] = {}
        self.people: dict[tuple[str, str], float] = {}  # lags, GPU-seconds
        self.time = 0.0  # up to which all is settled
        self.standings: dict[str, Standing] = {}
        self._due_to_people: dict[tuple[str, str], float] = {}
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
        gpus: int,
        round_seconds: float,
    ) -> None:
        """Up to ``now`` everything was as it is; ``wanting`` are the jobs that could use GPUs."""
        if version != self._version:
            self._version = version
            self._look(table, wanting(), gpus, round_seconds)
        seconds, self.time = now - self.time, now
        balances = dict(self.balances)
        for name, standing in self.standings.items():
            before = balances.get(name, _NOTHING)
            balances[name] = settled(before, standing.share, standing.tenant, 0.0, seconds)
        self.balances = balances
        for account, due in self._due_to_people.items():
            self.people[account] = self.people.get(account, 0.0) + due * seconds

    def _look(self, table: JobTable, wanting: Ints, gpus: int, round_seconds: float) -> None:
        """Who wants how much, and what is due to whom by that."""
        rows = table.rows(wanting)
        wanted = _by_tenant(table, rows, table.gpus[rows].astype(float))
        self.standings = self._standings(wanted, gpus, round_seconds)
        self._due_to_people = {}
        for name in self.standings:
            if self.standings[name].tenant.by_person:
                persons = self._people_of(name, table, wanting)
                due = _among(persons, self.standings[name].share.due)
                self._due_to_people |= {(name, person): gpus for person, gpus in due.items()}

    def _standings(
        self, wanted: Mapping[str, float], gpus: int, round_seconds: float
    ) -> dict[str, Standing]:
        names = sorted({*self.tenants, *wanted})
        tenants = [self.tenants.get(name) or Tenant(name) for name in names]
        needs = [wanted.get(name, 0.0) for name in names]
        balances = [self.balances.get(name, _NOTHING) for name in names]
        shares = shares_of(tenants, needs, balances, gpus, round_seconds)
        rows = zip(tenants, needs, shares, strict=True)
        return {tenant.name: Standing(tenant, need, share) for tenant, need, share in rows}

    def charge(self, table: JobTable, progress: Progressed) -> None:
        """What running jobs used."""
        here = np.isin(progress.handle, table.active)
        handles, held = progress.handle[here], progress.held_seconds[here]
        rows = table.rows(handles)
        used = table.gpus[rows] * held
        balances = dict(self.balances)
        for name, seconds in _by_tenant(table, rows, used).items():
            before = balances.get(name, _NOTHING)
            balances[name] = replace(before, lag=before.lag - seconds)
        self.balances = balances
        if self._due_to_people:
            for handle, seconds in zip(handles.tolist(), used.tolist(), strict=True):
                spec = table.spec(handle)
                account = (spec.tenant, spec.owner)
                if account in self._due_to_people:
                    self.people[account] = self.people.get(account, 0.0) - seconds

    def look_again(self) -> None:
        """A decision was taken: what is due may be another from now on."""
        self._version = -1

    def limited(self, table: JobTable, handles: Ints) -> Bools:
        """[handle] whether its tenant has a limit."""
        names = table.tenant_names()
        limited = [
            number
            for number, name in enumerate(names)
            if name in self.tenants and self.tenants[name].most is not None
        ]
        return np.isin(table.tenant[table.rows(handles)], limited)

    # A round.

    def endow(self, view: View, table: JobTable) -> Endowed | None:
        """The round's tenants; None where nothing is to be shared or limited between any."""
        if not self.tenants:
            return None
        names = table.tenant_names()
        present = np.unique(view.tenant).tolist()
        if len(present) == 1 and not _is_restricted(self.tenants.get(names[present[0]])):
            return None
        weights = view.gpus.astype(float)
        wanted = {names[number]: float(weights[view.tenant == number].sum()) for number in present}
        standings = self._standings(wanted, view.gpus_total, view.round_seconds)
        quantum = LAG_ROUNDS * view.round_seconds
        purses, person = {}, np.zeros(len(view), dtype=np.int64)
        for number in present:
            standing = standings[names[number]]
            tenant, people = standing.tenant, None
            if tenant.by_person:
                people = self._persons(view, table, number, standing, quantum, person)
            most = np.inf if tenant.most is None else float(tenant.most)
            lag = self.balances.get(tenant.name, _NOTHING).lag
            purses[number] = Purse(
                standing.share.due + lag / quantum, tenant.guaranteed, most, people
            )
        due = {number: standings[names[number]].share.due for number in present}
        weight = effective_weights(view.weight, view.tenant, due)
        told = {number: names[number] for number in present}
        return Endowed(replace(view, weight=weight), told, purses, person)

    def _persons(
        self,
        view: View,
        table: JobTable,
        number: int,
        standing: Standing,
        quantum: float,
        person: Ints,
    ) -> dict[int, float]:
        """GPUs in favour of each person of a tenant; writes who is whose into ``person``."""
        positions = np.flatnonzero(view.tenant == number)
        owners = [table.spec(handle).owner for handle in view.handle[positions].tolist()]
        known = {owner: index for index, owner in enumerate(sorted(set(owners)))}
        person[positions] = [known[owner] for owner in owners]
        wanted: dict[str, float] = dict.fromkeys(known, 0.0)
        for owner, gpus in zip(owners, view.gpus[positions].tolist(), strict=True):
            wanted[owner] += gpus
        due = _among(wanted, standing.share.due)
        name = standing.tenant.name
        return {
            index: due[owner] + self.people.get((name, owner), 0.0) / quantum
            for owner, index in known.items()
        }

    def _people_of(self, tenant: str, table: JobTable, handles: Ints) -> dict[str, float]:
        wanted: dict[str, float] = {}
        for handle in handles.tolist():
            spec = table.spec(handle)
            if spec.tenant == tenant:
                wanted[spec.owner] = wanted.get(spec.owner, 0.0) + spec.gpus
        return wanted

    # To a snapshot and back.

    def dump(self) -> dict[str, Any]:
        return {
            "tenants": [plain(tenant) for tenant in self.tenants.values()],
            "said_by": self.said_by,
            "balances": {name: plain(balance) for name, balance in self.balances.items()},
            "people": [[*account, lag] for account, lag in self.people.items()],
            "time": self.time,
            "standings": {
                name: [standing.wanted, plain(standing.share)]
                for name, standing in self.standings.items()
            },
            "due_to_people": [[*account, gpus] for account, gpus in self._due_to_people.items()],
            "version": self._version,
        }

    @classmethod
    def load(cls, document: dict[str, Any]) -> Accounts:
        accounts = cls()
        accounts.tenants = {one["name"]: Tenant(**one) for one in document["tenants"]}
        accounts.said_by = document["said_by"]
        accounts.balances = {name: Balance(**one) for name, one in document["balances"].items()}
        accounts.people = {(tenant, person): lag for tenant, person, lag in document["people"]}
        accounts.time = document["time"]
        accounts.standings = {
            name: Standing(accounts.tenants.get(name) or Tenant(name), wanted, Share(**share))
            for name, (wanted, share) in document["standings"].items()
        }
        accounts._due_to_people = {
            (tenant, person): gpus for tenant, person, gpus in document["due_to_people"]
        }
        accounts._version = document["version"]
        return accounts


def _is_restricted(tenant: Tenant | None) -> bool:
    """Whether being alone does not mean to have everything."""
    return tenant is not None and (tenant.most is not None or tenant.by_person)


def _by_tenant(table: JobTable, rows: Ints, amounts: Floats) -> dict[str, float]:
    if len(rows) == 0:
        return {}
    names = table.tenant_names()
    sums = np.bincount(table.tenant[rows], weights=amounts)
    present = np.unique(table.tenant[rows]).tolist()
    return {names[number]: float(sums[number]) for number in present}


def _among(wanted: Mapping[str, float], gpus: float) -> dict[str, float]:
    """Equal parts for people, as far as they want them."""
    needs = np.array(list(wanted.values()))
    parts = water_fill(gpus, np.ones(len(needs)), np.zeros(len(needs)), needs)
    return dict(zip(wanted, parts.tolist(), strict=True))
