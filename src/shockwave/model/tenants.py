"""Tenants: the teams that share a cluster, and what each was promised of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from shockwave.model.errors import InputError


@dataclass(frozen=True, slots=True)
class TypePromise:
    """What a tenant was promised of the GPUs of one type. Without a ``weight``, its own holds."""

    gpu_type: str
    weight: float | None = None
    guaranteed: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Tenant:
    """What an operator says of a tenant.

    Tenants share GPUs in proportion to ``weight``. ``guaranteed`` GPUs are theirs whenever they
    want them, ``most`` is what they may hold at once, None for all. What a tenant leaves unused is
    lent to others, and comes back to it as carry-over: GPU time on top of its share, at most its
    share of ``carry_over_hours``, of which half is forgotten every ``half_life_hours``. With
    ``by_person`` the people of a tenant share equally what it has. ``types`` says what is another
    for GPUs of some types; ``guaranteed`` and ``most`` of the tenant count those of all types.
    """

    name: str
    weight: float = 1.0
    guaranteed: int = 0
    most: int | None = None
    carry_over_hours: float = 24.0
    half_life_hours: float = 168.0
    by_person: bool = False
    types: tuple[TypePromise, ...] = ()

    @property
    def limited(self) -> bool:
        """Whether there is anything that it may not have."""
        return self.most is not None or any(promise.most is not None for promise in self.types)

    def most_of(self, gpu_type: str) -> float:
        """How many GPUs of a type it may hold at once."""
        promise = self._promise(gpu_type)
        limits = (self.most, promise.most)
        return min((limit for limit in limits if limit is not None), default=math.inf)

    def as_of(self, gpu_type: str, *, alone: bool) -> Tenant:
        """The tenant where only GPUs of this type are shared; ``alone``: there are no others."""
        promise = self._promise(gpu_type)
        most = self.most_of(gpu_type)
        guaranteed = max(promise.guaranteed, self.guaranteed if alone else 0)
        return replace(
            self,
            weight=self.weight if promise.weight is None else promise.weight,
            guaranteed=int(min(guaranteed, most)),
            most=None if math.isinf(most) else int(most),
        )

    def _promise(self, gpu_type: str) -> TypePromise:
        found = (promise for promise in self.types if promise.gpu_type == gpu_type)
        return next(found, TypePromise(gpu_type))


def tenant_of_record(record: dict[str, object]) -> Tenant:
    """The inverse of writing one down."""
    types = record.get("types", ())
    assert isinstance(types, list | tuple)
    return Tenant(**{**record, "types": tuple(TypePromise(**one) for one in types)})  # type: ignore[arg-type]


def check_tenant(tenant: Tenant, source: str | None = None) -> Tenant:
    """The tenant, if it makes sense. Raises :class:`InputError` that names the field."""
    _check("name", tenant.name, bool(tenant.name), "a tenant has a name", "tenant", source)
    _check_promise(tenant, f"tenant {tenant.name}", source)
    for promise in tenant.types:
        _check_promise(promise, f"tenant {tenant.name}, type {promise.gpu_type}", source)
    for field, is_right, expected in (
        ("half_life_hours", 0 < tenant.half_life_hours < math.inf, "must be above 0"),
        ("carry_over_hours", 0 <= tenant.carry_over_hours < math.inf, "must not be negative"),
    ):
        _check(field, getattr(tenant, field), is_right, expected, f"tenant {tenant.name}", source)
    return tenant


def _check_promise(promise: Tenant | TypePromise, place: str, source: str | None) -> None:
    weight = 1.0 if promise.weight is None else promise.weight
    most = math.inf if promise.most is None else promise.most
    for field, is_right, expected in (
        ("weight", 0 < weight < math.inf, "must be above 0"),
        ("guaranteed", promise.guaranteed >= 0, "must not be negative"),
        ("most", most >= promise.guaranteed, "must not be below what is guaranteed"),
    ):
        _check(field, getattr(promise, field), is_right, expected, place, source)


def _check(
    field: str, value: object, is_right: bool, expected: str, place: str, source: str | None
) -> None:
    if not is_right:
        raise InputError(expected, source=source, place=f"{place}, {field}", value=value)
