"""Tenants of a running scheduler: what people are told of them, and what operators change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from shockwave.engine.accounts import Accounts
from shockwave.model.errors import InputError
from shockwave.model.tenants import Tenant, TypePromise, check_tenant
from shockwave.model.words import count_of
from shockwave.server.gpu_wishes import counts_of, known_types, request_of
from shockwave.server.records import Submission, TenantChanges, TenantRecord, TenantTypeRecord

_HOUR = 3600.0


def told(
    records: Iterable[TenantRecord], declared: Mapping[str, Tenant], accounts: Accounts
) -> list[TenantRecord]:
    """The records with what was promised, and what is due by that."""
    promised = {promise.gpu_type for tenant in declared.values() for promise in tenant.types}
    return [
        _told(record, declared.get(record.tenant) or Tenant(record.tenant), promised, accounts)
        for record in records
    ]


def _told(
    record: TenantRecord, tenant: Tenant, promised: set[str], accounts: Accounts
) -> TenantRecord:
    pools = accounts.pools  # what it holds is replaced, never changed
    standings = [pool.standings.get(tenant.name) for pool in pools.values()]
    balances = [pool.balances.get(tenant.name) for pool in pools.values()]
    busy = {one.gpu_type: one.gpus_busy for one in record.types}
    types = []
    for name in sorted({*busy, *promised}):
        promise = next((one for one in tenant.types if one.gpu_type == name), TypePromise(name))
        pool = pools.get(name)
        standing = None if pool is None else pool.standings.get(tenant.name)
        carried = None if pool is None else pool.balances.get(tenant.name)
        types.append(
            TenantTypeRecord(
                **asdict(promise),
                gpus_busy=busy.get(name, 0 if busy else record.gpus_busy),
                due_gpus=None if standing is None else standing.share.due,
                carry_over_gpu_hours=None if carried is None else carried.carry_over / _HOUR,
            )
        )
    return record.model_copy(
        update={
            "weight": tenant.weight,
            "guaranteed": tenant.guaranteed,
            "most": tenant.most,
            "due_gpus": sum(one.share.due for one in standings if one is not None),
            "carry_over_gpu_hours": sum(one.carry_over for one in balances if one) / _HOUR,
            "types": types,
        }
    )


def changed(tenant: Tenant, changes: TenantChanges, gpus: Mapping[str, int]) -> Tenant:
    """The tenant as an operator wants it. Raises :class:`InputError` for what makes no sense.

    ``gpus`` are those of the cluster, by their type.
    """
    said = changes.model_dump(include=changes.model_fields_set)
    types = {promise.gpu_type: promise for promise in tenant.types}
    for name, wanted in changes.types.items():
        (kind,) = known_types([name], gpus, "types")
        new = {} if wanted is None else wanted.model_dump(include=wanted.model_fields_set)
        before = asdict(types.pop(kind, TypePromise(kind)))
        if wanted is not None:
            types[kind] = TypePromise(**{**before, **new})
    types = {name: promise for name, promise in types.items() if promise != TypePromise(name)}
    said["types"] = tuple(types[name] for name in sorted(types))
    return check_tenant(Tenant(**{**_fields(tenant), **said}))


def _fields(tenant: Tenant) -> dict[str, object]:
    return {name: getattr(tenant, name) for name in Tenant.__dataclass_fields__}


def check_within_limits(
    submission: Submission, tenant: Tenant | None, gpus: Mapping[str, int]
) -> None:
    """Raises :class:`InputError` for a gang that its tenant could never hold."""
    if tenant is None or not tenant.limited:
        return
    least = min((request_of(submission.gpus), *counts_of(submission.gpus)))
    most = {
        kind: tenant.most_of(kind)
        for kind in gpus
        if not submission.gpu_types or kind in submission.gpu_types
    }
    best = max(most, key=lambda kind: most[kind], default=None)
    if best is None or least <= most[best]:
        return
    by_type = most[best] != tenant.most
    what = f"{most[best]:g} {best}" if by_type else count_of(int(most[best]), "GPU")
    raise InputError(
        f"tenant {tenant.name} may hold {what} at most, the job needs more at once",
        place="gpus",
        value=least,
        hint=f"Ask for fewer, or an operator for"
        f" `shockwave tenants {tenant.name} {best + '.' if by_type else ''}most={least}`",
    )
