"""Tenants: the teams that share a cluster, and what each was promised of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shockwave.model.errors import InputError


@dataclass(frozen=True, slots=True)
class Tenant:
    """What an operator says of a tenant.

    Tenants share GPUs in proportion to ``weight``. ``guaranteed`` GPUs are theirs whenever they
    want them, ``most`` is what they may hold at once, None for all. What a tenant leaves unused is
    lent to others, and comes back to it as carry-over: GPU time on top of its share, at most its
    share of ``carry_over_hours``, of which half is forgotten every ``half_life_hours``. With
    ``by_person`` the people of a tenant share equally what it has.
    """

    name: str
    weight: float = 1.0
    guaranteed: int = 0
    most: int | None = None
    carry_over_hours: float = 24.0
    half_life_hours: float = 168.0
    by_person: bool = False


def check_tenant(tenant: Tenant, source: str | None = None) -> Tenant:
    """The tenant, if it makes sense. Raises :class:`InputError` that names the field."""
    most = math.inf if tenant.most is None else tenant.most
    for field, is_right, expected in (
        ("name", bool(tenant.name), "a tenant has a name"),
        ("weight", 0 < tenant.weight < math.inf, "must be above 0"),
        ("half_life_hours", 0 < tenant.half_life_hours < math.inf, "must be above 0"),
        ("carry_over_hours", 0 <= tenant.carry_over_hours < math.inf, "must not be negative"),
        ("guaranteed", tenant.guaranteed >= 0, "must not be negative"),
        ("most", most >= tenant.guaranteed, "must not be below what is guaranteed"),
    ):
        if not is_right:
            place = f"tenant {tenant.name}, {field}"
            raise InputError(expected, source=source, place=place, value=getattr(tenant, field))
    return tenant
